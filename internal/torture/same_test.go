package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/history"
	"bigset/server/bloomd"
	"bigset/server/cluster"
	"bigset/server/door"
)

// TestAgree: stores that differ are repaired and compared again, up to a bound, and any other error ends it.
func TestAgree(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, c := range []struct {
		name     string
		compared []error // by round
		want     error
		restarts int
	}{
		{"alike", []error{nil}, nil, 0},
		{"alike after two repairs", []error{errDiffer, errDiffer, nil}, nil, 2},
		{"alike in the last round", []error{errDiffer, errDiffer, errDiffer, errDiffer, nil}, nil, roundsMax - 1},
		{"never alike", []error{errDiffer, errDiffer, errDiffer, errDiffer, errDiffer}, errDiffer, roundsMax - 1},
		{"broken", []error{errDiffer, other}, other, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			repairs, compared, restarts := 0, 0, 0
			err := agree(t.Context(), func(context.Context) error { repairs++; return nil }, func(context.Context) error {
				compared++
				if repairs != compared || restarts != compared-1 || compared > len(c.compared) {
					t.Fatalf("comparison %d after %d repairs and %d restarts", compared, repairs, restarts)
				}
				if err := c.compared[compared-1]; err != nil {
					return fmt.Errorf("wrapped: %w", err)
				}
				return nil
			}, func(context.Context) error { restarts++; return nil })
			if !errors.Is(err, c.want) || restarts != c.restarts {
				t.Errorf("%v after %d restarts, want %v after %d", err, restarts, c.want, c.restarts)
			}
		})
	}
}

// fiveNodes are nodes of which set0 belongs to a, c and d, and set1 to b, c and e.
func fiveNodes() (all []*node, owners func(string) []string) {
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, &node{id: id})
	}
	return all, func(name string) []string {
		if name == "set0" {
			return []string{"d", "a", "c"}
		}
		return []string{"b", "e", "c"}
	}
}

// TestSameElements: an owner of a set with an element or an add less or more than the others is found and named, whichever owner it is, and so
// is a node that has something of a set that it does not own. Nodes that own different sets have different elements, rightly.
func TestSameElements(t *testing.T) {
	t.Parallel()
	one, two := held{[]string{"e1", "e2"}, 2, "s1"}, held{[]string{"e7"}, 1, "s2"}
	for _, c := range []struct {
		node, set string
		held      held
		copied    []int // nodes whose folders a was copied from
		want      string
	}{
		{},
		{"d", "set0", held{[]string{"e1"}, 1, "x"}, nil, "of set0, node d alone has [], and node a alone has [e2]"},
		{"a", "set0", held{[]string{"e1"}, 1, "x"}, nil, "of set0, node d alone has [e2], and node a alone has []"},
		{"c", "set0", held{[]string{"e1", "e2", "e3"}, 3, "x"}, nil, "of set0, node d alone has [], and node c alone has [e3]"},
		{"e", "set1", held{}, nil, "of set1, node b alone has [e7], and node e alone has []"},
		{"c", "set1", held{[]string{"e7"}, 2, "x"}, nil, "of set1, node b has 1 adds, and node c 2, of the same 1 elements"},
		{"c", "set1", held{[]string{"e7"}, 1, "x"}, nil, "of set1, node b has other adds than node c, of the same 1 elements"},
		{"b", "set0", one, nil, "node b has set0, which nodes [d a c] own"},
		{"b", "set0", held{}, nil, "node b has set0, which nodes [d a c] own"},
		{"a", "set1", two, nil, "node a has set1, which nodes [b e c] own"},
		{"a", "set1", two, []int{3}, "node a has set1, which nodes [b e c] own"},
		{"a", "set1", two, []int{3, 4}, ""},
		{"a", "set2", two, nil, `node a has a set "set2", which no client has`},
	} {
		all, owners := fiveNodes()
		for _, i := range c.copied {
			all[0].copied = append(all[0].copied, all[i])
		}
		err := sameElements(all, []string{"set0", "set1"}, owners, func(n *node) (map[string]held, error) {
			has := map[string]held{}
			if strings.Contains("acd", n.id) {
				has["set0"] = one
			}
			if strings.Contains("bce", n.id) {
				has["set1"] = two
			}
			if n.id == c.node {
				has[c.set] = c.held
			}
			return has, nil
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
		if repairable := strings.HasPrefix(c.want, "of "); errors.Is(err, errDiffer) != repairable {
			t.Errorf("%+v: %v: whether a repair may help is wrong", c, err)
		}
	}
}

// TestEnoughMarks: a key that too few owners have is found and named, and so is a node that has a slice that it does not own.
func TestEnoughMarks(t *testing.T) {
	t.Parallel()
	all := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
	places := map[uint32]int{} // slice 0 is owned as set0, slice 1 as set1
	for _, key := range all {
		h := bloomslice.Sum([]byte(key))
		places[h.Slice(2)]++
	}
	if len(places) != 2 {
		t.Fatalf("the keys are in %d slices of 2", len(places))
	}
	for _, c := range []struct {
		lack   string // nodes that have the slices that they own, and no keys
		more   string // a node that has slice 1 too
		least  int
		copied int // a was copied from this node, if it is not a
		want   string
	}{
		{"", "", 2, 0, ""},
		{"c", "", 2, 0, ""},
		{"bd", "", 2, 0, ""},
		{"bc", "", 2, 0, "of nodes [b e c], which own slice 1 of f, only [e] have key"},
		{"ad", "", 2, 0, "of nodes [d a c], which own slice 0 of f, only [c] have key"},
		{"abcde", "", 0, 0, ""},
		{"", "a", 2, 0, "node a has slice 1 of f, which nodes [b e c] own"},
		{"", "d", 0, 0, "node d has slice 1 of f, which nodes [b e c] own"},
		{"", "a", 2, 3, "node a has slice 1 of f, which nodes [b e c] own"},
		{"", "a", 2, 4, ""},
		{"bc", "a", 2, 4, "of nodes [b e c], which own slice 1 of f, only [e] have key"},
	} {
		nodes, owners := fiveNodes()
		if c.copied > 0 {
			nodes[0].copied = []*node{nodes[c.copied]}
		}
		err := enoughMarks(nodes, "f", all, c.least, func(_ string, slice uint32) []string { return owners(setName(int(slice))) }, func(n *node, _ string, keys []string) (marked, error) {
			m := marked{slices: 2, keys: map[string]bool{}}
			for slice := range uint32(2) {
				if slices.Contains(owners(setName(int(slice))), n.id) || slice == 1 && n.id == c.more {
					m.here = append(m.here, slice)
				}
			}
			for _, key := range keys {
				h := bloomslice.Sum([]byte(key))
				if slices.Contains(m.here, h.Slice(2)) && !strings.Contains(c.lack, n.id) {
					m.keys[key] = true
				}
			}
			return m, nil
		})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	nodes, owners := fiveNodes()
	of := func(string, uint32) []string { return owners("set0") }
	none := func(*node, string, []string) (marked, error) { return marked{}, nil }
	if err := enoughMarks(nodes, "f", all, 2, of, none); err == nil || !strings.Contains(err.Error(), "no node has f") {
		t.Errorf("got %v of a filter that no node has", err)
	}
	if err := errors.Join(enoughMarks(nodes, "f", nil, 2, of, none), enoughMarks(nodes, "f", all, 0, of, none)); err != nil {
		t.Errorf("got %v of a filter that was not used, or dropped", err)
	}
}

// TestOwners: the owners are those that the cluster of these members has, three of five, and each of five nodes owns some sets and not all.
func TestOwners(t *testing.T) {
	t.Parallel()
	s := cluster.Status{Settings: cluster.StatusSettings{N: 3, R: 2, W: 2, DW: 2, Buckets: 256, Slices: 256}}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		s.Members = append(s.Members, cluster.MemberStatus{ID: id})
	}
	o, err := ownersOf(&s)
	if err != nil {
		t.Fatal(err)
	}
	owns := map[string]int{}
	for i := range sets {
		own := o.set(setName(i))
		if len(own) != 3 {
			t.Errorf("set %d: %v", i, own)
		}
		for _, id := range own {
			owns[id]++
		}
	}
	for i := range s.Members {
		if n := owns[s.Members[i].ID]; n == 0 || n == sets {
			t.Errorf("node %s owns %d of %d sets", s.Members[i].ID, n, sets)
		}
	}
	if got := fmt.Sprint(o.set("set0"), o.slice("seen", 4)); got != "[e d b] [e c a]" {
		t.Errorf("got %s", got)
	}
}

// TestFilterVanished: a member that says that a filter does not exist denies all keys that were acknowledged, unless a drop explains it.
func TestFilterVanished(t *testing.T) {
	t.Parallel()
	for _, dropped := range []bool{false, true} {
		us, them := net.Pipe()
		go func() {
			for in := bufio.NewScanner(them); in.Scan(); {
				_, _ = them.Write([]byte("Filter does not exist\n"))
			}
		}()
		var at time.Duration
		r := history.New(func() time.Duration { at++; return at })
		c := &bloomdClient{h: r.Client("a"), nc: us, c: bloomd.NewClient(us)}
		c.h.Mark(filterName(0), "k0", "k1").End(history.OK, nil)
		want := 2
		if dropped {
			c.h.DropFilter(filterName(0)).End(history.OK, nil)
			want = 0
		}
		if err := c.check(0, []string{"k0", "k1"}); !errors.Is(err, bloomd.ErrNoFilter) {
			t.Errorf("got %v", err)
		}
		us.Close()
		them.Close()
		got := r.Check().Violations
		if len(got) != want || want > 0 && got[0].Kind != history.Denied {
			t.Errorf("dropped %v: %v", dropped, got)
		}
	}
}

// TestDropSettled: a drop that members refused has failed, so checks after it are judged. One of which nothing is known is sent again after some
// time, until it is answered, and then later checks are judged.
func TestDropSettled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers []error
		judged  int
	}{
		{[]error{nil}, 1},
		{[]error{fmt.Errorf("%w: members are away", door.ErrUnavailable)}, 0},
		{[]error{bigset.ErrNoFilter}, 0},
		{[]error{&door.UnknownError{}, nil}, 1},
		{[]error{&door.UnknownError{}, &door.UnknownError{}, bigset.ErrNoFilter}, 1},
	} {
		var at time.Duration
		r, tries := history.New(func() time.Duration { at++; return at }), 0
		us, them := net.Pipe()
		go func() {
			for in := bufio.NewScanner(them); in.Scan(); {
				_, _ = them.Write([]byte("Done\n"))
			}
		}()
		b := &bloomdClient{h: r.Client("a"), nc: us, c: bloomd.NewClient(us)}
		b.order = func(context.Context, string) error { tries++; return c.answers[tries-1] }
		for i := range c.answers {
			_ = b.drop(t.Context(), 2)
			last := i == len(c.answers)-1
			if (b.unsettled == nil) != last {
				t.Errorf("%v: after %d tries, it is settled: %v", c.answers, tries, !last)
			}
			if !last {
				if _ = b.drop(t.Context(), 2); tries != i+1 {
					t.Errorf("%v: it is sent again at once", c.answers)
				}
				b.unknownAt = b.unknownAt.Add(-settleTime)
			}
		}
		b.h.Mark(filterName(2), "k").End(history.OK, nil)
		op := b.h.Check(filterName(2))
		op.Answered("k", false)
		op.End(history.OK, nil)
		us.Close()
		them.Close()
		if got := r.Check(); len(got.Violations) != 1 || got.Violations[0].Kind != history.Denied || got.OK < 2 || got.AfterDrop != c.judged {
			t.Errorf("%v: %+v", c.answers, got)
		}
	}
}
