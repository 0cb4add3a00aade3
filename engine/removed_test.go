package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
)

// removedNames asks for the elements of dead dots, as "element:counter" in order.
func removedNames(t *testing.T, s *engine.Store, set string, dots *clock.Clock) (all []string) {
	t.Helper()
	found, err := s.Replica().Removed(bg, []byte(set), dots)
	must(t, err, "removed")
	for _, e := range found {
		for _, d := range e.Dots {
			all = append(all, fmt.Sprintf("%s:%d", e.Name, d.Counter))
		}
	}
	slices.Sort(all)
	return all
}

// TestRemoved: a dot that dies by an operation on its element has a name, here and where the delta is applied; one that dies by a drop or by facts has none, and
// neither has one of another set, or one that died before anybody asked.
func TestRemoved(t *testing.T) {
	s, other := openPlainStore(t), openPlainStore(t)
	write := func(kind func(...string) []bigset.Op, elements ...string) bigset.Result {
		r, err := s.Write(bg, []byte("set"), kind(elements...), bigset.WriteOptions{})
		must(t, err, "write")
		must(t, other.Replica().ApplyDelta(bg, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
		return r
	}
	adds := func(es ...string) (ops []bigset.Op) {
		for _, e := range es {
			ops = append(ops, bigset.Add([]byte(e), bigset.Context{}))
		}
		return ops
	}
	removes := func(es ...string) (ops []bigset.Op) {
		for _, e := range es {
			ops = append(ops, bigset.Remove([]byte(e), bigset.Context{}))
		}
		return ops
	}
	write(adds, "old")    // 1
	write(removes, "old") // 2, and nobody asked before
	all := dotsOf(s.Replica().Actor(), 1, 100)
	for _, st := range []*engine.Store{s, other} {
		if got := removedNames(t, st, "set", all); len(got) > 0 {
			t.Fatalf("names of what died before anybody asked: %q", got)
		}
	}
	write(adds, "a", "b", "c", "d") // 3 to 6
	write(removes, "a")             // 7
	write(adds, "b")                // 8 replaces 4
	_, err := s.Replica().ApplyFacts(bg, bigset.Facts{Set: []byte("set"), Dead: dotsOf(s.Replica().Actor(), 5, 5)}, bigset.ApplyOptions{Durability: bigset.NoSync})
	must(t, err, "facts")
	_, err = s.Write(bg, []byte("set2"), adds("d"), bigset.WriteOptions{})
	must(t, err, "write")
	want := []string{"a:3", "b:4"}
	for _, st := range []*engine.Store{s, other} {
		if got := removedNames(t, st, "set", all); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if got := removedNames(t, s, "set", dotsOf(s.Replica().Actor(), 4, 4)); !slices.Equal(got, want[1:]) {
		t.Fatalf("%q of dot 4", got)
	}
	if got := removedNames(t, s, "set2", all); len(got) > 0 {
		t.Fatalf("%q of a set from which nothing was removed", got)
	}
	if _, err := s.Drop(bg, []byte("set"), bigset.DropOptions{Durability: bigset.NoSync}); err != nil {
		t.Fatal(err)
	}
	if got := removedNames(t, s, "set", all); !slices.Equal(got, want) {
		t.Fatalf("%q after a drop, want %q", got, want)
	}
	must(t, s.Close(), "close")
	if _, err := s.Replica().Removed(bg, []byte("set"), all); !errors.Is(err, bigset.ErrClosed) {
		t.Fatal(err)
	}
}

// TestRemovedForgets: the names are those of the last 4 to 8 MiB.
func TestRemovedForgets(t *testing.T) {
	s := openPlainStore(t)
	removedNames(t, s, "set", nil)
	name := func(i int) []byte { return fmt.Appendf(nil, "%050000d", i) }
	for i := range 300 {
		r, err := s.Write(bg, []byte("set"), []bigset.Op{bigset.Add(name(i), bigset.Context{})}, bigset.WriteOptions{Durability: bigset.NoSync})
		must(t, err, "add")
		_, err = s.Write(bg, []byte("set"), []bigset.Op{bigset.Remove(name(i), bigset.Saw(r.Dots...))}, bigset.WriteOptions{Durability: bigset.NoSync})
		must(t, err, "remove")
	}
	found, err := s.Replica().Removed(bg, []byte("set"), dotsOf(s.Replica().Actor(), 1, 600))
	must(t, err, "removed")
	bytes := 0
	for _, e := range found {
		bytes += len(e.Name)
	}
	last := slices.ContainsFunc(found, func(e fold.Element) bool { return string(e.Name) == string(name(299)) })
	if bytes < 4<<20-50_000 || bytes > 8<<20 || !last {
		t.Fatalf("%d bytes of names; the last is among them: %v", bytes, last)
	}
}

func openPlainStore(t *testing.T) *engine.Store {
	t.Helper()
	s, err := engine.Open(t.TempDir(), &engine.Options{Durability: bigset.NoSync, BackgroundInterval: -1})
	must(t, err, "open")
	t.Cleanup(func() { s.Close() })
	return s
}
