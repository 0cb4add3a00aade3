package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// trying is a replica that tries of one request reach.
type trying struct {
	*Replica
	t *testing.T
}

func newTrying(t *testing.T) trying {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l, err := New("alice", store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	return trying{l, t}
}

func opsOf(element string) []bigset.Op {
	return []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(element)}}
}

func requestOf(id string, try uint64) bigset.WriteOptions {
	return bigset.WriteOptions{Request: []byte(id), Try: try}
}

func (l trying) knows(try uint64, want bool) {
	l.t.Helper()
	if known, _, err := l.Knows(l.t.Context(), []byte("s"), []byte("r1"), try); known != want || err != nil {
		l.t.Fatalf("try %d: known %v, %v", try, known, err)
	}
}

// late says that a question is refused, because a larger one came before.
func (l trying) late(try, held uint64) {
	l.t.Helper()
	known, _, err := l.Knows(l.t.Context(), []byte("s"), []byte("r1"), try)
	var other *peer.OvertakenError
	if known || !errors.Is(err, peer.ErrOvertaken) || !errors.As(err, &other) || other.Held != held {
		l.t.Fatalf("try %d: known %v, %v", try, known, err)
	}
}

func (l trying) write(set, id string, try uint64) (bigset.Result, error) {
	r, _, err := l.Write(l.t.Context(), []byte(set), opsOf("x"), requestOf(id, try))
	return r, err
}

func (l trying) refused(try uint64) {
	l.t.Helper()
	if r, err := l.write("s", "r1", try); !errors.Is(err, peer.ErrOvertaken) || !errors.Is(err, peer.ErrUnavailable) || !r.Delta.Empty() {
		l.t.Fatalf("try %d: %+v, %v", try, r, err)
	}
}

// TestTries: after a try of a request was told that the request has not happened, no other try does it, and a question with a larger number takes the place
// of a former one. A question with a smaller number is refused, and changes nothing. What has happened any try repeats. A try without a number is done: its
// node runs an older version.
func TestTries(t *testing.T) {
	t.Parallel()
	l := newTrying(t)
	l.knows(0, false)
	l.knows(2, false)
	l.refused(1)
	l.knows(3, false)
	l.refused(2)
	l.late(2, 3)
	l.late(1, 3)
	l.refused(2)
	l.refused(4)      // it has not asked
	l.late(3, 3)      // another try may have the same number
	l.knows(0, false) // which takes no place
	l.refused(2)
	for _, other := range [][2]string{{"s", "r2"}, {"sr", "1"}, {"other", "r1"}} {
		if r, err := l.write(other[0], other[1], 1); err != nil || r.Delta.Empty() {
			t.Errorf("request %s of set %s: %+v, %v", other[1], other[0], r, err)
		}
	}
	done, err := l.write("s", "r1", 3)
	if err != nil || len(done.Dots) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, try := range []uint64{0, 1, 2, 3, 4} {
		l.knows(try, true)
		if r, err := l.write("s", "r1", 1); err != nil || r.Dots[0] != done.Dots[0] {
			t.Errorf("again: %+v, %v, the first time %+v", r, err, done)
		}
	}
	older := newTrying(t)
	older.knows(2, false)
	if r, err := older.write("s", "r1", 0); err != nil || r.Delta.Empty() {
		t.Errorf("a try without a number: %+v, %v", r, err)
	}
}

// TestTriesOfGroup: a request of a group that another try has overtaken is refused by itself, unless it has happened; the others are done.
func TestTriesOfGroup(t *testing.T) {
	t.Parallel()
	l := newTrying(t)
	before, err := l.write("s", "r2", 7)
	if err != nil {
		t.Fatal(err)
	}
	l.knows(2, false)
	if known, _, err := l.Knows(t.Context(), []byte("s"), []byte("r2"), 2); !known || err != nil {
		t.Fatalf("known %v, %v", known, err)
	}
	group := func(try uint64) []bigset.WriteOutcome {
		t.Helper()
		all := []bigset.WriteRequest{{Ops: opsOf("a")}, {Ops: opsOf("b"), WriteOptions: requestOf("r1", try)}, {Ops: opsOf("x"), WriteOptions: requestOf("r2", try)}, {Ops: opsOf("c"), WriteOptions: requestOf("r3", try)}}
		out, by, err := l.WriteMany(t.Context(), []byte("s"), all)
		if err != nil || by != l.Member() || len(out) != len(all) {
			t.Fatalf("%d outcomes of %v, %v", len(out), by, err)
		}
		return out
	}
	out := group(1)
	if !errors.Is(out[1].Err, peer.ErrOvertaken) || !out[1].Delta.Empty() {
		t.Errorf("an overtaken request: %+v", out[1])
	}
	if out[2].Err != nil || out[2].Dots[0] != before.Dots[0] {
		t.Errorf("an overtaken request that has happened: %+v", out[2])
	}
	for _, i := range []int{0, 3} {
		if out[i].Err != nil || out[i].Delta.Empty() || string(out[i].Delta.Items[0].Element) != []string{"a", "", "", "c"}[i] {
			t.Errorf("request %d: %+v", i, out[i])
		}
	}
	if out := group(2); out[1].Err != nil || string(out[1].Delta.Items[0].Element) != "b" {
		t.Errorf("the try that has asked: %+v", out[1])
	}
	all := []bigset.WriteRequest{{Ops: opsOf("d"), WriteOptions: requestOf("r4", 1)}}
	if _, _, err := l.Knows(t.Context(), []byte("s"), []byte("r4"), 2); err != nil {
		t.Fatal(err)
	}
	if out, _, err := l.WriteMany(t.Context(), []byte("s"), all); err != nil || !errors.Is(out[0].Err, peer.ErrOvertaken) {
		t.Errorf("a group of one: %+v, %v", out, err)
	}
	if len(l.tries.under) != 0 || len(l.tries.ended) != 0 {
		t.Errorf("under way %v, awaited %v", l.tries.under, l.tries.ended)
	}
}

// TestTryUnderWay: a question about a request that is being done, alone or in a group, by one or two tries, is answered when it is done, or given up with its
// context. What begins after the question is refused.
func TestTryUnderWay(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		l := newTrying(t)
		given, cancel := context.WithCancel(t.Context())
		cancel()
		type answer struct {
			known bool
			err   error
		}
		answered := make(chan answer, 2)
		o := requestOf("r1", 1)
		o.Durability, o.Applied = bigset.Sync, func(bigset.Result, *bigset.Group) {
			r := l.tries.request([]byte("s"), []byte("r1"))
			if _, err := l.tries.ask(given, r, 2); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, context.Canceled) { // Knows would call the store, which Applied must not
				t.Errorf("a question that was given up: %v", err)
			}
			for i := range 2 {
				go func() {
					known, _, err := l.Knows(t.Context(), []byte("s"), []byte("r1"), uint64(3+i))
					answered <- answer{known, err}
				}()
				for asked := 0; asked < 2+i; { // the one before, too, so that the order is known
					runtime.Gosched()
					l.tries.mu.Lock()
					asked = len(l.tries.asked)
					l.tries.mu.Unlock()
				}
			}
			if _, ok := l.tries.begin(r, 1); ok {
				t.Error("the try begins again")
				l.tries.end(r)
			}
			select {
			case a := <-answered:
				t.Errorf("answered before it is done: %+v", a)
			default:
			}
		}
		var err error
		if many {
			_, _, err = l.WriteMany(t.Context(), []byte("s"), []bigset.WriteRequest{{Ops: opsOf("y")}, {Ops: opsOf("x"), WriteOptions: o}})
		} else {
			_, _, err = l.Write(t.Context(), []byte("s"), opsOf("x"), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if a := <-answered; !a.known || a.err != nil {
				t.Errorf("many %v: %+v", many, a)
			}
		}
	}
}

// TestTriesForgotten: as many questions are remembered as the limit says. A request that is asked for again counts from then on.
func TestTriesForgotten(t *testing.T) {
	t.Parallel()
	l := newTrying(t)
	id := func(i int) request { return l.tries.request([]byte("s"), fmt.Append(nil, i)) }
	overtaken := func(i int) bool {
		if _, ok := l.tries.begin(id(i), 1); ok {
			l.tries.end(id(i))
			return false
		}
		return true
	}
	for i := range triesMax {
		l.tries.took(id(i), 2)
	}
	if !overtaken(0) || !overtaken(1) || !overtaken(triesMax-1) {
		t.Error("a question is forgotten too early")
	}
	l.tries.took(id(2), 3)
	for i := range 3 {
		l.tries.took(id(triesMax+i), 2)
	}
	for i, want := range map[int]bool{0: false, 1: false, 2: true, 3: false, 4: true, triesMax: true} {
		if overtaken(i) != want {
			t.Errorf("request %d: overtaken %v", i, !want)
		}
	}
	for i := range 3 * triesMax {
		l.tries.took(id(i), 2)
	}
	if len(l.tries.last) != triesMax || len(l.tries.asked) != triesMax {
		t.Errorf("%d requests and %d questions are remembered", len(l.tries.last), len(l.tries.asked))
	}
}

// TestTriesAllocate: a write of a request with an id takes no memory for its try.
func TestTriesAllocate(t *testing.T) {
	l := newTrying(t)
	set, id := []byte("s"), []byte("r1")
	l.knows(2, false)
	if n := testing.AllocsPerRun(100, func() {
		r := l.tries.request(set, id)
		if _, ok := l.tries.begin(r, 1); ok {
			t.Error("an overtaken try begins")
		}
		r = l.tries.request(id, set)
		if _, ok := l.tries.begin(r, 1); ok {
			l.tries.end(r)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
