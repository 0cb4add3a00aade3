package ring

import (
	"fmt"
	"slices"
)

// State is the phase of a move that an assignment is in. It is part of the codec.
type State byte

// The states of an assignment; doc.go says what each requires.
const (
	Stable State = iota
	Copying
	Settling
	states
)

// String returns the state's name.
func (s State) String() string {
	if s < states {
		return [...]string{"stable", "copying", "settling"}[s]
	}
	return fmt.Sprintf("state %d", byte(s))
}

// Assignment names the members that hold a bucket. It is a value: its lists are never changed, and may be shared.
type Assignment struct {
	Bucket Bucket
	// Epoch orders the assignments of a slot: the highest one counts. One epoch has one content.
	Epoch uint64
	// Since is the lowest epoch with these lists and this state. It is below Epoch if the epoch of a whole cluster rose without a
	// change here. What was copied or seen since then still counts.
	Since uint64
	State State
	// Moved is when the bucket was last moved without an operator's command, in minutes since 1970; 0 is never.
	Moved uint32
	// Owners are the members that hold the bucket; the first is the primary. Next are those that will hold it. In a stable
	// assignment they are equal.
	Owners, Next []Member
}

// ReadList returns the members that a read asks, the primary first. Only they mint dots, and only they are sources of a copy.
func (a *Assignment) ReadList() []Member {
	if a.State == Settling {
		return a.Next
	}
	return a.Owners
}

// Has reports whether a member is in one of the lists.
func (a *Assignment) Has(m Member) bool {
	return slices.Contains(a.Owners, m) || a.State != Stable && slices.Contains(a.Next, m)
}

// Reads reports whether a member is in the read list.
func (a *Assignment) Reads(m Member) bool { return slices.Contains(a.ReadList(), m) }

// Everyone returns the members of both lists, to which a write is sent. Owners come first.
func (a *Assignment) Everyone() []Member {
	if a.State == Stable {
		return a.Owners
	}
	return append(slices.Clone(a.Owners), a.Joining()...)
}

// Joining returns the members that are in Next and not in Owners, in the order of Next.
func (a *Assignment) Joining() []Member { return without(a.Next, a.Owners) }

// Leaving returns the members that are in Owners and not in Next, in the order of Owners.
func (a *Assignment) Leaving() []Member { return without(a.Owners, a.Next) }

func without(list, other []Member) (out []Member) {
	for _, m := range list {
		if !slices.Contains(other, m) {
			out = append(out, m)
		}
	}
	return out
}

// SameContent reports whether two assignments name the same members in the same state, whatever their buckets and epochs are.
func (a *Assignment) SameContent(b *Assignment) bool {
	return a.State == b.State && slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Next, b.Next)
}

// Check returns an error that is ErrMap for an assignment that breaks M2 or M3, given that a bucket has n copies.
func (a *Assignment) Check(n int) error {
	if err := a.Bucket.Check(); err != nil {
		return err
	}
	if a.State >= states || a.Epoch == 0 || a.Since == 0 || a.Since > a.Epoch {
		return fmt.Errorf("%w: bucket %v is %v at epoch %d since %d", ErrMap, a.Bucket, a.State, a.Epoch, a.Since)
	}
	for _, list := range [][]Member{a.Owners, a.Next} {
		if err := checkList(list, n); err != nil {
			return fmt.Errorf("bucket %v: %w", a.Bucket, err)
		}
	}
	if same := slices.Equal(a.Owners, a.Next); same != (a.State == Stable) {
		return fmt.Errorf("%w: M3: bucket %v is %v, its lists are equal: %t", ErrMap, a.Bucket, a.State, same)
	}
	return nil
}

// checkList checks M2 for one list.
func checkList(list []Member, n int) error {
	if len(list) == 0 || len(list) > n {
		return fmt.Errorf("%w: M2: a list of %d members, must have 1 to %d", ErrMap, len(list), n)
	}
	for i, m := range list {
		if err := m.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(list[:i], func(o Member) bool { return o.Node == m.Node }) {
			return fmt.Errorf("%w: M2: node %s is twice in a list", ErrMap, m.Node)
		}
	}
	return nil
}
