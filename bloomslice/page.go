package bloomslice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
)

// PageBytes is the size of a page of bits, the unit that is stored, moved and faulted in. It is on disk.
const PageBytes = 4096

const (
	pageBits  = PageBytes * 8
	wordBits  = 64
	pageWords = pageBits / wordBits
)

// ErrCorruptPage is wrapped by errors about the value of a page. A damaged page is never taken for zeros: that would deny keys.
var ErrCorruptPage = errors.New("bloomslice: corrupt page")

// errReleased is the error of adding to a slice that was released.
var errReleased = errors.New("bloomslice: released")

// The first byte of a page's value. It is on disk.
const (
	pageWhole  = 1 // the page's bytes, without the zero bytes at its end
	pageSparse = 2 // the places of its bits, ascending, 2 bytes each, big-endian
)

// sparseMax is the number of bits above which places take more bytes than the page.
const sparseMax = PageBytes / 2

// words are the bits of a page: bit 0 is the most significant bit of the first word, as it is of the first byte in bloomd's files.
type words [pageWords]uint64

func (w *words) or(place uint16) { w[place/wordBits] |= 1 << (wordBits - 1 - place%wordBits) }

// has reports whether a bit is set. The writer may be setting it at the same time.
func (w *words) has(place uint64) bool {
	return atomic.LoadUint64(&w[place/wordBits%pageWords])&(1<<(wordBits-1)>>(place%wordBits)) != 0
}

// lacks returns 1 if the bit is clear, and 0 if it is set.
func (w *words) lacks(place uint64) int {
	return int(^(atomic.LoadUint64(&w[place/wordBits%pageWords]) >> (wordBits - 1 - place%wordBits)) & 1)
}

// set sets a bit. Other goroutines may be reading it at the same time.
func (w *words) set(place uint64) {
	atomic.OrUint64(&w[place/wordBits%pageWords], 1<<(wordBits-1)>>(place%wordBits))
}

// join sets the bits of another page. Other goroutines may be reading at the same time.
func (w *words) join(add *words) {
	for i, v := range add {
		if v&^w[i] != 0 {
			atomic.OrUint64(&w[i], v)
		}
	}
}

// within reports whether other has all bits that w has.
func (w *words) within(other *words) bool {
	for i, v := range w {
		if v&^other[i] != 0 {
			return false
		}
	}
	return true
}

// appendBytes appends the page's first n bytes.
func (w *words) appendBytes(dst []byte, n int) []byte {
	for i := range w {
		dst = binary.BigEndian.AppendUint64(dst, w[i])
	}
	return dst[:len(dst)-PageBytes+n]
}

// used returns the number of bytes up to the last that is not zero.
func (w *words) used() int {
	for i := pageWords - 1; i >= 0; i-- {
		if v := w[i]; v != 0 {
			n := 8 * (i + 1)
			for ; v&0xFF == 0; v >>= 8 {
				n--
			}
			return n
		}
	}
	return 0
}

// AppendPage appends the value of a page, given its bytes: at most PageBytes, the missing ones are zero. Equal bits have equal
// values, whatever they were made from.
func AppendPage(dst, page []byte) ([]byte, error) {
	var w words
	if len(page) > PageBytes {
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrCorruptPage, len(page), PageBytes)
	}
	w.orBytes(page)
	return w.append(dst), nil
}

// placesFew is the number of places that are looked for before the bits are counted: a page that has no more is read only once.
const placesFew = 64

// append appends the page's value in the shorter of the two forms.
func (w *words) append(dst []byte) []byte {
	var few [placesFew]uint16
	if places := w.places(few[:0], len(few)); len(places) > 0 && len(places) <= (int(places[len(places)-1])/8+1)/2 {
		return appendPlaces(slices.Grow(dst, 1+2*len(places)), places)
	}
	used := w.used()
	if n := w.count(); n <= used/2 {
		return appendPlaces(dst, w.places(make([]uint16, 0, n), n))
	}
	return w.appendBytes(append(dst, pageWhole), used)
}

func (w *words) count() (n int) {
	for _, v := range w {
		n += bits.OnesCount64(v)
	}
	return n
}

// places appends the places of the bits, ascending, or returns nil if there are more than n.
func (w *words) places(dst []uint16, n int) []uint16 {
	for i, v := range w {
		for v != 0 {
			if len(dst) >= n {
				return nil
			}
			z := bits.LeadingZeros64(v)
			v &^= 1 << (wordBits - 1 - z)
			dst = append(dst, uint16(i*wordBits+z))
		}
	}
	return dst
}

// appendPlaces appends a page's value that has these bits, which must be ascending.
func appendPlaces(dst []byte, places []uint16) []byte {
	dst = append(dst, pageSparse)
	for _, p := range places {
		dst = binary.BigEndian.AppendUint16(dst, p)
	}
	return dst
}

func (w *words) orBytes(b []byte) {
	i := 0
	for ; len(b) >= 8; b = b[8:] {
		w[i] |= binary.BigEndian.Uint64(b)
		i++
	}
	for j, c := range b {
		w[i] |= uint64(c) << (56 - 8*j)
	}
}

// orValue joins the bits of a page's value. Its error is ErrCorruptPage, and then nothing is joined.
func (w *words) orValue(value []byte) error {
	if len(value) == 0 {
		return fmt.Errorf("%w: no bytes", ErrCorruptPage)
	}
	body := value[1:]
	switch value[0] {
	case pageWhole:
		if len(body) > PageBytes {
			return fmt.Errorf("%w: %d bytes, at most %d", ErrCorruptPage, len(body), PageBytes)
		}
		w.orBytes(body)
		return nil
	case pageSparse:
		if err := checkPlaces(body); err != nil {
			return err
		}
		for ; len(body) > 0; body = body[2:] {
			w.or(binary.BigEndian.Uint16(body))
		}
		return nil
	}
	return fmt.Errorf("%w: unknown form %d", ErrCorruptPage, value[0])
}

func checkPlaces(body []byte) error {
	if len(body)%2 != 0 || len(body)/2 > sparseMax {
		return fmt.Errorf("%w: %d bytes of places", ErrCorruptPage, len(body))
	}
	last := -1
	for ; len(body) > 0; body = body[2:] {
		p := int(binary.BigEndian.Uint16(body))
		if p <= last || p >= pageBits {
			return fmt.Errorf("%w: place %d follows %d", ErrCorruptPage, p, last)
		}
		last = p
	}
	return nil
}

// DecodePage appends the bytes of a page, PageBytes of them. Its error is ErrCorruptPage.
func DecodePage(dst, value []byte) ([]byte, error) {
	var w words
	if err := w.orValue(value); err != nil {
		return dst, err
	}
	return w.appendBytes(dst, PageBytes), nil
}
