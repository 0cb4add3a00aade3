package fold_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// unresolvedKey is a key of the one element of these tests, with what its author had seen; nil if the key is resolved.
type unresolvedKey struct {
	dot  clock.Dot
	op   keyscheme.Op
	wide *clock.Clock
}

var universe = []clock.Dot{{Actor: "a", Counter: 1}, {Actor: "a", Counter: 2}, {Actor: "a", Counter: 3}, {Actor: "b", Counter: 1},
	{Actor: "b", Counter: 2}, {Actor: "c", Counter: 1}, {Actor: "c", Counter: 2}}

func drawClock(t *rapid.T, label string) *clock.Clock {
	c := &clock.Clock{}
	for _, d := range universe {
		if rapid.Bool().Draw(t, label) {
			c.Add(d)
		}
	}
	return c
}

func drawUnresolvedKeys(t *rapid.T, dead *clock.Clock) (keys []unresolvedKey) {
	for _, d := range universe {
		if rapid.Bool().Draw(t, "absent") {
			continue
		}
		k := unresolvedKey{dot: d, op: keyscheme.OpAdd}
		if rapid.Bool().Draw(t, "open") {
			k.wide = drawClock(t, "context")
			if rapid.Bool().Draw(t, "remove") {
				k.op = keyscheme.OpRemove
				dead.Add(d) // a remove's own dot always is
			}
		}
		keys = append(keys, k)
	}
	return keys
}

// present returns the dots by which the element is present: those of adds that are neither dead nor in any context.
func present(keys []unresolvedKey, dead *clock.Clock) (dots []clock.Dot) {
	for _, k := range keys {
		if k.op == keyscheme.OpAdd && !dead.Contains(k.dot) &&
			!slices.ContainsFunc(keys, func(o unresolvedKey) bool { return o.wide.Contains(k.dot) }) {
			dots = append(dots, k.dot)
		}
	}
	return dots
}

// TestUnresolvedKeys: the context of an unresolved key counts, also when its own dot is dead, wherever it stands among the element's keys.
func TestUnresolvedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dead := drawClock(t, "dead")
		keys := drawUnresolvedKeys(t, dead)
		want := present(keys, dead)
		reverse := rapid.Bool().Draw(t, "reverse")
		f := fold.New(dead, fold.Options{Reverse: reverse})
		if reverse {
			keys = slices.Clone(keys)
			slices.Reverse(keys)
		}
		for _, k := range keys {
			value := keyscheme.AppendElementValue(nil, k.wide)
			must(t, f.Step([]byte("x"), []byte(k.dot.Actor), k.dot.Counter, k.op, value))
			clear(value)
		}
		must(t, f.Step([]byte("y"), []byte("z"), 1, keyscheme.OpAdd, keyscheme.ResolvedValue)) // no context reaches another element
		got := f.Chunk(true).Elements
		if reverse {
			slices.Reverse(got)
		}
		var all []fold.Element
		if len(want) > 0 {
			all = append(all, fold.Element{Name: []byte("x"), Dots: want})
		}
		all = append(all, fold.Element{Name: []byte("y"), Dots: []clock.Dot{{Actor: "z", Counter: 1}}})
		slices.SortFunc(got, func(a, b fold.Element) int { return bytes.Compare(a.Name, b.Name) })
		if !sameElements(got, all) {
			t.Errorf("%v, want %v", got, all)
		}
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestResolve: the pass changes nothing that a reader sees, kills only what a context within seen covers, resolves every key whose
// context is within seen, no other, and leaves no resolved remove.
func TestResolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, dead := drawClock(t, "seen"), drawClock(t, "dead")
		keys := drawUnresolvedKeys(t, dead)
		// A key whose dot is dead and which is closed need not be shown, and may have been dropped.
		keys = slices.DeleteFunc(keys, func(k unresolvedKey) bool {
			return k.wide == nil && dead.Contains(k.dot) && rapid.Bool().Draw(t, "dropped")
		})
		in := make([]fold.Key, len(keys))
		for i, k := range keys {
			in[i] = fold.Key{Dot: k.dot, Op: k.op, Wide: k.wide}
		}
		before := present(keys, dead)
		killed, fates := fold.Resolve(in, seen, dead, nil)
		for _, d := range killed {
			if !slices.ContainsFunc(keys, func(k unresolvedKey) bool { return k.wide.Contains(d) && seen.Descends(k.wide) }) || dead.Contains(d) {
				t.Errorf("killed %v", d)
			}
			dead.Add(d)
		}
		var after []unresolvedKey
		for i, k := range keys {
			within := k.wide != nil && seen.Descends(k.wide)
			switch fates[i] {
			case fold.Keep:
				if within || k.wide == nil && dead.Contains(k.dot) {
					t.Errorf("%v is kept as it is", k)
				}
				after = append(after, k)
			case fold.Close:
				if !within || k.op == keyscheme.OpRemove || dead.Contains(k.dot) {
					t.Errorf("%v is closed and kept", k)
				}
				after = append(after, unresolvedKey{dot: k.dot, op: k.op})
			case fold.Leave:
				if k.wide != nil && !within || !dead.Contains(k.dot) {
					t.Errorf("%v is left out", k)
				}
			}
		}
		if got := present(after, dead); !slices.Equal(got, before) {
			t.Errorf("present by %v, before by %v", got, before)
		}
	})
}

// TestCorruptValue: a value that can't be read is an error, not a resolved key.
func TestCorruptValue(t *testing.T) {
	f := fold.New(&clock.Clock{}, fold.Options{})
	for _, value := range [][]byte{{}, {2}, {0, 0}, {1}, {1, 0xFF}} {
		if err := f.Step([]byte("a"), []byte("n"), 1, keyscheme.OpAdd, value); !errors.Is(err, fold.ErrCorrupt) {
			t.Errorf("value %x: %v, want %v", value, err, fold.ErrCorrupt)
		}
	}
}
