package convergence_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"bigset/convergence"
)

// constant shows the same value of the key a, whatever was done.
type constant string

func (constant) Do(convergence.Op) (convergence.Effect, error) {
	return convergence.Effect{Out: [][]byte{{1}}}, nil
}
func (constant) Receive([]byte) (bool, error) { return false, nil }
func (constant) Close() error                 { return nil }

func (s constant) Read() (v convergence.View, err error) {
	if s != "" {
		v.Items = []convergence.Item{{Elem: "a", Values: strings.Split(string(s), " ")}}
	}
	return v, nil
}

// showing is a map that shows a constant.
type showing struct {
	convergence.Replica
	constant
}

func (s showing) Do(op convergence.Op) (convergence.Effect, error) { return s.Replica.Do(op) }
func (s showing) Receive(msg []byte) (bool, error)                 { return s.Replica.Receive(msg) }
func (s showing) Read() (convergence.View, error)                  { return s.constant.Read() }
func (s showing) Close() error                                     { return nil }

// locked is a replica whose operations two clients may call at once.
type locked struct {
	convergence.Replica
	mu *sync.Mutex
}

func (l locked) Do(op convergence.Op) (convergence.Effect, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Replica.Do(op)
}

// TestORMap: what a map with observed deletes may show after some operations, and what not.
func TestORMap(t *testing.T) {
	for _, c := range []struct {
		name, steps string
		wrong       map[string]string // the kind of violation by what is shown; other values are right
		right       []string
	}{
		{"a delete removes what its replica has", "1 do~ A put a value=1\n2 do~ A put a value=2\n3 do~ A delete a\n4 deliver~ 1.0 C\n5 deliver~ 2.0 C\n6 deliver~ 3.0 C\n7 read C\n",
			map[string]string{"1": convergence.Resurrected, "2": convergence.Resurrected}, []string{""}},
		{"what was replaced stays until the put that replaced it comes", "1 do~ A put a value=1\n2 do~ A put a value=2\n3 do~ A delete a\n4 deliver~ 1.0 C\n6 deliver~ 3.0 C\n7 read C\n",
			map[string]string{"3": convergence.Resurrected}, []string{"", "1"}},
		{"a concurrent put stays", "1 do~ A put a value=1\n2 deliver~ 1.0 B\n3 do~ B delete a\n4 do~ A put a value=2\n5 deliver~ 1.0 C\n6 deliver~ 3.0 C\n7 deliver~ 4.0 C\n8 read C\n",
			map[string]string{"": convergence.Lost, "1": convergence.Resurrected, "1 2": convergence.Failed}, []string{"2"}},
		{"the later put is shown", "1 do~ A put a value=1\n2 do~ B put a value=2\n3 deliver~ 1.0 C\n4 deliver~ 2.0 C\n5 read C\n",
			map[string]string{"": convergence.Lost, "1": convergence.Resurrected}, []string{"2"}},
		{"a put replaces a later one that it has seen, by wall clocks", "1 skew~ B 10000\n2 do~ B put a value=1\n3 deliver~ 2.0 A\n4 do~ A put a value=2\n5 deliver~ 2.0 C\n6 deliver~ 4.0 C\n7 read C\n",
			map[string]string{"": convergence.Lost}, []string{"1", "2"}},
		{"a deleted value stays with another put", "1 do~ A put a value=1\n2 do~ B put a value=2\n3 do~ B delete a\n4 deliver~ 1.0 C\n5 deliver~ 2.0 C\n6 deliver~ 3.0 C\n7 read C\n",
			map[string]string{"": convergence.Lost}, []string{"1", "2"}},
		{"after a delete times may begin again", "1 skew~ B 10000\n2 do~ B put a value=1\n3 deliver~ 2.0 A\n4 do~ A delete a\n5 do~ A put a value=2\n6 do~ C put a value=3\n7 deliver~ 2.0 C\n8 deliver~ 4.0 C\n9 deliver~ 5.0 C\n10 read C\n",
			map[string]string{"": convergence.Lost}, []string{"2", "3"}},
		{"of two clients at once, the delete may be the later one", "1 do~ A put a value=0\n2 both~ A delete a; put a value=1\n3 spread~ 1 C\n4 spread~ 2 C\n5 read C\n",
			map[string]string{"2": convergence.Resurrected}, []string{"", "1"}},
		{"many puts that may have replaced each other", manyPuts() + "999 read C\n",
			map[string]string{"": convergence.Lost}, []string{"1"}},
	} {
		check := func(shown, want string) {
			sys := correct(t, "or-map")
			sys.Parallel = strings.Contains(c.name, "two clients")
			open := sys.Open
			sys.Spec = convergence.ORMap{Time: convergence.TimeHybrid}
			if strings.Contains(c.name, "wall") {
				sys.Spec = convergence.ORMap{}
			}
			sys.Open = func(env convergence.Env) (convergence.Replica, error) {
				r, err := open(env)
				if sys.Parallel {
					r = locked{r, new(sync.Mutex)}
				}
				if env.ID == 2 { // replica C
					r = showing{r, constant(shown)}
				}
				return r, err
			}
			v, s := replay(t, sys, c.steps)
			got := ""
			if v != nil {
				got = v.Kind
			}
			if got != want {
				t.Errorf("%s: with %q shown it is %q, want %q\n%s", c.name, shown, got, want, s)
			}
		}
		for shown, want := range c.wrong {
			check(shown, want)
		}
		for _, shown := range c.right {
			check(shown, "")
		}
	}
}

// TestManyAddsReplaced: the verdict on an element that is not shown takes no time to speak of, although many adds of it replaced each other.
func TestManyAddsReplaced(t *testing.T) {
	sys := correct(t, "or-set")
	open := sys.Open
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		r, err := open(env)
		if env.ID == 2 { // replica C
			r = showing{r, ""}
		}
		return r, err
	}
	steps := strings.ReplaceAll(manyPuts(), "put a value=1", "add a") + "999 read C\n"
	if v, s := replay(t, sys, steps); v == nil || v.Kind != convergence.Lost {
		t.Errorf("%v\n%s", v, s)
	}
}

// manyPuts are forty puts of one key at a replica, each of which replaces the one before it. Two others receive them.
func manyPuts() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "%d do~ A put a value=1\n%d spread~ %d B\n%d spread~ %d C\n", 3*i+1, 3*i+2, 3*i+1, 3*i+3, 3*i+1)
	}
	return b.String()
}
