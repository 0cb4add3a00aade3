package handoff_test

import (
	"bytes"
	"errors"
	"testing"

	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
)

var (
	alice = handoff.Source{Node: "alice", Incarnation: "A1"}
	all   = handoff.Range{Last: keyscheme.SlotMax}
)

func dot(a string, n uint64) clock.Dot { return clock.Dot{Actor: clock.Actor(a), Counter: n} }

func chunk(set, bound string, seen *clock.Clock) handoff.Chunk {
	return handoff.Chunk{From: alice, Set: []byte(set), Bound: []byte(bound), Seen: seen}
}

func last(set string, seen *clock.Clock) handoff.Chunk {
	return handoff.Chunk{From: alice, Set: []byte(set), Done: true, Seen: seen}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stored sends a progress through its encoding.
func stored(t testing.TB, p *handoff.Progress) *handoff.Progress {
	t.Helper()
	b := p.Append(nil)
	q, err := handoff.Decode(b)
	must(t, err)
	if again := q.Append(nil); !bytes.Equal(again, b) {
		t.Fatalf("%x comes back as %x", b, again)
	}
	return q
}

func begin(t testing.TB, p *handoff.Progress, set, after string, whole bool) {
	t.Helper()
	got, w, err := p.Begin([]byte(set))
	must(t, err)
	if string(got) != after || w != whole {
		t.Fatalf("set %q goes on behind %q, whole %v; want %q, %v", set, got, w, after, whole)
	}
}

// TestCopyOfTwoSets follows a copy whose progress is stored after each step. The check is the clock of the first chunk, even if
// later ones are newer.
func TestCopyOfTwoSets(t *testing.T) {
	one, two := "one", "two"
	if handoff.CompareSets([]byte(one), []byte(two)) > 0 {
		one, two = two, one
	}
	p := handoff.New(alice, all)
	if p.Next() != 0 || !p.Wants([]byte(one)) {
		t.Fatal("a copy that has not begun")
	}
	begin(t, p, one, "", false)
	must(t, p.Took(chunk(one, "k", clock.Of(dot("a", 1), dot("a", 2)))))
	p = stored(t, p)
	begin(t, p, one, "k", false)
	must(t, p.Took(last(one, clock.Of(dot("a", 1), dot("a", 2), dot("b", 9)))))
	p = stored(t, p)
	begin(t, p, one, "", true)
	missing, err := p.Finish(clock.Of(dot("a", 1)))
	must(t, err)
	if !missing.Equal(clock.Of(dot("a", 2))) {
		t.Fatalf("missing %v", missing)
	}
	p = stored(t, p)
	if p.Wants([]byte(one)) || !p.Wants([]byte(two)) || p.Next() != keyscheme.SetSlot([]byte(one)) {
		t.Fatal("what is wanted after the first set")
	}
	if err := p.Incomplete(); !errors.Is(err, handoff.ErrIncomplete) {
		t.Fatalf("incomplete: %v", err)
	}
	begin(t, p, two, "", false)
	must(t, p.Took(last(two, &clock.Clock{})))
	if missing, err := p.Finish(&clock.Clock{}); err != nil || !missing.Empty() {
		t.Fatal(missing, err)
	}
	p = stored(t, p)
	if m := p.Settle([]byte(one), clock.Of(dot("a", 7))); !m.Equal(clock.Of(dot("a", 2))) {
		t.Fatalf("still missing %v", m)
	}
	if m := p.Settle([]byte(one), clock.Of(dot("a", 2))); !m.Empty() || p.Incomplete() != nil {
		t.Fatalf("settled, missing %v, %v", m, p.Incomplete())
	}
}

func TestRefused(t *testing.T) {
	seen := clock.Of(dot("a", 1))
	at := func() *handoff.Progress {
		p := handoff.New(alice, all)
		begin(t, p, "s", "", false)
		must(t, p.Took(chunk("s", "k", seen)))
		return p
	}
	older := chunk("s", "l", seen)
	older.From.Incarnation = "A0"
	bob := last("s", seen)
	bob.From.Node = "bob"
	both := last("s", seen)
	both.Bound = []byte("z")
	neither := chunk("s", "z", seen)
	neither.Bound = nil
	for _, c := range []struct {
		name  string
		chunk handoff.Chunk
		want  error
	}{
		{"another incarnation", older, handoff.ErrSource},
		{"another node", bob, handoff.ErrSource},
		{"another set", last("t", seen), handoff.ErrOrder},
		{"the same again", chunk("s", "k", seen), handoff.ErrOrder},
		{"before", chunk("s", "a", seen), handoff.ErrOrder},
		{"done and a bound", both, handoff.ErrOrder},
		{"neither done nor a bound", neither, handoff.ErrOrder},
	} {
		p := at()
		was := p.Append(nil)
		if err := p.Took(c.chunk); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !bytes.Equal(p.Append(nil), was) {
			t.Errorf("%s: the progress has changed", c.name)
		}
	}
	p := handoff.New(alice, all)
	begin(t, p, "s", "", false)
	if err := p.Took(last("s", nil)); !errors.Is(err, handoff.ErrOrder) {
		t.Errorf("a first chunk without a clock: %v", err)
	}
	if _, err := p.Finish(seen); !errors.Is(err, handoff.ErrOrder) {
		t.Errorf("finished before the last chunk: %v", err)
	}
	p = at()
	for name, q := range map[string]*handoff.Progress{
		"incarnation": p.Resume(handoff.Source{Node: "alice", Incarnation: "A2"}, all),
		"node":        p.Resume(handoff.Source{Node: "bob", Incarnation: "A1"}, all),
		"range":       p.Resume(alice, handoff.Range{Last: 7}),
		"none":        (*handoff.Progress)(nil).Resume(alice, all),
	} {
		if q == p || q.Next() != 0 || !q.Wants([]byte("s")) && name != "range" {
			t.Errorf("another %s goes on with the copy", name)
		}
	}
	if p.Resume(alice, all) != p {
		t.Error("the same copy begins again")
	}
	if p := handoff.New(alice, handoff.Range{}); p.Wants([]byte("s")) {
		t.Error("a set outside of the range")
	}
}

func TestDue(t *testing.T) {
	seen, dead := clock.Of(dot("a", 1), dot("a", 2), dot("a", 3), dot("b", 1)), clock.Of(dot("a", 2))
	if due := handoff.Due(seen, dead, clock.Of(dot("a", 1), dot("c", 1))); !due.Equal(clock.Of(dot("a", 3), dot("b", 1))) {
		t.Errorf("due %v", due)
	}
}

// samples are encodings of each shape.
func samples(t testing.TB) (all [][]byte) {
	p := handoff.New(alice, handoff.Range{Last: keyscheme.SlotMax})
	add := func() { all = append(all, p.Append(nil)) }
	add()
	_, _, err := p.Begin([]byte("s"))
	must(t, err)
	add()
	must(t, p.Took(chunk("s", "", clock.Of(dot("a", 1), dot("b", 5)))))
	add()
	must(t, p.Took(last("s", nil)))
	add()
	_, err = p.Finish(clock.Of(dot("b", 5)))
	must(t, err)
	add()
	return all
}

func TestCorrupt(t *testing.T) {
	for i, b := range samples(t) {
		for n := range b {
			if p, err := handoff.Decode(b[:n]); !errors.Is(err, handoff.ErrCorrupt) || p != nil {
				t.Errorf("sample %d, %d of %d bytes: %v", i, n, len(b), err)
			}
		}
		for _, bad := range [][]byte{append(bytes.Clone(b), 0), append([]byte{2}, b[1:]...)} {
			if _, err := handoff.Decode(bad); !errors.Is(err, handoff.ErrCorrupt) {
				t.Errorf("sample %d: %x is taken", i, bad)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := handoff.Decode(b)
		if err != nil {
			if !errors.Is(err, handoff.ErrCorrupt) || p != nil {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		stored(t, p)
	})
}
