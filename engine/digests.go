package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"bigset"
	"bigset/keyscheme"
)

// digestsMax is how many digests are made with one iterator.
const digestsMax = 512

// Digests lists the digests of all sets in the slots from first to last, both included, also of sets without a live
// dot. They are in the order of slots, then of the lengths of names, then of names. It reads clocks and tombstones
// only. The list is not of one moment: each digest is right by itself.
func (r Replica) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		if first > last {
			yield(bigset.SetDigest{}, fmt.Errorf("%w: slots %08x to %08x", bigset.ErrRequest, first, last))
			return
		}
		b := keyscheme.SlotRange(first, last)
		for done := false; !done; {
			page, next, err := r.s.digestPage(ctx, b)
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			if err != nil {
				yield(bigset.SetDigest{}, err)
				return
			}
			b.Lower, done = next, next == nil
		}
	}
}

// digestPage returns some digests and the bound at which the next ones begin, nil at the end.
func (s *Store) digestPage(ctx context.Context, b keyscheme.Bounds) (page []bigset.SetDigest, next []byte, err error) {
	began := time.Now()
	err = s.eachRecordIn(ctx, b, func(r setRecord) bool {
		p := keyscheme.NewPrefix(r.Name)
		page = append(page, bigset.SetDigest{Slot: p.Slot(), Name: slices.Clone(r.Name), Sum: sumOf(&r)})
		if len(page) == digestsMax || time.Since(began) > iteratorAgeMax {
			next = p.AppendEnd(nil)
		}
		return next == nil
	})
	return page, next, err
}

// sumOf hashes what a store knows of a set. A change to it is a change of the protocol between replicas.
func sumOf(r *setRecord) (sum [16]byte) {
	var buf []byte
	field := func(b []byte) { buf = append(binary.AppendUvarint(buf, uint64(len(b))), b...) }
	field(r.Name)
	field(r.seen.Append(nil))
	field(r.dead.Append(nil))
	buf = binary.AppendUvarint(buf, uint64(max(0, r.unresolved)))
	all := sha256.Sum256(buf)
	copy(sum[:], all[:])
	return sum
}

// RangeDigests splits the slots from first to last, both included, into parts as keyscheme.SplitSlots does, and
// returns the digest of each part. It reads clocks and tombstones only, in one scan. Like the list of Digests, the
// result is not of one moment.
func (r Replica) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, error) {
	if parts < 1 || parts > bigset.RangePartsMax {
		return nil, fmt.Errorf("%w: a range in %d parts", bigset.ErrRequest, parts)
	}
	all := make([]bigset.RangeDigest, 0, parts)
	for next, ends := first, keyscheme.SplitSlots(first, last, parts); len(ends) > 0; ends = ends[1:] {
		all = append(all, bigset.RangeDigest{First: next, Last: ends[0]})
		next = ends[0] + 1
	}
	i, h := 0, sha256.New()
	finish := func() {
		if all[i].Sets > 0 {
			copy(all[i].Sum[:], h.Sum(nil))
			h.Reset()
		}
	}
	for d, err := range r.Digests(ctx, first, last) {
		if err != nil {
			return nil, err
		}
		for d.Slot > all[i].Last {
			finish()
			i++
		}
		h.Write(d.Sum[:])
		all[i].Sets++
	}
	if len(all) > 0 {
		finish()
	}
	return all, nil
}
