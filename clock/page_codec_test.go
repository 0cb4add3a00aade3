package clock

import (
	"testing"

	"pgregory.net/rapid"
)

// The sizes on which the choice of a kind rests are those that are written, and each kind is read back as it was written.
func TestEveryKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.SampledFrom([]uint32{0, 1, 77, 60000}).Draw(t, "lo")
		length := rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32Range(125, 131), rapid.Uint32Range(16381, 16387))
		var spans []span
		for next := lo; len(spans) < 40; {
			first := next + length.Draw(t, "gap")
			last := first + length.Draw(t, "length")
			if last > lowMask {
				break
			}
			spans = append(spans, span{uint16(first), uint16(last)})
			next = last + 2
		}
		if len(spans) == 0 {
			return
		}
		sh := measure(spans, lo)
		write := map[int]func([]byte, []span, *shape) []byte{
			kindRuns: appendRuns, kindValues: appendValues, kindHoles: appendHoles, kindBitmap: appendBitmap,
		}
		read := map[int]func(*parser, uint32) error{
			kindRuns: (*parser).runs, kindValues: (*parser).values, kindHoles: (*parser).holes, kindBitmap: (*parser).bitmap,
		}
		for kind, w := range write {
			b := w(nil, spans, &sh)
			if len(b) != sh.bytes[kind] {
				t.Fatalf("kind %d of %v from %d: %d bytes, measured %d", kind, spans, lo, len(b), sh.bytes[kind])
			}
			p := parser{b: b}
			if err := read[kind](&p, lo); err != nil || p.off != len(b) || len(p.spans) != len(spans) {
				t.Fatalf("kind %d of %v from %d: %v, %v", kind, spans, lo, p.spans, err)
			}
			for i := range spans {
				if p.spans[i] != spans[i] {
					t.Fatalf("kind %d of %v from %d: %v", kind, spans, lo, p.spans)
				}
			}
		}
	})
}
