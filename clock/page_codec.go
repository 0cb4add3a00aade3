package clock

import (
	"encoding/binary"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// Kinds of page records. A page of values is written in the smallest of the last four kinds; among equals, in the first of them. A
// list of absent runs would only swap the roles of gap and length in kindRuns, and a raw array beats varint distances for at most
// three values a page, so neither exists. These are on disk and on the wire.
const (
	kindFull   = 0 // count of pages: an extent
	kindRuns   = 1 // count, then gap and length of each run
	kindValues = 2 // count, then the distance to each value
	kindHoles  = 3 // width, count, then the distance to each value that is missing
	kindBitmap = 4 // width, then a bit for each value, low bits first

	kindBits = 3 // of a record's first varint; the rest is the distance from the page before
)

// span is a run of values in a page, both ends included.
type span struct{ first, last uint16 }

// shape is what the choice of a kind depends on: the values of a page from lo on, and the bytes that each kind takes.
type shape struct {
	lo, last            uint32 // the least value possible and the highest present
	values, holes, runs int    // holes are counted from lo to last
	bytes               [kindBitmap + 1]int
}

// width is the number of values from lo on, less one.
func (s *shape) width() uint32 { return s.last - s.lo }

// measure returns the shape of spans, which are sorted, apart, not empty and not below lo.
func measure(spans []span, lo uint32) shape {
	s := shape{lo: lo, runs: len(spans)}
	next, present := lo, 0 // the value after the last run; values since the last hole
	for i, sp := range spans {
		gap, n := uint32(sp.first)-next, int(sp.last-sp.first)+1
		s.bytes[kindRuns] += uvarintLen(gap-min(1, uint32(i))) + uvarintLen(uint32(n-1))
		s.bytes[kindValues] += uvarintLen(gap) + n - 1
		if gap > 0 {
			s.bytes[kindHoles] += uvarintLen(uint32(present)) + int(gap) - 1
			s.holes += int(gap)
			present = 0
		}
		s.values += n
		present += n
		next = uint32(sp.last) + 1
	}
	s.last = next - 1
	width := uvarintLen(s.width())
	s.bytes[kindRuns] += uvarintLen(uint32(s.runs))
	s.bytes[kindValues] += uvarintLen(uint32(s.values))
	s.bytes[kindHoles] += width + uvarintLen(uint32(s.holes))
	s.bytes[kindBitmap] = width + int(s.width()/8) + 1
	return s
}

// kind returns the kind in which the page is written.
func (s *shape) kind() uint64 {
	best := kindRuns
	for k := kindValues; k <= kindBitmap; k++ {
		if s.bytes[k] < s.bytes[best] {
			best = k
		}
	}
	return uint64(best)
}

func uvarintLen(v uint32) int { return (bits.Len32(v|1) + 6) / 7 }

// pageWriter appends pages. It keeps a scratch list between them.
type pageWriter struct{ spans []span }

// page appends the record of a page of values that lies delta pages after the one before.
func (w *pageWriter) page(dst []byte, p *page, delta uint64, lo uint32) []byte {
	w.spans = w.spans[:0]
	for first, end := range p.bits.Ranges() {
		w.spans = append(w.spans, span{uint16(first), uint16(end - 1)})
	}
	return w.record(dst, delta, lo)
}

// record appends the record of a page that holds w.spans.
func (w *pageWriter) record(dst []byte, delta uint64, lo uint32) []byte {
	s := measure(w.spans, lo)
	kind := s.kind()
	dst = binary.AppendUvarint(dst, delta<<kindBits|kind)
	switch kind {
	case kindRuns:
		return appendRuns(dst, w.spans, &s)
	case kindValues:
		return appendValues(dst, w.spans, &s)
	case kindHoles:
		return appendHoles(dst, w.spans, &s)
	default:
		return appendBitmap(dst, w.spans, &s)
	}
}

// appendRuns writes gaps less one, because runs that touch are one run; the first gap may be empty and is written as it is.
func appendRuns(dst []byte, spans []span, s *shape) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	next := s.lo
	for _, sp := range spans {
		dst = binary.AppendUvarint(dst, uint64(uint32(sp.first)-next))
		dst = binary.AppendUvarint(dst, uint64(sp.last-sp.first))
		next = uint32(sp.last) + 2
	}
	return dst
}

func appendValues(dst []byte, spans []span, s *shape) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.values))
	next := s.lo
	for _, sp := range spans {
		dst = binary.AppendUvarint(dst, uint64(uint32(sp.first)-next))
		for range sp.last - sp.first {
			dst = append(dst, 0)
		}
		next = uint32(sp.last) + 1
	}
	return dst
}

func appendHoles(dst []byte, spans []span, s *shape) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.width()))
	dst = binary.AppendUvarint(dst, uint64(s.holes))
	next, expect := s.lo, s.lo // the value after the last run; the value after the last hole
	for _, sp := range spans {
		for ; next < uint32(sp.first); next++ {
			dst = binary.AppendUvarint(dst, uint64(next-expect))
			expect = next + 1
		}
		next = uint32(sp.last) + 1
	}
	return dst
}

func appendBitmap(dst []byte, spans []span, s *shape) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.width()))
	at := len(dst)
	dst = append(dst, make([]byte, s.width()/8+1)...)
	for _, sp := range spans {
		for v := uint32(sp.first) - s.lo; v <= uint32(sp.last)-s.lo; v++ {
			dst[at+int(v/8)] |= 1 << (v % 8)
		}
	}
	return dst
}

// bitmapMaker makes bitmaps of spans. It reuses its scratch space, so that a page allocates only what is kept.
type bitmapMaker struct{ words *[pageValues / 64]uint64 }

// of returns the bitmap of a page that has n values.
func (m *bitmapMaker) of(spans []span, n int) *roaring.Bitmap {
	b := roaring.New()
	switch {
	case n == len(spans) && n <= spansByRange:
		for _, s := range spans {
			b.Add(uint32(s.first))
		}
	case len(spans) <= spansByRange:
		for _, s := range spans {
			b.AddRange(uint64(s.first), uint64(s.last)+1)
		}
	default:
		if m.words == nil {
			m.words = new([pageValues / 64]uint64)
		}
		clear(m.words[:])
		for _, s := range spans {
			setWords(m.words, s)
		}
		b.FromDense(m.words[:], true)
		if len(spans) <= packRuns {
			b.RunOptimize()
		}
	}
	return b
}

func setWords(words *[pageValues / 64]uint64, s span) {
	i, j := s.first/64, s.last/64
	head, tail := ^uint64(0)<<(s.first%64), ^uint64(0)>>(63-s.last%64)
	if i == j {
		words[i] |= head & tail
		return
	}
	words[i] |= head
	for k := i + 1; k < j; k++ {
		words[k] = ^uint64(0)
	}
	words[j] |= tail
}
