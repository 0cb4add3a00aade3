package keyscheme

import "encoding/binary"

// Bounds is a range of keys in the order of package comparator: from Lower, inclusive, to Upper, exclusive. Both are whole prefixes
// to comparator.Split, as a swap of tables requires. They may share one array: don't append to them.
type Bounds struct{ Lower, Upper []byte }

// Edge is one end of a range of elements: before an element, after it, or open. The zero Edge is open.
type Edge struct {
	element []byte
	where   edgeKind
}

type edgeKind byte

const (
	edgeOpen edgeKind = iota
	edgeBefore
	edgeAfter
)

// Before is the edge just before an element: as a lower end it includes the element, as an upper end it excludes it. A nil element
// is the empty element, not an open end; the open end is Edge{}.
func Before(element []byte) Edge { return Edge{element, edgeBefore} }

// After is the edge just after an element: as a lower end it excludes the element, as an upper end it includes it.
func After(element []byte) Edge { return Edge{element, edgeAfter} }

// AppendElementBound appends the lower bound of one element's keys: an element key that ends where the actor would begin.
// It is also what comparator.Split cuts from each of those keys.
func (p Prefix) AppendElementBound(dst, element []byte) []byte {
	return appendBytes(append(append(dst, p...), DesignatorElement), element)
}

// AppendElementAfter appends the upper bound of one element's keys: the lower bound of the next possible element, which is the same
// element with a zero byte appended.
func (p Prefix) AppendElementAfter(dst, element []byte) []byte {
	dst = append(append(dst, p...), DesignatorElement)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(element)+1))
	return append(append(dst, element...), 0)
}

// All bounds every key of the set.
func (p Prefix) All() Bounds { return Bounds{p[:len(p):len(p)], p.AppendEnd(nil)} }

// Causal bounds all keys of the set except those of its elements: its clock, its tombstone, and the pages of both.
func (p Prefix) Causal() Bounds {
	return Bounds{p[:len(p):len(p)], append(append([]byte(nil), p...), DesignatorElement)}
}

// TombstonePages bounds the pages of the set's tombstone, without its own key.
func (p Prefix) TombstonePages() Bounds {
	b := p.Tombstones()
	return Bounds{append(b.Lower, 0), b.Upper} // which ends inside the length of an actor
}

// Tombstones bounds the keys of the set's tombstone: its own and its pages.
func (p Prefix) Tombstones() Bounds {
	return Bounds{p.AppendTombstone(nil), append(append([]byte(nil), p...), DesignatorElement)}
}

// Elements bounds all element keys of the set.
func (p Prefix) Elements() Bounds { return p.Range(Edge{}, Edge{}) }

// Element bounds the keys of one element, whatever their dots.
func (p Prefix) Element(element []byte) Bounds { return p.Range(Before(element), After(element)) }

// Starting bounds the keys of all elements that start with head. An empty head bounds all elements.
func (p Prefix) Starting(head []byte) Bounds {
	upper := Edge{}
	if next := headSuccessor(head); next != nil {
		upper = Before(next)
	}
	return p.Range(Before(head), upper)
}

// Range bounds the keys of all elements between two edges. If the edges are in the wrong order, Lower is not below Upper and the
// range is empty.
func (p Prefix) Range(from, to Edge) Bounds {
	return Bounds{p.appendEdge(nil, from, DesignatorElement), p.appendEdge(nil, to, DesignatorEnd)}
}

// appendEdge appends the bound at an edge, or only the designator open if the edge is open.
func (p Prefix) appendEdge(dst []byte, e Edge, open byte) []byte {
	switch e.where {
	case edgeBefore:
		return p.AppendElementBound(dst, e.element)
	case edgeAfter:
		return p.AppendElementAfter(dst, e.element)
	}
	return append(append(dst, p...), open)
}

// headSuccessor returns the least byte string above all that start with head, or nil if head is all 0xFF, because none exists.
func headSuccessor(head []byte) []byte {
	for i := len(head) - 1; i >= 0; i-- {
		if head[i] != 0xFF {
			next := append([]byte(nil), head[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}

// SlotRange bounds everything in the slots from first to last, both included: their sets and their own keys.
func SlotRange(first, last Slot) Bounds {
	lower := AppendSlot(nil, first)
	if last != SlotMax {
		return Bounds{lower, AppendSlot(nil, last+1)}
	}
	// No slot follows the last one, so the directory, which does, is the bound.
	return Bounds{lower, AppendSlotKey(nil, SlotMax, directoryKind, nil)}
}

// SlotSets bounds the sets of one slot, without the slot's own keys.
func SlotSets(slot Slot) Bounds {
	upper := AppendSlotKey(nil, slot, 0, nil)
	return Bounds{AppendSlot(nil, slot), upper[:SlotBytes+LengthBytes]}
}
