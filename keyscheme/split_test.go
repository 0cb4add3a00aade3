package keyscheme_test

import (
	"slices"
	"testing"

	"bigset/keyscheme"
)

// TestSplitSlots: the parts have the same size, give or take a slot, and leave nothing out. Where they are split is part of a
// protocol.
func TestSplitSlots(t *testing.T) {
	const max = keyscheme.SlotMax
	for _, c := range []struct {
		first, last keyscheme.Slot
		parts       int
		want        []keyscheme.Slot
	}{
		{0, max, 1, []keyscheme.Slot{max}},
		{0, max, 4, []keyscheme.Slot{max / 4, max / 2, max/4*3 + 2, max}},
		{0, max, 3, []keyscheme.Slot{0x55555554, 0xAAAAAAA9, max}},
		{10, 19, 3, []keyscheme.Slot{12, 15, 19}},
		{10, 12, 7, []keyscheme.Slot{10, 11, 12}},
		{max, max, 2, []keyscheme.Slot{max}},
		{2, 1, 2, nil},
		{1, 2, 0, nil},
	} {
		if got := keyscheme.SplitSlots(c.first, c.last, c.parts); !slices.Equal(got, c.want) {
			t.Errorf("%x to %x in %d: %x, want %x", c.first, c.last, c.parts, got, c.want)
		}
	}
}
