package bigset_test

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

func dot(actor string, counter uint64) clock.Dot {
	return clock.Dot{Actor: clock.Actor(actor), Counter: counter}
}

// TestPackedPortion pins the bytes of packed keys, which other nodes read: see docs/format.md.
func TestPackedPortion(t *testing.T) {
	s := bigset.Portion{Set: []byte("s"), Dead: clock.Of(dot("A", 1))}
	s.Pack([]fold.Element{
		{Name: []byte("ab"), Dots: []clock.Dot{dot("A", 5)}},
		{Name: []byte("abc"), Dots: []clock.Dot{dot("A", 7), dot("B", 1)}},
		{Name: []byte("b"), Dots: []clock.Dot{dot("A", 6)}},
	})
	want := "\x00\x02ab\x00\x01A\x0a" + "\x02\x01c\x00\x04" + "\x03\x00\x01\x01B\x02" + "\x00\x01b\x00\x01"
	if string(s.Keys) != want || s.Count != 4 {
		t.Errorf("%d keys %q, want 4 %q", s.Count, s.Keys, want)
	}
	f, err := s.Facts()
	if err != nil || string(f.Set) != "s" || f.Dead != s.Dead || len(f.Keys) != 3 || len(f.Keys[1].Dots) != 2 {
		t.Errorf("%v, %v", f, err)
	}
}

// TestPortionRoundTrip packs elements at random and unpacks them.
func TestPortionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []fold.Element
		names := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 6, -1), 0, 12, rapid.ID[string]).Draw(t, "names")
		slices.Sort(names)
		for _, name := range names {
			dots := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) clock.Dot {
				return dot(rapid.SampledFrom([]string{"A", "BB", "C1"}).Draw(t, "actor"), rapid.Uint64Min(1).Draw(t, "counter"))
			}), 1, 4, rapid.ID[clock.Dot]).Draw(t, "dots")
			slices.SortFunc(dots, clock.Dot.Compare)
			keys = append(keys, fold.Element{Name: []byte(name), Dots: dots})
		}
		s := bigset.Portion{Set: []byte("s")}
		s.Pack(keys)
		f, err := s.Facts()
		if err != nil || !reflect.DeepEqual(f.Keys, keys) {
			t.Fatalf("%v, %v, want %v", f.Keys, err, keys)
		}
		for n := range s.Keys { // a cut portion has fewer keys, or is refused
			short := bigset.Portion{Keys: s.Keys[:n]}
			if f, err := short.Facts(); err == nil && len(f.Keys) > len(keys) || err != nil && !errors.Is(err, bigset.ErrFacts) {
				t.Fatalf("%d of %d bytes: %v, %v", n, len(s.Keys), f, err)
			}
		}
	})
}

// TestPortionRefused has keys that no PortionWriter writes.
func TestPortionRefused(t *testing.T) {
	for what, keys := range map[string]string{
		"shares more than there is": "\x01\x01a\x00\x01A\x02",
		"an element cut short":      "\x00\x05a",
		"an element too long":       "\x00\x81\x80\x04" + strings.Repeat("x", bigset.ElementBytesMax+1) + "\x00\x01A\x02",
		"no actor":                  "\x00\x01a",
		"an actor of no bytes":      "\x00\x01a\x00\x00\x02",
		"an actor too long":         "\x00\x01a\x00" + string(binary.AppendUvarint(nil, clock.ActorBytesMax+1)) + strings.Repeat("A", clock.ActorBytesMax+1) + "\x02",
		"an actor of a later key":   "\x00\x01a\x01\x01A\x02",
		"counter 0":                 "\x00\x01a\x00\x01A\x00",
		"no counter":                "\x00\x01a\x00\x01A",
		"a number too long":         "\x00\x01a\x00\x01A\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
	} {
		s := bigset.Portion{Set: []byte("s"), Keys: []byte(keys)}
		if f, err := s.Facts(); !errors.Is(err, bigset.ErrFacts) {
			t.Errorf("%s: %v, %v", what, f, err)
		}
	}
}
