package peer

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

	"bigset"
	"bigset/bloomslice"
)

// DropGeneration asks to drop a filter: SliceReplica.DropGeneration's arguments in a frame.
type DropGeneration struct {
	Name       []byte
	Slices     uint32
	Generation uint64
}

func (DropGeneration) kind() byte { return kindDropGeneration }

func (m DropGeneration) appendTo(e *encoder) error {
	if err := checkGeneration(m.Name, m.Slices, m.Generation); err != nil {
		return err
	}
	e.bytes(m.Name)
	e.uvarint(uint64(m.Slices))
	e.uvarint(m.Generation)
	return nil
}

func (d *decoder) dropGeneration() DropGeneration {
	m := DropGeneration{Name: d.filterName(), Slices: uint32(d.upTo(math.MaxUint32)), Generation: d.uvarint()}
	if err := checkGeneration(m.Name, m.Slices, m.Generation); d.err == nil && err != nil {
		d.failed("generation", err)
	}
	return m
}

// FlushSlice asks to sync a slice to disk: SliceReplica.FlushSlice's argument in a frame.
type FlushSlice struct{ Spec bigset.SliceSpec }

func (FlushSlice) kind() byte { return kindFlushSlice }

func (m FlushSlice) appendTo(e *encoder) error { return e.spec(&m.Spec) }

// SliceDigests describe the contents of the slices of a range, as CompareSliceDigests orders them; at most DigestsMax.
type SliceDigests []bigset.SliceDigest

func (SliceDigests) kind() byte { return kindSliceDigests }

// sliceDigestBytesMin is the minimum size of a digest: length of the name, slice, generation, index of the options, slices.
const sliceDigestBytesMin = 5

// digestDropped marks a dropped slice. It takes the place of the index of the options among those that the frame has named, which counts
// from 1.
const digestDropped = 0

func (m SliceDigests) appendTo(e *encoder) error {
	if len(m) > DigestsMax {
		return fmt.Errorf("%w: %d digests", ErrFrameTooLarge, len(m))
	}
	e.uvarint(uint64(len(m)))
	places := map[bigset.FilterOptions]int{}
	for i := range m {
		s := &m[i]
		if i > 0 && CompareSliceDigests(&m[i-1], s) >= 0 {
			return fmt.Errorf("%w: digests are not in order", ErrFrame)
		}
		if err := checkSliceDigest(s); err != nil {
			return err
		}
		e.bytes(s.Name)
		e.uvarint(uint64(s.Slice))
		e.uvarint(s.Generation)
		if s.Dropped {
			e.uvarint(digestDropped)
			e.uvarint(uint64(s.Options.Slices))
			continue
		}
		place, named := places[s.Options]
		if !named {
			place = len(places) + 1
			places[s.Options] = place
		}
		if e.uvarint(uint64(place)); !named {
			e.filterOptions(&s.Options)
		}
		e.b = append(e.b, s.Sum[:]...)
	}
	return nil
}

func (d *decoder) sliceDigests() SliceDigests {
	n := d.count(sliceDigestBytesMin, DigestsMax)
	var m SliceDigests
	var named optionsTable
	for len(m) < n && d.err == nil {
		s := bigset.SliceDigest{SliceSpec: bigset.SliceSpec{Name: d.filterName(), Slice: uint32(d.upTo(math.MaxUint32)), Generation: d.uvarint()}}
		place := d.upTo(DigestsMax)
		if s.Dropped = place == digestDropped; s.Dropped {
			s.Options.Slices = uint32(d.upTo(math.MaxUint32))
		} else {
			s.Options = named.read(d, int(place))
			copy(s.Sum[:], d.raw(sumLen))
		}
		if err := checkSliceDigest(&s); d.err == nil && err != nil {
			d.failed("digest", err)
		}
		if len(m) > 0 && d.err == nil && CompareSliceDigests(&m[len(m)-1], &s) >= 0 {
			d.fail("digests are not in order")
		}
		m = append(m, s)
	}
	return m
}

// optionsTable are the options that a frame has named, by index, and as a set.
type optionsTable struct {
	list []bigset.FilterOptions
	has  map[bigset.FilterOptions]struct{}
}

// read returns the options at an index, from 1. At the next free index, the options follow in the frame.
func (t *optionsTable) read(d *decoder, place int) bigset.FilterOptions {
	if place <= len(t.list) {
		return t.list[place-1]
	}
	o := d.filterOptions()
	if _, twice := t.has[o]; place > len(t.list)+1 || twice {
		d.fail("options out of their place, or that were named before")
	}
	if t.has == nil {
		t.has = map[bigset.FilterOptions]struct{}{}
	}
	t.has[o] = struct{}{}
	t.list = append(t.list, o)
	return o
}

// checkSliceDigest checks one digest. The digest of a dropped slice says nothing but that.
func checkSliceDigest(s *bigset.SliceDigest) error {
	if !s.Dropped {
		return checkSpec(&s.SliceSpec)
	}
	if s.Options != (bigset.FilterOptions{Options: bloomslice.Options{Slices: s.Options.Slices}}) || s.Sum != [16]byte{} {
		return fmt.Errorf("%w: a slice that was dropped, with options or a sum", ErrFrame)
	}
	return checkSlice(&s.SliceSpec)
}

// CompareSliceDigests orders digests as SliceReplica.SliceDigests lists them: by slot, then by name, then by slice.
func CompareSliceDigests(a, b *bigset.SliceDigest) int {
	return cmp.Or(cmp.Compare(a.Slot(), b.Slot()), bytes.Compare(a.Name, b.Name), cmp.Compare(a.Slice, b.Slice))
}
