package blob

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset/bench/system"
)

func TestValue(t *testing.T) {
	var v value
	dots := make([]uint64, 3)
	v.add([][]byte{[]byte("c"), []byte("a"), {}}, dots)
	v.add([][]byte{[]byte("b")}, nil)
	v.add([][]byte{[]byte("c")}, nil)
	var w value
	if err := w.decode(v.append(nil)); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%d", w.last)
	for _, e := range w.entries {
		got += fmt.Sprintf(" %q:%d", e.element, e.dot)
	}
	if want := `5 "":3 "a":2 "b":4 "c":5`; got != want || !slices.Equal(dots, []uint64{1, 2, 3}) {
		t.Errorf("got %s, dots %v", got, dots)
	}
	for _, bad := range [][]byte{{1, 5, 'a'}, {1, 1, 'a'}, {1, 0x80}} {
		if err := w.decode(bad); !errors.Is(err, system.ErrWrong) {
			t.Errorf("decode(%x): got %v", bad, err)
		}
	}
}
