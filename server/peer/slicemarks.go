package peer

import (
	"encoding/binary"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
)

// Mark asks for keys to be marked: SliceReplica.Mark's arguments in a frame.
type Mark sliceKeys

// Check asks which keys are in a slice: SliceReplica.Check's arguments in a frame.
type Check sliceKeys

// sliceKeys are keys of a slice, by their hashes.
type sliceKeys struct {
	Spec   bigset.SliceSpec
	Hashes []bloomslice.Hash // at most bigset.MarksMax
}

func (Mark) kind() byte  { return kindMark }
func (Check) kind() byte { return kindCheck }

func (m Mark) appendTo(e *encoder) error  { return e.sliceKeys((*sliceKeys)(&m)) }
func (m Check) appendTo(e *encoder) error { return e.sliceKeys((*sliceKeys)(&m)) }

const hashBytes = 4 * 8

func (e *encoder) sliceKeys(k *sliceKeys) error {
	if len(k.Hashes) > bigset.MarksMax {
		return fmt.Errorf("%w: %d keys", ErrFrameTooLarge, len(k.Hashes))
	}
	if err := e.spec(&k.Spec); err != nil {
		return err
	}
	e.uvarint(uint64(len(k.Hashes)))
	e.hashes(k.Hashes)
	return nil
}

func (d *decoder) sliceKeys() sliceKeys {
	k := sliceKeys{Spec: d.spec()}
	n := d.count(hashBytes, bigset.MarksMax)
	if n == 0 {
		return k
	}
	k.Hashes = make([]bloomslice.Hash, n)
	d.hashes(k.Hashes)
	return k
}

// hashes writes hashes, one after the other.
func (e *encoder) hashes(all []bloomslice.Hash) {
	at := len(e.b)
	e.b = slices.Grow(e.b, hashBytes*len(all))[:at+hashBytes*len(all)]
	for i, to := 0, e.b[at:]; i < len(all); i, to = i+1, to[hashBytes:] {
		putHash((*[hashBytes]byte)(to), &all[i])
	}
}

// hashes reads hashes into all.
func (d *decoder) hashes(all []bloomslice.Hash) {
	b := d.raw(hashBytes * len(all))
	for i := range all {
		all[i] = hashOf((*[hashBytes]byte)(b[hashBytes*i:]))
	}
}

func putHash(to *[hashBytes]byte, h *bloomslice.Hash) {
	binary.BigEndian.PutUint64(to[0:], h[0])
	binary.BigEndian.PutUint64(to[8:], h[1])
	binary.BigEndian.PutUint64(to[16:], h[2])
	binary.BigEndian.PutUint64(to[24:], h[3])
}

func hashOf(b *[hashBytes]byte) bloomslice.Hash {
	return bloomslice.Hash{binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])}
}

// Marks are bigset.Marks in a frame: what one replica has marked, for the others to mark. They are self-contained, now or as a hint.
type Marks bigset.Marks

func (Marks) kind() byte { return kindMarks }

// markBytesMin is the minimum size of a mark: the index of its layer, and the hash.
const markBytesMin = 1 + hashBytes

func (m Marks) appendTo(e *encoder) error {
	if err := checkMarks(&m); err != nil {
		return err
	}
	if err := e.spec(&m.SliceSpec); err != nil {
		return err
	}
	if err := e.layers(m.Layers); err != nil {
		return err
	}
	e.markList(m.Marks)
	return nil
}

func (d *decoder) marks() Marks {
	m := Marks{SliceSpec: d.spec(), Layers: d.layers(), Marks: d.markList(bigset.MarksMax)}
	if err := checkMarks(&m); d.err == nil && err != nil {
		d.failed("marks", err)
	}
	return m
}

// markList writes marks in layers that are in the frame.
func (e *encoder) markList(all []bigset.Mark) {
	e.uvarint(uint64(len(all)))
	e.b = slices.Grow(e.b, markBytesMin*len(all)+sumBytes)
	for i := range all {
		e.uvarint(uint64(all[i].Layer))
		at := len(e.b)
		e.b = slices.Grow(e.b, hashBytes)[:at+hashBytes]
		putHash((*[hashBytes]byte)(e.b[at:]), &all[i].Hash)
	}
}

func (d *decoder) markList(most int) []bigset.Mark {
	n := d.count(markBytesMin, most)
	if n == 0 {
		return nil
	}
	all := d.marksRoom.take(n, min(marksRoom, d.rest()/markBytesMin))
	for i := range all {
		layer := int(d.upTo(bloomslice.LayersMax))
		b := d.raw(hashBytes)
		if d.err != nil {
			return nil
		}
		all[i] = bigset.Mark{Layer: layer, Hash: hashOf((*[hashBytes]byte)(b))}
	}
	return all
}

// marksRoom is the number of marks, of several slices, for which memory is allocated at once.
const marksRoom = 1024

// checkMarks checks that no layer occurs twice, and that each mark refers to one of the layers.
func checkMarks(m *Marks) error {
	if len(m.Marks) > bigset.MarksMax {
		return fmt.Errorf("%w: %d marks", ErrFrameTooLarge, len(m.Marks))
	}
	if layerTwice(m.Layers) {
		return fmt.Errorf("%w: a layer comes twice", ErrFrame)
	}
	for i := range m.Marks {
		if l := m.Marks[i].Layer; l < 0 || l >= len(m.Layers) {
			return fmt.Errorf("%w: a mark in layer %d of %d", ErrFrame, l, len(m.Layers))
		}
	}
	return nil
}

// Marked is what SliceReplica.Mark returns, in a frame.
type Marked struct {
	Marks bigset.Marks
	Added []bool // for each key in the request, whether it was new; at most bigset.MarksMax
}

func (Marked) kind() byte { return kindMarked }

func (m Marked) appendTo(e *encoder) error {
	if err := Marks(m.Marks).appendTo(e); err != nil {
		return err
	}
	return e.bits(m.Added)
}

func (d *decoder) marked() Marked { return Marked{Marks: bigset.Marks(d.marks()), Added: d.bits()} }

// KeyAnswers report for each key in the request whether it was new, or is in the slice: what ApplyMarks and Check of SliceReplica return,
// in a frame. They are at most bigset.MarksMax.
type KeyAnswers []bool

func (KeyAnswers) kind() byte { return kindKeyAnswers }

func (m KeyAnswers) appendTo(e *encoder) error { return e.bits(m) }

// layersFew is the number of layers up to which they are compared one by one: marks of a slice seldom name more than two.
const layersFew = 8

// layerTwice reports whether a layer occurs twice.
func layerTwice(all []bloomslice.Layer) bool {
	if len(all) <= layersFew {
		for i := range all {
			if slices.ContainsFunc(all[:i], func(l bloomslice.Layer) bool { return l.ID == all[i].ID }) {
				return true
			}
		}
		return false
	}
	ids := make(map[bloomslice.LayerID]struct{}, len(all))
	for i := range all {
		ids[all[i].ID] = struct{}{}
	}
	return len(ids) != len(all)
}
