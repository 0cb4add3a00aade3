package ring

import "slices"

// Copies is what a joiner has copied: for each source, the lowest epoch that the source had adopted when any part of the copy was
// taken. A source adopts an epoch by serving a request that carries it. A copy that began under one epoch and continued under
// another counts for the first.
type Copies map[Member]uint64

// Sources says what a joiner of a bucket has to copy, and from which members.
type Sources struct {
	// From are the owners to copy from. The joiner is not among them.
	From []Member
	// Epoch is the least epoch that a source must have adopted before its copy was taken.
	Epoch uint64
	// Need is how many of From suffice.
	Need int
	// Replaced is the one owner whose place the joiner takes, if there is exactly one: a copy from it suffices. Otherwise it is the
	// zero Member.
	Replaced Member
}

// Sources returns what a member that joins has to copy. It has no source if the member does not join.
func (a *Assignment) Sources(joiner Member, s Settings) Sources {
	if a.State != Copying || !slices.Contains(a.Joining(), joiner) {
		return Sources{}
	}
	out := Sources{From: a.Owners, Epoch: a.Since, Need: sourcesNeeded(a.Owners, s)}
	if leaving := a.Leaving(); len(leaving) == 1 && len(a.Owners) == len(a.Next) {
		out.Replaced = leaving[0]
	}
	return out
}

// sourcesNeeded is how many owners of a list together have every acknowledged write: each set of that size intersects each write
// quorum.
func sourcesNeeded(owners []Member, s Settings) int { return len(owners) - s.WriteQuorum(owners) + 1 }

// Whole reports whether a joiner has copied what R3 requires: from the member that it replaces, or from len-W+1 owners, each after
// that owner adopted the epoch of the copying.
func (s Sources) Whole(got Copies) bool {
	if len(s.From) == 0 {
		return false
	}
	have := 0
	for _, m := range s.From {
		if got[m] < s.Epoch {
			continue
		}
		if have++; m == s.Replaced {
			return true
		}
	}
	return have >= s.Need
}

// Within reports whether R3 can still be met by the members that answer. If not, an acknowledged write may be lost: only an
// operator may accept that, never a program.
func (s Sources) Within(answers func(Member) bool) bool {
	n := 0
	for _, m := range s.From {
		if answers(m) {
			if n++; m == s.Replaced {
				return true
			}
		}
	}
	return len(s.From) > 0 && n >= s.Need
}

// Settled reports whether R4 holds for an assignment that is settling: len-R+1 of the old owners have adopted it durably, so that
// no read can complete by the assignment before. seen returns the epoch that a member has adopted. buried reports that a member
// never answers again under its incarnation, which counts as seen.
func (a *Assignment) Settled(s Settings, seen func(Member) uint64, buried func(Member) bool) bool {
	n := 0
	for _, m := range a.Owners {
		if buried(m) || seen(m) >= a.Since {
			n++
		}
	}
	return a.State == Settling && n >= len(a.Owners)-s.ReadQuorum(a.Owners)+1
}
