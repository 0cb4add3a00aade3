package resp

import (
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/alone"
	"bigset/server/door"
)

// TestPresentAddsAreSkipped: with the option of a node alone an add of elements that are present writes nothing. Replies are the same, and an add that gives contexts writes.
func TestPresentAddsAreSkipped(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := alone.New(store)
	b.SkipPresent()
	dial, _ := serve(t, b, Options{})
	p := dial()
	events := func() uint64 {
		t.Helper()
		s, err := b.Stats(t.Context(), []byte("k"), 0)
		if err != nil {
			t.Fatal(err)
		}
		return s.Seen
	}
	for _, c := range []struct {
		args   []string
		reply  string
		events uint64 // of the set, after it
	}{
		{[]string{"SADD", "k", "a", "b"}, ":2", 2},
		{[]string{"SADD", "k", "a", "b"}, ":0", 2},
		{[]string{"SADD", "k", "a", "c", "c"}, ":1", 3},
		{[]string{"SREM", "k", "a"}, ":1", 4},
		{[]string{"SADD", "k", "a"}, ":1", 5},
		{[]string{"SISMEMBER", "k", "a"}, ":1", 5},
		{[]string{"SCARD", "k"}, ":3", 5},
		{[]string{"SADD", "k", "b", "g", "c", "f", "e", "d"}, ":4", 9}, // enough to be put in order
		{[]string{"SINTERCARD", "1", "k"}, ":7", 9},
	} {
		if got := p.do(t, c.args...); got != c.reply {
			t.Errorf("%v: %s, want %s", c.args, got, c.reply)
		}
		if n := events(); n != c.events {
			t.Errorf("%v: %d events, want %d", c.args, n, c.events)
		}
	}
	if p.do(t, "BS.ADD", "k", "ELEMENTS", "a"); events() != 10 {
		t.Errorf("an add whose reply is a context: %d events", events())
	}
	if _, err := b.Write(t.Context(), door.Write{Set: []byte("k"), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}, Request: []byte("id")}); err != nil || events() != 11 {
		t.Errorf("an add with the id of a request: %d events, %v", events(), err)
	}
}
