package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// ElementRange says which keys of a set are summed up by ElementDigests.
type ElementRange struct {
	After  []byte       // the elements behind this one; nil is from the first
	UpTo   []byte       // the last element; nil is to the end
	Within *clock.Clock // only keys with these dots; nil is none
	// Mean is how many elements there are in a part, about; 1 is each by itself. From 1 to ElementsMeanMax.
	Mean int
}

// ElementDigest sums up the live keys of a part of a set. Parts that follow each other can be joined: so sums of two stores can be
// compared wherever both have ended a part.
type ElementDigest struct {
	Bound    []byte   // the last element that the part covers; the next part begins behind it
	Elements uint64   // elements with such keys
	Sum      [16]byte // of (element, dots), added up; zero when there are none
}

// ElementDigests are the parts of a range, in order.
type ElementDigests struct {
	Parts []ElementDigest
	Done  bool // the range has ended; else it goes on behind the last part, and there is one
}

// Bounds of one call of ElementDigests, and of what it may be asked.
const (
	ElementPartsMax     = 4096
	ElementsMeanMax     = 1 << 20
	elementPartsBytes   = 1 << 20 // of elements that end a part
	elementDigestKeyMax = 200_000 // keys that are read
)

// Join makes a part one with that which follows it.
func (d *ElementDigest) Join(next *ElementDigest) {
	d.Bound = next.Bound
	d.Elements += next.Elements
	d.add(&next.Sum)
}

// Same reports whether two parts hold the same keys.
func (d *ElementDigest) Same(o *ElementDigest) bool {
	return d.Elements == o.Elements && d.Sum == o.Sum
}

func (d *ElementDigest) add(sum *[16]byte) {
	low, carry := bits.Add64(binary.BigEndian.Uint64(d.Sum[8:]), binary.BigEndian.Uint64(sum[8:]), 0)
	high, _ := bits.Add64(binary.BigEndian.Uint64(d.Sum[:8]), binary.BigEndian.Uint64(sum[:8]), carry)
	binary.BigEndian.PutUint64(d.Sum[8:], low)
	binary.BigEndian.PutUint64(d.Sum[:8], high)
}

// ElementDigests hashes the live keys of some dots of a set, (element, dot), in parts of the range: what rot has changed, which Seen and
// Dead say nothing of, shows when the sums of two stores differ that were asked for the same dots, seen and not dead at both. Where a
// part ends is decided by the element alone, so that two stores cut alike. One call opens one iterator for a short while, reads a
// bounded number of keys, and ends a part where it stops. A set of which this store has never heard is ErrNotFound, an open key
// ErrOpenKey, a block that can't be read ErrCorrupt. The clock must not change meanwhile.
func (s *Store) ElementDigests(ctx context.Context, name []byte, r ElementRange) (d ElementDigests, err error) {
	if r.Mean < 1 || r.Mean > ElementsMeanMax {
		return d, fmt.Errorf("%w: parts of %d elements", ErrRequest, r.Mean)
	}
	for _, e := range [][]byte{r.After, r.UpTo} {
		if err := checkElement(e); err != nil {
			return d, err
		}
	}
	if n := r.Within.HeapBytes(); n > ClockBytesMax {
		return d, &LimitError{"bytes of a clock", n, ClockBytesMax}
	}
	err = s.withSet(ctx, name, func(st *set) error {
		b := ReadOptions{After: r.After}.bounds(st.prefix)
		if r.UpTo != nil {
			b.Upper = sooner(b.Upper, st.prefix.Range(keyscheme.Edge{}, keyscheme.After(r.UpTo)).Upper)
		}
		g := digesting{mean: uint64(r.Mean)}
		if err := s.digestElements(ctx, st, b, r.Within, &g); err != nil {
			return fmt.Errorf("engine: hash elements of %q: %w", st.name, lsm.DiskError(err))
		}
		d = g.ElementDigests
		return nil
	})
	return d, err
}

func (s *Store) digestElements(ctx context.Context, st *set, b keyscheme.Bounds, within *clock.Clock, g *digesting) (err error) {
	e := st.readers.enter()
	defer st.readers.leave(e)
	st.viewing.RLock()
	dead := st.view().dead
	it, err := s.db.OpenSet(st.prefix, &pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	st.viewing.RUnlock()
	if err != nil {
		return err
	}
	defer closing(it, &err)
	began, prefixLen := time.Now(), len(st.prefix)
	for ok, n := it.First(), 1; ok; ok, n = it.Next(), n+1 {
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return fmt.Errorf("%w: key %x", ErrCorrupt, it.Key())
		}
		if n == 1 || string(element) != string(g.element) {
			g.endElement()
			if g.full {
				return nil
			}
			g.element = append(g.element[:0], element...)
		}
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			g.full = g.full || n >= elementDigestKeyMax || time.Since(began) > iteratorAgeMax
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if keyscheme.IsOpen(value) || op != keyscheme.OpAdd {
			return fmt.Errorf("%w: element %.64q", ErrOpenKey, element)
		}
		if within.ContainsBytes(actor, counter) && !dead.ContainsBytes(actor, counter) {
			g.key(actor, counter)
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	g.full = false
	g.endElement()
	g.endPart(true)
	g.Done = true
	return nil
}

// digesting makes the parts as elements come.
type digesting struct {
	ElementDigests
	mean    uint64
	element []byte // the element at hand
	buf     []byte // what is hashed of it; empty when no key of it counts
	part    ElementDigest
	bytes   int  // of bounds
	full    bool // the call ends with the element at hand
}

// key takes a key of the element at hand. What is hashed is part of the protocol between replicas.
func (g *digesting) key(actor []byte, counter uint64) {
	if len(g.buf) == 0 {
		g.buf = append(binary.AppendUvarint(g.buf, uint64(len(g.element))), g.element...)
	}
	g.buf = append(binary.AppendUvarint(g.buf, uint64(len(actor))), actor...)
	g.buf = binary.BigEndian.AppendUint64(g.buf, counter)
}

// endElement takes the element at hand into the part, and ends that behind it when the element says so, or when the call is full.
func (g *digesting) endElement() {
	if len(g.buf) > 0 {
		all := sha256.Sum256(g.buf)
		g.part.add((*[16]byte)(all[:16]))
		g.part.Elements++
		g.buf = g.buf[:0]
		if endsPart(g.element, g.mean) {
			g.endPart(false)
		}
	}
	if g.full {
		g.endPart(false)
	}
}

// endPart ends a part with the element at hand. The last one of a range is left out when it holds nothing.
func (g *digesting) endPart(last bool) {
	if g.part.Elements == 0 && (last || len(g.Parts) > 0 && string(g.Parts[len(g.Parts)-1].Bound) == string(g.element)) {
		return
	}
	g.part.Bound = append([]byte{}, g.element...)
	g.Parts = append(g.Parts, g.part)
	g.part = ElementDigest{}
	g.bytes += len(g.element)
	g.full = g.full || len(g.Parts) == ElementPartsMax-1 || g.bytes >= elementPartsBytes
}

// endsPart reports whether a part ends behind an element, as one of mean elements does. It is part of the protocol.
func endsPart(element []byte, mean uint64) bool {
	if mean == 1 {
		return true
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range element {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return (h^h>>32)%mean == 0
}
