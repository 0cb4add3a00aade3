package comparator_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"bigset/comparator"
	"bigset/keyscheme"
)

func within(b keyscheme.Bounds, key []byte) bool {
	return comparator.Compare(b.Lower, key) <= 0 && comparator.Compare(key, b.Upper) < 0
}

// TestBounds checks that each of keyscheme's bounds contains exactly the stored keys that its name says.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := goodKeys.Draw(t, "key")
		k, err := keyscheme.Decode(key)
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind == keyscheme.KindEnd {
			return // never stored
		}
		slot, set := slots.Draw(t, "slot"), smallBytes(0, 2).Draw(t, "set")
		if rapid.Bool().Draw(t, "same set") {
			slot, set = k.Slot, k.Set
		}
		p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, slot, set))
		from, to := smallBytes(0, 3).Draw(t, "from"), smallBytes(0, 3).Draw(t, "to")
		last := slots.Draw(t, "last")

		inStore := k.Kind != keyscheme.KindStoreMeta
		inSet := k.PrefixLen() > 0 && k.Slot == slot && bytes.Equal(k.Set, set)
		isElement := inSet && k.Kind == keyscheme.KindElement
		e := k.Element
		for _, c := range []struct {
			name   string
			bounds keyscheme.Bounds
			want   bool
		}{
			{"All", p.All(), inSet},
			{"Causal", p.Causal(), inSet && (k.Kind == keyscheme.KindClock || k.Kind == keyscheme.KindClockPage || k.Kind == keyscheme.KindTombstone || k.Kind == keyscheme.KindTombstonePage)},
			{"TombstonePages", p.TombstonePages(), inSet && k.Kind == keyscheme.KindTombstonePage},
			{"Tombstones", p.Tombstones(), inSet && (k.Kind == keyscheme.KindTombstone || k.Kind == keyscheme.KindTombstonePage)},
			{"Elements", p.Elements(), isElement},
			{"Element", p.Element(from), isElement && bytes.Equal(e, from)},
			{"Starting", p.Starting(from), isElement && bytes.HasPrefix(e, from)},
			{"open", p.Range(keyscheme.Edge{}, keyscheme.Edge{}), isElement},
			{"from", p.Range(keyscheme.Before(from), keyscheme.Edge{}), isElement && bytes.Compare(e, from) >= 0},
			{"after", p.Range(keyscheme.After(from), keyscheme.Edge{}), isElement && bytes.Compare(e, from) > 0},
			{"to", p.Range(keyscheme.Edge{}, keyscheme.Before(to)), isElement && bytes.Compare(e, to) < 0},
			{"through", p.Range(keyscheme.Edge{}, keyscheme.After(to)), isElement && bytes.Compare(e, to) <= 0},
			{"from to", p.Range(keyscheme.Before(from), keyscheme.Before(to)), isElement && bytes.Compare(from, e) <= 0 && bytes.Compare(e, to) < 0},
			{"after through", p.Range(keyscheme.After(from), keyscheme.After(to)), isElement && bytes.Compare(from, e) < 0 && bytes.Compare(e, to) <= 0},
			{"SlotRange", keyscheme.SlotRange(slot, last), inStore && slot <= k.Slot && k.Slot <= last},
			{"SlotSets", keyscheme.SlotSets(slot), k.PrefixLen() > 0 && k.Slot == slot},
		} {
			if got := within(c.bounds, key); got != c.want {
				t.Fatalf("%s: is %s in [%s, %s): %v, want %v", c.name, comparator.Format(key),
					comparator.Format(c.bounds.Lower), comparator.Format(c.bounds.Upper), got, c.want)
			}
			for _, bound := range [][]byte{c.bounds.Lower, c.bounds.Upper} {
				if comparator.Split(bound) != len(bound) {
					t.Fatalf("%s: the bound %s is no whole prefix", c.name, comparator.Format(bound))
				}
			}
		}
	})
}

// TestElementSuccessor: the bound after an element is the immediate successor of the element's own.
func TestElementSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, slots.Draw(t, "slot"), smallBytes(0, 3).Draw(t, "set")))
		element := smallBytes(0, 4).Draw(t, "element")
		got := comparator.ImmediateSuccessor(nil, p.AppendElementBound(nil, element))
		if want := p.AppendElementAfter(nil, element); !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s", comparator.Format(got), comparator.Format(want))
		}
	})
}

// TestRequestBounds: the bounds hold the keys of their request, and no others.
func TestRequestBounds(t *testing.T) {
	p, q := keyscheme.NewPrefix([]byte("set")), keyscheme.AppendPrefix(nil, keyscheme.SetSlot([]byte("set")), []byte("seta"))
	for _, id := range []string{"a", "b", "ab", "a\x00", "\xff"} {
		for _, mark := range []uint64{0, 1, 1<<64 - 1} {
			key := p.AppendRequestKey(nil, []byte(id), mark)
			for _, other := range []string{"a", "b", "ab", "a\x00", "\xff"} {
				if within(p.Request([]byte(other)), key) != (id == other) {
					t.Errorf("id %q with mark %d and the bounds of %q", id, mark, other)
				}
			}
			if within(keyscheme.Prefix(q).Request([]byte(id)), key) {
				t.Errorf("id %q in the bounds of another set", id)
			}
			if k, err := keyscheme.Decode(key); err != nil || !k.IsRequest() || !within(keyscheme.Requests(p.Slot()), key) {
				t.Errorf("%x: %+v, %v", key, k, err)
			}
		}
	}
	if k, err := keyscheme.Decode(p.AppendClock(nil)); err != nil || k.IsRequest() || bytes.Equal(k.Set, nil) {
		t.Errorf("%+v, %v", k, err)
	}
}
