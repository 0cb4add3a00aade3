package ring

import (
	"fmt"
	"iter"

	"github.com/google/btree"
)

// View is what one member knows: for each slot, the assignment with the highest epoch that it has received. Unlike a Map it may
// have gaps, and assignments of different changes side by side. A member stores it durably before it answers by it. A View belongs
// to one goroutine at a time; Clone copies it in constant time.
type View struct {
	tree *btree.BTreeG[*Assignment] // disjoint buckets, by first slot
}

// NewView returns a view that knows nothing.
func NewView() *View {
	return &View{btree.NewG(16, func(a, b *Assignment) bool { return a.Bucket.First() < b.Bucket.First() })}
}

// ViewOf returns a view that knows a map.
func ViewOf(m *Map) *View {
	v := NewView()
	for a := range m.All() {
		v.tree.ReplaceOrInsert(a)
	}
	return v
}

// Clone returns a copy. Changes of one do not affect the other.
func (v *View) Clone() *View { return &View{v.tree.Clone()} }

// Len returns for how many buckets the view has an assignment. Parts of a bucket that newer assignments have cut count as buckets.
func (v *View) Len() int { return v.tree.Len() }

// At returns what is known of a slot, or nil. The caller must not change it.
func (v *View) At(s Slot) (a *Assignment) {
	v.tree.DescendLessOrEqual(pivot(s), func(found *Assignment) bool {
		if found.Bucket.Has(s) {
			a = found
		}
		return false
	})
	return a
}

// All yields what is known, in the order of slots. The view must not change during the iteration.
func (v *View) All() iter.Seq[*Assignment] {
	return func(yield func(*Assignment) bool) { v.tree.Ascend(yield) }
}

// Holds reports whether a member is in a list of a slot, or nothing is known of the slot: then the member must keep what it has
// (R5).
func (v *View) Holds(s Slot, m Member) bool {
	a := v.At(s)
	return a == nil || a.Has(m)
}

// Adopt stores an assignment for all its slots for which the view has none or one with a lower epoch. It reports whether anything
// changed. If a newer assignment has a part of an older one's bucket, the older one keeps the rest, cut into smaller buckets. Its
// error is ErrEpoch, and nothing changes, if the view has the same epoch with another content.
func (v *View) Adopt(a *Assignment) (changed bool, err error) {
	if err := a.Bucket.Check(); err != nil {
		return false, err
	}
	var older, newer []*Assignment
	for old := range v.meeting(a.Bucket) {
		switch {
		case old.Epoch < a.Epoch:
			older = append(older, old)
		case old.Epoch == a.Epoch && !old.SameContent(a):
			return false, fmt.Errorf("%w: bucket %v at epoch %d", ErrEpoch, a.Bucket, a.Epoch)
		default:
			newer = append(newer, old)
		}
	}
	for _, old := range older {
		v.tree.Delete(old)
		if old.Bucket.Covers(a.Bucket) && old.Bucket != a.Bucket {
			for rest := range old.Bucket.Without(a.Bucket) {
				v.insert(old, rest)
			}
		}
	}
	return v.insertAround(a, a.Bucket, newer), nil
}

// insertAround inserts an assignment for the slots of a bucket that none of the others has. The others are in order.
func (v *View) insertAround(a *Assignment, b Bucket, others []*Assignment) (inserted bool) {
	var in []*Assignment
	for _, o := range others {
		if o.Bucket.Covers(b) {
			return false
		}
		if b.Covers(o.Bucket) {
			in = append(in, o)
		}
	}
	if len(in) == 0 {
		v.insert(a, b)
		return true
	}
	for _, half := range b.Split(1) {
		if v.insertAround(a, half, in) {
			inserted = true
		}
	}
	return inserted
}

// insert inserts an assignment for a bucket that its own covers.
func (v *View) insert(a *Assignment, b Bucket) {
	if a.Bucket != b {
		part := *a
		part.Bucket = b
		a = &part
	}
	v.tree.ReplaceOrInsert(a)
}

// meeting yields what is known of a bucket's slots, in their order.
func (v *View) meeting(b Bucket) iter.Seq[*Assignment] {
	return func(yield func(*Assignment) bool) {
		if a := v.At(b.First()); a != nil && a.Bucket.First() < b.First() {
			yield(a) // it covers the bucket
			return
		}
		v.tree.AscendGreaterOrEqual(pivot(b.First()), func(a *Assignment) bool { return a.Bucket.First() <= b.Last() && yield(a) })
	}
}

// Judge judges a request for one slot by what is known of the slot. An assignment in the request counts only if it has the slot.
func (v *View) Judge(s Slot, me Member, q *Request) Verdict {
	if q.Assignment != nil && !q.Assignment.Bucket.Has(s) {
		q = &Request{To: q.To, Epoch: q.Epoch, Need: q.Need}
	}
	return Judge(v.At(s), me, q)
}

// JudgeRange judges a request for all slots of a bucket: it is served only if it would be served for each of them. Otherwise it
// returns the first other verdict, with the assignment that led to it, which is nil for slots of which nothing is known.
func (v *View) JudgeRange(b Bucket, me Member, q *Request) (Verdict, *Assignment) {
	if q.Assignment != nil && !q.Assignment.Bucket.Covers(b) {
		q = &Request{To: q.To, Epoch: q.Epoch, Need: q.Need}
	}
	next := uint64(b.First())
	for a := range v.meeting(b) {
		if first := uint64(a.Bucket.First()); first > next {
			break
		}
		if verdict := Judge(a, me, q); verdict != Serve {
			return verdict, a
		}
		next = uint64(a.Bucket.Last()) + 1
	}
	if next <= uint64(b.Last()) {
		return Judge(nil, me, q), nil
	}
	return Serve, nil
}

// pivot returns an assignment that stands for a slot in a search of the tree.
func pivot(s Slot) *Assignment { return &Assignment{Bucket: BucketOf(s, 32)} }
