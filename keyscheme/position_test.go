package keyscheme_test

import (
	"errors"
	"testing"

	"bigset/keyscheme"
)

// TestPositionRefused: what Append would not have written is no position.
func TestPositionRefused(t *testing.T) {
	whole := (&keyscheme.Position{}).Append(nil)
	if _, err := keyscheme.DecodePosition(whole); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"nothing":              {},
		"an unknown kind":      append([]byte{'x'}, whole[1:]...),
		"a short id":           {'k', 1, 2, 3},
		"a byte after the end": append(append([]byte{}, whole...), 0),
		"a cut clock":          whole[:len(whole)-1],
		"a length that is not the shortest": {'w', 0x80 | whole[1], 0, whole[2], whole[3],
			whole[4], whole[5], whole[6]},
		"a clock that ends too late": {'w', 200, 1},
		"no clock":                   {'w', 0, 0},
		"an element that is too long": append((&keyscheme.Position{Listed: true}).Append(nil),
			make([]byte, keyscheme.ElementBytesMax+1)...),
	} {
		if _, err := keyscheme.DecodePosition(b); !errors.Is(err, keyscheme.ErrToken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
