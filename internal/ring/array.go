package ring

import "math/bits"

// arrayBits is the deepest mask that an Array knows: 65,536 entries. Deeper buckets share an entry, and the answers to requests
// correct it.
const arrayBits = 16

// Array is the table of a client that knows only masks: an entry for each value of the hash's low bits. When a deeper mask arrives,
// the array grows, and each new entry starts as a copy of the entry of its bits under the old mask:
//
//	new[i] = old[i & oldMask]
//
// Old entries work as well as before, so clients need not be informed of a split. An Array belongs to one goroutine at a time.
type Array struct {
	mask    uint32
	entries []*Assignment
}

// NewArray returns an array that knows nothing.
func NewArray() *Array { return &Array{entries: make([]*Assignment, 1)} }

// Lookup returns what is known of a slot, or nil. The caller must not change it.
func (r *Array) Lookup(s Slot) *Assignment { return r.entries[bits.Reverse32(uint32(s))&r.mask] }

// Bits returns how many bits the array's mask has.
func (r *Array) Bits() int { return bits.OnesCount32(r.mask) }

// Learn stores an assignment in all entries of its bucket that have a lower epoch, or the same epoch and a wider bucket.
func (r *Array) Learn(a *Assignment) {
	b := a.Bucket
	if b.Bits() > arrayBits {
		b = b.Parent(b.Bits() - arrayBits)
	}
	if b.Mask > r.mask {
		r.grow(b.Mask)
	}
	for i := b.Key; i <= r.mask; i += b.Mask + 1 {
		if old := r.entries[i]; old == nil || a.Epoch > old.Epoch || a.Epoch == old.Epoch && a.Bucket.Mask > old.Bucket.Mask {
			r.entries[i] = a
		}
	}
}

func (r *Array) grow(mask uint32) {
	entries := make([]*Assignment, mask+1)
	for i := range entries {
		entries[i] = r.entries[uint32(i)&r.mask]
	}
	r.mask, r.entries = mask, entries
}
