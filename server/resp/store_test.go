package resp

import (
	"bytes"
	"context"
	"iter"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/door"
)

// readOf is a backend that calls a function at the first read of a set after the function was given.
type readOf struct {
	*alone.Backend
	set []byte
	do  func()
}

func (b *readOf) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	if do := b.do; do != nil && bytes.Equal(r.Set, b.set) && r.Limit != 1 { // a limit of 1 asks whether the key exists
		b.do = nil
		do()
	}
	return b.Backend.Read(ctx, r)
}

// TestStoreWhileOthersWrite: what another client makes of the destination, while a STORE reads its sources, stays if the result is empty. A
// filter stays whatever the result is.
func TestStoreWhileOthersWrite(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &readOf{Backend: alone.New(store), set: nameOf([]byte("a"))}
	dial, _ := serve(t, b, Options{})
	p, other := dial(), dial()
	p.do(t, "SADD", "a", "1", "3", "5")
	p.do(t, "SADD", "b", "2", "4", "6")
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, c := range []struct {
		name                     string
		before, during, command  []string
		reply, question, present string
	}{
		{"a filter, and no elements", nil, []string{"BF.ADD", "f", "x"}, []string{"SINTERSTORE", "f", "a", "b"}, wrongType, "BF.EXISTS", ":1"},
		{"a filter, and elements", nil, []string{"BF.ADD", "g", "x"}, []string{"SUNIONSTORE", "g", "a", "b"}, wrongType, "BF.EXISTS", ":1"},
		{"a new set", nil, []string{"SADD", "k", "x"}, []string{"SINTERSTORE", "k", "a", "b"}, ":0", "SISMEMBER", ":1"},
		{"an element", []string{"SADD", "l", "y"}, []string{"SADD", "l", "x"}, []string{"SINTERSTORE", "l", "a", "b"}, ":0", "SISMEMBER", ":1"},
		{"no change", []string{"SADD", "m", "x"}, []string{"SADD", "n", "x"}, []string{"SINTERSTORE", "m", "a", "b"}, ":0", "SISMEMBER", ":0"},
	} {
		if c.before != nil {
			p.do(t, c.before...)
		}
		during := ""
		b.do = func() { during = other.do(t, c.during...) }
		if got := p.do(t, c.command...); got != c.reply || during != ":1" {
			t.Errorf("%s: %s, and of the other client %q", c.name, got, during)
		}
		if got := p.do(t, c.question, c.command[1], "x"); got != c.present {
			t.Errorf("%s: x is there: %s", c.name, got)
		}
	}
	if got := p.do(t, "SMEMBERS", "l"); got != `*[$"x"]` {
		t.Errorf("after the STORE without elements: %s", got)
	}
}
