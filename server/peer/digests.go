package peer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"bigset"
	"bigset/keyscheme"
)

// Digests describe the sets of a range, in the order of the store. A bigset.SetDigest's hash covers its name, its Seen and its Dead.
type Digests []bigset.SetDigest

func (Digests) kind() byte { return kindDigests }

const sumLen = len(bigset.SetDigest{}.Sum)

// digestBytesMin is the minimum size of a digest: slot, length and one byte of the name, sum.
const digestBytesMin = keyscheme.SlotBytes + 2 + sumLen

func (m Digests) appendTo(e *encoder) error {
	if len(m) > DigestsMax {
		return fmt.Errorf("%w: %d digests", ErrFrameTooLarge, len(m))
	}
	e.uvarint(uint64(len(m)))
	for i := range m {
		if i > 0 && CompareDigests(&m[i-1], &m[i]) >= 0 {
			return fmt.Errorf("%w: digests are not in order", ErrFrame)
		}
		e.slot(m[i].Slot)
		e.set(m[i].Name)
		e.b = append(e.b, m[i].Sum[:]...)
	}
	return nil
}

func (d *decoder) digests() Digests {
	n := d.count(digestBytesMin, DigestsMax)
	m := make(Digests, 0, n)
	for len(m) < n && d.err == nil {
		s := bigset.SetDigest{Slot: d.slot(), Name: d.setName()}
		copy(s.Sum[:], d.raw(sumLen))
		if len(m) > 0 && CompareDigests(&m[len(m)-1], &s) >= 0 {
			d.fail("digests are not in order")
		}
		m = append(m, s)
	}
	return m
}

// CompareDigests orders digests as Replica.Digests lists them: by slot, then by the length of the name, then by name.
func CompareDigests(a, b *bigset.SetDigest) int {
	return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(len(a.Name), len(b.Name)), bytes.Compare(a.Name, b.Name))
}

func (e *encoder) slot(s keyscheme.Slot) { e.b = keyscheme.AppendSlot(e.b, s) }

func (d *decoder) slot() keyscheme.Slot {
	return keyscheme.Slot(binary.BigEndian.Uint32(d.raw(keyscheme.SlotBytes)))
}

// RangeDigests describe the sets in each part of a range of slots that was split by keyscheme.SplitSlots.
type RangeDigests []bigset.RangeDigest // at least one, at most bigset.RangePartsMax

func (RangeDigests) kind() byte { return kindRangeDigests }

func (m RangeDigests) appendTo(e *encoder) error {
	if len(m) == 0 || len(m) > bigset.RangePartsMax {
		return fmt.Errorf("%w: a range in %d parts", ErrFrame, len(m))
	}
	first, last := m[0].First, m[len(m)-1].Last
	if err := CheckSplit(m, first, last, len(m)); err != nil {
		return err
	}
	e.slot(first)
	e.slot(last)
	e.uvarint(uint64(len(m)))
	for i := range m {
		if m[i].Sets == 0 != (m[i].Sum == [16]byte{}) {
			return fmt.Errorf("%w: a sum of no sets, or sets without a sum", ErrFrame)
		}
		if e.uvarint(m[i].Sets); m[i].Sets > 0 {
			e.b = append(e.b, m[i].Sum[:]...)
		}
	}
	return nil
}

func (d *decoder) rangeDigests() RangeDigests {
	first, last, n := d.slot(), d.slot(), d.count(1, bigset.RangePartsMax)
	ends := keyscheme.SplitSlots(first, last, n)
	if len(ends) != n || n == 0 {
		d.fail("a range that can't be split so")
		return nil
	}
	m := make(RangeDigests, 0, n)
	for i := 0; i < n && d.err == nil; i++ {
		r := bigset.RangeDigest{First: first, Last: ends[i], Sets: d.uvarint()}
		if r.Sets > 0 {
			copy(r.Sum[:], d.raw(sumLen))
			if r.Sum == [16]byte{} {
				d.fail("sets without a sum")
			}
		}
		m = append(m, r)
		first = ends[i] + 1
	}
	return m
}

// CheckSplit returns an error that is ErrFrame unless an answer to RangeDigests is for the requested parts.
func CheckSplit(all []bigset.RangeDigest, first, last keyscheme.Slot, parts int) error {
	ends := keyscheme.SplitSlots(first, last, parts)
	if len(ends) != len(all) {
		return fmt.Errorf("%w: %d parts of a range, not %d", ErrFrame, len(all), len(ends))
	}
	for i := range all {
		if all[i].First != first || all[i].Last != ends[i] {
			return fmt.Errorf("%w: a part from slot %08x to %08x, not from %08x to %08x", ErrFrame, all[i].First, all[i].Last, first, ends[i])
		}
		first = ends[i] + 1
	}
	return nil
}
