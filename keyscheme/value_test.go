package keyscheme_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

// clocks draws small clocks with gaps.
var clocks = rapid.Custom(func(t *rapid.T) *clock.Clock {
	c := clock.Of()
	for range rapid.IntRange(0, 6).Draw(t, "ranges") {
		first := rapid.Uint64Range(1, 40).Draw(t, "first")
		c.AddRange(rapid.SampledFrom([]clock.Actor{"a", "b", "ab"}).Draw(t, "actor"), first, first+rapid.Uint64Range(0, 9).Draw(t, "more"))
	}
	return c
})

var clockValues = rapid.Custom(func(t *rapid.T) keyscheme.ClockValue {
	return keyscheme.ClockValue{
		Seen:       clocks.Draw(t, "seen"),
		Unresolved: rapid.Int64().Draw(t, "open"),
		Flags:      keyscheme.ClockFlags(rapid.IntRange(0, 1).Draw(t, "flags")),
	}
})

func sameClockValue(a, b keyscheme.ClockValue) bool {
	return a.Unresolved == b.Unresolved && a.Flags == b.Flags && a.Seen.Equal(b.Seen)
}

func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := clockValues.Draw(t, "value")
		got, err := keyscheme.DecodeClockValue(keyscheme.AppendClockValue(nil, v))
		if err != nil || !sameClockValue(got, v) {
			t.Fatalf("%v decodes as %v, %v", v, got, err)
		}
		dead, err := keyscheme.DecodeTombstoneValue(keyscheme.AppendTombstoneValue(nil, v.Seen))
		if err != nil || !dead.Equal(v.Seen) {
			t.Fatalf("%v decodes as %v, %v", v.Seen, dead, err)
		}
		unresolved := keyscheme.AppendElementValue(nil, v.Seen)
		context, err := keyscheme.DecodeElementValue(unresolved)
		if err != nil || !keyscheme.IsUnresolved(unresolved) || context == nil || !context.Equal(v.Seen) {
			t.Fatalf("%v decodes as %v, %v", v.Seen, context, err)
		}
	})
}

func TestTombstoneOfDots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dots := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) clock.Dot {
			actor := rapid.SampledFrom([]clock.Actor{"a", "b", "ab"}).Draw(t, "actor")
			return clock.Dot{Actor: actor, Counter: rapid.Uint64Range(1, 9).Draw(t, "counter")}
		}), 0, 9).Draw(t, "dots")
		want := keyscheme.AppendTombstoneValue(nil, clock.Of(dots...))
		if got := keyscheme.AppendTombstoneDots(nil, dots); !bytes.Equal(got, want) {
			t.Fatalf("%v gives %x, want %x", dots, got, want)
		}
	})
}

func TestValuesOfNothing(t *testing.T) {
	resolved := keyscheme.AppendElementValue(nil, nil)
	if context, err := keyscheme.DecodeElementValue(resolved); context != nil || err != nil || keyscheme.IsUnresolved(resolved) {
		t.Errorf("closed: %v, %v", context, err)
	}
	if keyscheme.IsUnresolved(keyscheme.ResolvedValue) {
		t.Error("ResolvedValue is unresolved")
	}
	v, err := keyscheme.DecodeClockValue(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{}))
	if err != nil || v.Seen == nil || !v.Seen.Empty() {
		t.Errorf("empty clock value: %v, %v", v, err)
	}
	dead, err := keyscheme.DecodeTombstoneValue(keyscheme.AppendTombstoneValue(nil, nil))
	if err != nil || !dead.Empty() {
		t.Errorf("empty tombstone: %v, %v", dead, err)
	}
}

func TestLargeValuesAreCompressed(t *testing.T) {
	c := clock.Of()
	for n := uint64(1); n < 40000; n += 7 {
		c.Add(clock.Dot{Actor: "actor", Counter: n})
	}
	plain := len(c.Append(nil))
	if n := len(keyscheme.AppendTombstoneValue(nil, c)); n >= plain {
		t.Errorf("a tombstone of %d bytes takes %d", plain, n)
	}
	if n := len(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: c})); n >= plain {
		t.Errorf("a clock of %d bytes takes %d", plain, n)
	}
}

func TestCorruptValues(t *testing.T) {
	element := func(b []byte) error { _, err := keyscheme.DecodeElementValue(b); return err }
	clocks := func(b []byte) error { _, err := keyscheme.DecodeClockValue(b); return err }
	bundle := func(b []byte) error { _, err := keyscheme.DecodeBundle(b); return err }
	tombstone := func(b []byte) error { _, err := keyscheme.DecodeTombstoneValue(b); return err }
	one := clock.Of(clock.Dot{Actor: "a", Counter: 1}).Append(nil)
	with := func(head ...byte) []byte { return append(head, one...) }
	for _, c := range []struct {
		name   string
		decode func([]byte) error
		value  []byte
		good   bool
	}{
		{"element open", element, with(1), true},
		{"element empty", element, nil, false},
		{"element closed with a tail", element, []byte{0, 0}, false},
		{"element unknown flag", element, with(3), false},
		{"element without its context", element, []byte{1}, false},
		{"clock", clocks, with(1, 1, 3), true},
		{"clock empty", clocks, nil, false},
		{"clock of version 2", clocks, with(2, 0, 0), false},
		{"clock without flags", clocks, []byte{1}, false},
		{"clock with unknown flags", clocks, with(1, 16, 0), false},
		{"clock without count", clocks, []byte{1, 0}, false},
		{"clock with a padded count", clocks, with(1, 0, 0x80, 0), false},
		{"clock with a count of 65 bits", clocks, with(1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 3), false},
		{"clock without Seen", clocks, []byte{1, 0, 0}, false},
		{"clock with a tail", clocks, append(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{}), 0), false},
		{"clock bundle", clocks, []byte{255, 1, 9}, false},
		{"tombstone", tombstone, with(1), true},
		{"tombstone empty", tombstone, nil, false},
		{"tombstone of version 0", tombstone, with(0), false},
		{"tombstone without dots", tombstone, []byte{1}, false},
		{"tombstone bundle", tombstone, []byte{255, 1, 9}, false},
		{"bundle", bundle, []byte{255, 1, 9, 0}, true},
		{"bundle of nothing", bundle, []byte{255}, false},
		{"bundle of another byte", bundle, []byte{254, 1, 9}, false},
		{"bundle cut short", bundle, []byte{255, 2, 9}, false},
		{"bundle with a padded size", bundle, []byte{255, 0x81, 0, 9}, false},
		{"bundle with a size of 65 bits", bundle, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 3}, false},
	} {
		if err := c.decode(c.value); c.good != (err == nil) || err != nil && !errors.Is(err, keyscheme.ErrCorruptValue) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDoubtIsUnresolved: a filter drops keys that are resolved, so nothing but the value of a resolved key may pass for one.
func TestDoubtIsUnresolved(t *testing.T) {
	for _, value := range [][]byte{nil, {1}, {2}, {0, 0}, {0xFF}} {
		if !keyscheme.IsUnresolved(value) {
			t.Errorf("%x is closed", value)
		}
	}
}

func TestCountsOfAnySize(t *testing.T) {
	for _, unresolved := range []int64{0, 1, -1, 63, -64, 64, math.MaxInt64, math.MinInt64} {
		got, err := keyscheme.DecodeClockValue(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Unresolved: unresolved}))
		if err != nil || got.Unresolved != unresolved {
			t.Errorf("%d decodes as %d, %v", unresolved, got.Unresolved, err)
		}
	}
}
