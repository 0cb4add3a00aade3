package ring

import (
	"fmt"
	"slices"
)

// Begin returns the assignment that copies the bucket to the members of next: the step of a stable one. next must not be shorter
// than Owners: a write that W of them acknowledged could be left at a single member.
func (a *Assignment) Begin(next []Member) (Assignment, error) {
	switch {
	case a.State != Stable:
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, must be stable", ErrStep, a.Bucket, a.State)
	case slices.Equal(a.Owners, next):
		return Assignment{}, fmt.Errorf("%w: bucket %v would stay where it is", ErrStep, a.Bucket)
	case len(next) < len(a.Owners):
		return Assignment{}, fmt.Errorf("%w: bucket %v would have fewer copies", ErrStep, a.Bucket)
	case len(without(next, a.Owners)) == 0:
		return Assignment{}, fmt.Errorf("%w: bucket %v would only be reordered", ErrStep, a.Bucket)
	}
	return a.step(Copying, a.Owners, next), nil
}

// CutOver returns the assignment that reads from Next: the step of one that is copying, when all joiners are whole (R3).
func (a *Assignment) CutOver() (Assignment, error) {
	if a.State != Copying {
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, must be copying", ErrStep, a.Bucket, a.State)
	}
	return a.step(Settling, a.Owners, a.Next), nil
}

// Finish returns the assignment that leaves the old owners: the step of one that is settling, when enough of them have seen it (R4).
func (a *Assignment) Finish() (Assignment, error) {
	if a.State != Settling {
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, must be settling", ErrStep, a.Bucket, a.State)
	}
	return a.step(Stable, a.Next, a.Next), nil
}

// Abort returns the assignment that gives up a copy. An assignment that is settling can't be aborted.
func (a *Assignment) Abort() (Assignment, error) {
	if a.State != Copying {
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, must be copying", ErrStep, a.Bucket, a.State)
	}
	return a.step(Stable, a.Owners, a.Owners), nil
}

// Reorder returns the assignment with the same owners in another order, which makes another of them the primary. No data moves.
func (a *Assignment) Reorder(owners []Member) (Assignment, error) {
	if a.State != Stable || !sameMembers(a.Owners, owners) {
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, and has other owners", ErrStep, a.Bucket, a.State)
	}
	return a.step(Stable, owners, owners), nil
}

func (a *Assignment) step(s State, owners, next []Member) Assignment {
	return Assignment{Bucket: a.Bucket, Epoch: a.Epoch + 1, Since: a.Epoch + 1, State: s, Moved: a.Moved, Owners: owners, Next: next}
}

// At returns the assignment with the same content under a higher epoch, as in a cluster whose members have one epoch for all buckets.
func (a *Assignment) At(epoch uint64) Assignment {
	b := *a
	b.Epoch = epoch
	return b
}

// Split returns the 2^n assignments of a stable one (R8): same members, same epoch, so that requests by the old one are served.
func (a *Assignment) Split(n int) ([]Assignment, error) {
	if a.State != Stable || n < 1 || a.Bucket.Bits()+n > 32 {
		return nil, fmt.Errorf("%w: bucket %v is %v, split by 2^%d", ErrStep, a.Bucket, a.State, n)
	}
	var out []Assignment
	for _, b := range a.Bucket.Split(n) {
		child := *a
		child.Bucket = b
		out = append(out, child)
	}
	return out, nil
}

// Merge returns the assignment of siblings, in the order of their slots, that are stable and have the same owners in any order (R8).
// It has the order of the first, and the highest epoch plus 1.
func Merge(siblings []Assignment) (Assignment, error) {
	n := len(siblings)
	if n < 2 || n&(n-1) != 0 {
		return Assignment{}, fmt.Errorf("%w: %d buckets can't be merged", ErrStep, n)
	}
	out := siblings[0]
	for d := n; d > 1; d /= 2 {
		out.Bucket = out.Bucket.Parent(1)
	}
	want := out.Bucket.First()
	for i := range siblings {
		s := &siblings[i]
		if s.State != Stable || s.Bucket.Mask != siblings[0].Bucket.Mask || s.Bucket.First() != want || !sameMembers(s.Owners, out.Owners) {
			return Assignment{}, fmt.Errorf("%w: bucket %v can't be merged with %v", ErrStep, s.Bucket, siblings[0].Bucket)
		}
		want = s.Bucket.Last() + 1
		out.Epoch, out.Moved = max(out.Epoch, s.Epoch), max(out.Moved, s.Moved)
	}
	return out.step(Stable, out.Owners, out.Owners), nil
}

func sameMembers(a, b []Member) bool {
	return len(a) == len(b) && len(without(a, b)) == 0 && len(without(b, a)) == 0
}
