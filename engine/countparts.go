package engine

import (
	"bytes"
	"context"
	"math"
	"time"

	"bigset"
	"bigset/fold"
)

// Bounds of one call of CountParts, in addition to bigset.ElementPartsMax. After countKeysMin keys the call ends at
// the end of the part; after countKeysMax keys, or countTimeMax, it ends at once. That is before iteratorAgeMax: one
// call has one iterator.
const (
	countKeysMin = 1 << 14
	countKeysMax = 1 << 17
	countTimeMax = 250 * time.Millisecond
)

// CountParts counts the elements of a range that are present, in parts. Each part has a sum of its elements and their
// dots. The element alone decides whether a part ends, so two stores split alike. One call reads a bounded number of
// keys for a bounded time, all as of one moment; the caller continues after the last part. CountParts returns
// bigset.ErrNotFound if the store does not know the set.
func (r Replica) CountParts(ctx context.Context, name []byte, x bigset.CountRange) (out bigset.PartCounts, err error) {
	if err := x.Check(); err != nil {
		return out, err
	}
	var scrap *fold.Chunk // a chunk that was counted already
	o := x.Read()
	o.Scrap = func() *fold.Chunk { return scrap }
	err = r.s.reading(ctx, name, o, func(_ *set, rd *reader) error {
		began, t := r.s.opt.Now(), tally{last: math.MaxUint64 / uint64(x.Mean)}
		for !t.Done && !t.full {
			chunk, err := rd.next(ctx)
			if err != nil {
				return err
			}
			if x.Clock && out.Clock == nil {
				out.Clock = chunk.Clock
			}
			t.chunk(chunk)
			if t.keys >= countKeysMax || r.s.opt.Now().Sub(began) > countTimeMax {
				t.stop(chunk.Bound)
			}
			scrap = chunk
		}
		out.ElementDigests = t.ElementDigests
		return nil
	})
	if err != nil {
		return bigset.PartCounts{}, err
	}
	return out, nil
}

// tally makes parts of chunks.
type tally struct {
	bigset.ElementDigests
	last   uint64 // a part ends with an element whose hash is no larger
	part   bigset.ElementDigest
	newest []byte // the last element of the last chunk that had any
	keys   int    // keys that were read
	bytes  int    // bytes of bounds
	full   bool   // the call ends with the last part
	hash   bigset.ElementHash
}

// chunk counts the elements of a chunk, up to the end of a part if that ends the call.
func (t *tally) chunk(c *fold.Chunk) {
	t.keys += c.Scanned
	for i := range c.Elements {
		e := &c.Elements[i]
		if t.element(e) > t.last {
			continue
		}
		if t.end(e.Name); t.keys >= countKeysMin || len(t.Parts) == bigset.ElementPartsMax-1 || t.bytes >= elementPartsBytes {
			t.full = true
			return
		}
	}
	if n := len(c.Elements); n > 0 {
		t.newest = append(t.newest[:0], c.Elements[n-1].Name...)
	}
	if t.Done = c.Done; t.Done && t.part.Elements > 0 {
		t.end(t.newest)
	}
}

// element adds an element to the part. It returns the hash of the element alone.
func (t *tally) element(e *fold.Element) uint64 {
	sum, name := t.hash.Sum(e.Name, e.Dots)
	t.part.Add(&sum)
	return name
}

// end ends a part with an element.
func (t *tally) end(element []byte) {
	t.part.Bound = append([]byte{}, element...)
	t.Parts = append(t.Parts, t.part)
	t.part = bigset.ElementDigest{}
	t.bytes += len(element)
}

// stop ends the call after an element, if it has not ended.
func (t *tally) stop(element []byte) {
	if t.Done || t.full {
		return
	}
	t.full = true
	if n := len(t.Parts); t.part.Elements > 0 || n == 0 || !bytes.Equal(t.Parts[n-1].Bound, element) {
		t.end(element)
	}
}
