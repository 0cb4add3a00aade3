package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Bounds of one call of ElementDigests, in addition to bigset.ElementPartsMax.
const (
	elementPartsBytes   = 1 << 20 // of elements that end a part
	elementDigestKeyMax = 200_000 // keys that are read
)

// ElementDigests hashes the live keys, (element, dot), of some dots of a set, in parts of the range. It detects rot,
// which Seen and Dead do not show: two stores that are asked for the same dots, live at both, have the same sums
// unless keys were lost or changed. The element alone decides whether a part ends, so two stores split alike. One
// call opens one iterator for a short while, reads a bounded number of keys, and ends a part where it stops. The
// clock must not change during the call. ElementDigests returns bigset.ErrNotFound if the store does not know the
// set, bigset.ErrUnresolved for an unresolved key, and bigset.ErrCorrupt for a block that cannot be read.
func (r Replica) ElementDigests(ctx context.Context, name []byte, x bigset.ElementRange) (d bigset.ElementDigests, err error) {
	if x.Mean < 1 || x.Mean > bigset.ElementsMeanMax {
		return d, fmt.Errorf("%w: parts of %d elements", bigset.ErrRequest, x.Mean)
	}
	for _, e := range [][]byte{x.After, x.UpTo} {
		if err := bigset.CheckElement(e); err != nil {
			return d, err
		}
	}
	if err := bigset.CheckClock(x.Within); err != nil {
		return d, err
	}
	err = r.s.withSet(ctx, name, func(st *set) error {
		b := boundsOf(st.prefix, bigset.ReadOptions{After: x.After})
		if x.UpTo != nil {
			b.Upper = sooner(b.Upper, st.prefix.Range(keyscheme.Edge{}, keyscheme.After(x.UpTo)).Upper)
		}
		g := digesting{mean: uint64(x.Mean)}
		if err := r.s.digestElements(ctx, st, b, x.Within, &g); err != nil {
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
	var dead *clock.Clock
	it, err := s.openAfter(st, b, func() { dead = st.view().dead })
	st.viewing.RUnlock()
	if err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	began, prefixLen := time.Now(), len(st.prefix)
	for ok, n := it.First(), 1; ok; ok, n = it.Next(), n+1 {
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return fmt.Errorf("%w: key %x", bigset.ErrCorrupt, it.Key())
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
		if keyscheme.IsUnresolved(value) || op != keyscheme.OpAdd {
			return fmt.Errorf("%w: element %.64q", bigset.ErrUnresolved, element)
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

// digesting makes the parts as elements are read.
type digesting struct {
	bigset.ElementDigests
	mean    uint64
	element []byte // the current element
	buf     []byte // what is hashed of the element; empty if none of its keys counts
	part    bigset.ElementDigest
	bytes   int  // bytes of bounds
	full    bool // the call ends with the current element
}

// key adds a key of the current element. What is hashed is part of the protocol between replicas.
func (g *digesting) key(actor []byte, counter uint64) {
	if len(g.buf) == 0 {
		g.buf = append(binary.AppendUvarint(g.buf, uint64(len(g.element))), g.element...)
	}
	g.buf = append(binary.AppendUvarint(g.buf, uint64(len(actor))), actor...)
	g.buf = binary.BigEndian.AppendUint64(g.buf, counter)
}

// endElement adds the current element to the part. It ends the part if the element is a boundary or the call is full.
func (g *digesting) endElement() {
	if len(g.buf) > 0 {
		all := sha256.Sum256(g.buf)
		g.part.Add((*[16]byte)(all[:16]))
		g.buf = g.buf[:0]
		if endsPart(g.element, g.mean) {
			g.endPart(false)
		}
	}
	if g.full {
		g.endPart(false)
	}
}

// endPart ends a part with the current element. It omits the last part of a range if that part is empty.
func (g *digesting) endPart(last bool) {
	if g.part.Elements == 0 && (last || len(g.Parts) > 0 && string(g.Parts[len(g.Parts)-1].Bound) == string(g.element)) {
		return
	}
	g.part.Bound = append([]byte{}, g.element...)
	g.Parts = append(g.Parts, g.part)
	g.part = bigset.ElementDigest{}
	g.bytes += len(g.element)
	g.full = g.full || len(g.Parts) == bigset.ElementPartsMax-1 || g.bytes >= elementPartsBytes
}

// endsPart reports whether a part ends after an element, if parts have mean elements on average. It is part of the
// protocol.
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
