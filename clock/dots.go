package clock

import (
	"encoding/binary"
	"slices"
)

// AppendDots appends the canonical encoding of Of(dots...) without making that clock: what one write adds is encoded at every
// write, and is mostly a dot or two. It sorts dots. Invalid dots are left out.
func AppendDots(dst []byte, dots []Dot) []byte {
	dots = slices.DeleteFunc(dots, func(d Dot) bool { return !d.Valid() })
	slices.SortFunc(dots, Dot.Compare)
	dots = slices.Compact(dots)
	if len(dots) >= pageValues { // a page may be full, which is written in another way
		return Of(dots...).Append(dst)
	}
	if len(dots) == 1 {
		dst = binary.AppendUvarint(append(dst, formDot), dots[0].Counter)
		return append(dst, dots[0].Actor...)
	}
	dst = append(dst, formClock)
	actors := 0
	for i := range dots {
		actors += int(b2u(i == 0 || dots[i].Actor != dots[i-1].Actor))
	}
	dst = binary.AppendUvarint(dst, uint64(actors))
	var w pageWriter
	for len(dots) > 0 {
		n := 1
		for n < len(dots) && dots[n].Actor == dots[0].Actor {
			n++
		}
		dst = w.dots(dst, dots[:n])
		dots = dots[n:]
	}
	return dst
}

// dots appends one actor's section, as section does, from its dots. No page of them is full.
func (w *pageWriter) dots(dst []byte, dots []Dot) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(dots[0].Actor)))
	dst = append(dst, dots[0].Actor...)
	base := uint64(0)
	for len(dots) > 0 && dots[0].Counter == base+1 {
		base++
		dots = dots[1:]
	}
	dst = binary.AppendUvarint(dst, base)
	pages := uint64(0)
	for i := range dots {
		pages += b2u(i == 0 || dots[i].Counter>>pageBits != dots[i-1].Counter>>pageBits)
	}
	dst = binary.AppendUvarint(dst, pages)
	at := placeAfter(base)
	for len(dots) > 0 {
		index := dots[0].Counter >> pageBits
		w.spans = w.spans[:0]
		for len(dots) > 0 && dots[0].Counter>>pageBits == index {
			low := uint16(dots[0].Counter & lowMask)
			if k := len(w.spans) - 1; k >= 0 && w.spans[k].last+1 == low {
				w.spans[k].last = low
			} else {
				w.spans = append(w.spans, span{low, low})
			}
			dots = dots[1:]
		}
		dst = w.record(dst, index-at.next, at.low(index))
		at.next = index + 1
	}
	return dst
}
