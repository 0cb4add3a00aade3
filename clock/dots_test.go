package clock

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestAppendDots: the short way of encoding a few dots gives the bytes of the long way.
func TestAppendDots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var dots []Dot
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			d := Dot{
				Actor:   rapid.SampledFrom([]Actor{"a", "ab", "b"}).Draw(t, "actor"),
				Counter: rapid.OneOf(rapid.Uint64Range(1, 30), rapid.Uint64Range(65530, 65540), rapid.Uint64()).Draw(t, "counter"),
			}
			for range rapid.IntRange(1, 4).Draw(t, "length") {
				dots = append(dots, d)
				d.Counter++
			}
		}
		want := Of(dots...).Append([]byte("x"))
		if got := AppendDots([]byte("x"), dots); !bytes.Equal(got, want) {
			t.Fatalf("AppendDots: got %x, want %x", got, want)
		}
	})
	var all []Dot
	for i := range uint64(3 * pageValues) {
		all = append(all, Dot{"a", 100 + i})
	}
	if got, want := AppendDots(nil, all), Of(all...).Append(nil); !bytes.Equal(got, want) {
		t.Fatalf("full pages: got %x, want %x", got, want)
	}
}
