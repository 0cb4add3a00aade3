package handoff

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"bigset/clock"
	"bigset/keyscheme"
)

var (
	// ErrSource says that something came from another sender than the copy's, or from another incarnation of it.
	ErrSource = errors.New("handoff: not from the sender of this copy")
	// ErrOrder says that a set or a chunk is not the expected one.
	ErrOrder = errors.New("handoff: unexpected set or chunk")
	// ErrIncomplete says that dots of a set's check have not come.
	ErrIncomplete = errors.New("handoff: incomplete")
	// ErrOwed says that more sets are owed than a copy can record.
	ErrOwed = errors.New("handoff: too many sets are incomplete")
	// ErrCorrupt is returned for bytes that are no progress.
	ErrCorrupt = errors.New("handoff: corrupt progress")
)

// OwedMax is the largest number of incomplete sets that a copy records.
const OwedMax = 1024

// Source is the sender: a node in one incarnation.
type Source struct {
	Node        string
	Incarnation clock.Actor
}

// Range is a range of slots, both ends included.
type Range struct{ First, Last keyscheme.Slot }

// Progress is how far a copy has come. What it records as done must already be durable.
type Progress struct {
	from  Source
	slots Range
	// set is the current set, or the last one that was finished; nil before the first. The sets before it are done.
	set   []byte
	begun bool         // chunks of set have come, and it is not finished
	whole bool         // the last chunk of set has come
	after []byte       // the last chunk was complete up to here; nil is the start
	check *clock.Clock // of the first chunk of set
	owed  []Owed       // in the order of the store
}

// Owed is a set whose chunks have all come, but which is not complete.
type Owed struct {
	Set []byte
	// Check are the dots of the sender's first clock that are still missing in the receiver's Seen.
	Check *clock.Clock
}

// New returns the progress of a copy that has not begun.
func New(from Source, slots Range) *Progress { return &Progress{from: from, slots: slots} }

// Resume returns where to go on: p, if it is of this copy, otherwise a new Progress. A copy from another sender, or from another
// incarnation of the sender, begins again, because no store may have seen the clocks of its checks any more. What has come stays.
func (p *Progress) Resume(from Source, slots Range) *Progress {
	if p == nil || p.from != from || p.slots != slots {
		return New(from, slots)
	}
	return p
}

// From returns the sender.
func (p *Progress) From() Source { return p.from }

// Slots returns the range.
func (p *Progress) Slots() Range { return p.slots }

// Owed returns the sets that are not complete.
func (p *Progress) Owed() []Owed { return slices.Clone(p.owed) }

// CompareSets orders sets as a store does: by slot, length of the name, name.
func CompareSets(a, b []byte) int {
	return cmp.Or(cmp.Compare(keyscheme.SetSlot(a), keyscheme.SetSlot(b)), cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}

// Next returns the first slot in which sets may not be done yet.
func (p *Progress) Next() keyscheme.Slot {
	if p.set == nil {
		return p.slots.First
	}
	return keyscheme.SetSlot(p.set)
}

// Wants reports whether a set is still to be copied, in part or as a whole.
func (p *Progress) Wants(set []byte) bool {
	if slot := keyscheme.SetSlot(set); slot < p.slots.First || slot > p.slots.Last {
		return false
	}
	c := 1
	if p.set != nil {
		c = CompareSets(set, p.set)
	}
	return c > 0 || c == 0 && p.begun
}

// Begin returns the element of a set after which to go on, nil for the start, and whether all its chunks have come already. Sets
// are begun in order. If another set is current, it is abandoned, because its sender no longer has it.
func (p *Progress) Begin(set []byte) (after []byte, whole bool, err error) {
	if !p.Wants(set) {
		return nil, false, fmt.Errorf("%w: set %.64q", ErrOrder, set)
	}
	if !p.begun || !bytes.Equal(set, p.set) {
		p.set, p.begun, p.whole, p.after, p.check = bytes.Clone(set), true, false, nil, nil
	}
	return p.after, p.whole, nil
}

// Chunk describes a part of a set that has come, without its keys.
type Chunk struct {
	From  Source
	Set   []byte
	Bound []byte // complete from the chunk before up to here; nil when Done
	Done  bool
	Seen  *clock.Clock // the sender's, at the moment of the chunk; needed only with the first one
}

// Check returns what is wrong with a chunk that came as the next one of the current set, or nil.
func (p *Progress) Check(c Chunk) error {
	switch {
	case c.From != p.from:
		return fmt.Errorf("%w: from %q in incarnation %x", ErrSource, c.From.Node, string(c.From.Incarnation))
	case !p.begun || p.whole || !bytes.Equal(c.Set, p.set):
		return fmt.Errorf("%w: a chunk of set %.64q", ErrOrder, c.Set)
	case c.Done != (c.Bound == nil), p.after != nil && !c.Done && bytes.Compare(c.Bound, p.after) <= 0:
		return fmt.Errorf("%w: a chunk of set %.64q up to %.64q, but the last one ended at %.64q", ErrOrder, c.Set, c.Bound, p.after)
	case p.check == nil && c.Seen == nil:
		return fmt.Errorf("%w: the first chunk of set %.64q has no clock", ErrOrder, c.Set)
	}
	return nil
}

// Took records a chunk whose keys are in the receiver. It keeps only the clock of the first chunk: those of later chunks are newer
// than what the first ones brought, and check nothing.
func (p *Progress) Took(c Chunk) error {
	if err := p.Check(c); err != nil {
		return err
	}
	if p.check == nil {
		p.check = c.Seen
	}
	p.after, p.whole = bytes.Clone(c.Bound), c.Done
	return nil
}

// Finish ends the current set, all of whose chunks must have come. It returns the dots of the check that are not in seen, what the
// receiver has seen. If any are missing, the set is owed.
func (p *Progress) Finish(seen *clock.Clock) (missing *clock.Clock, err error) {
	if !p.begun || !p.whole {
		return nil, fmt.Errorf("%w: not all chunks of the set have come", ErrOrder)
	}
	missing = Missing(p.check, seen)
	if !missing.Empty() {
		if len(p.owed) == OwedMax {
			return nil, fmt.Errorf("%w: %d", ErrOwed, OwedMax)
		}
		p.owed = append(p.owed, Owed{Set: p.set, Check: missing})
	}
	p.begun, p.whole, p.after, p.check = false, false, nil, nil
	return missing, nil
}

// Settle checks again a set that is owed, against what the receiver has seen now, and returns what is still missing.
func (p *Progress) Settle(set []byte, seen *clock.Clock) *clock.Clock {
	i := slices.IndexFunc(p.owed, func(o Owed) bool { return bytes.Equal(o.Set, set) })
	if i < 0 {
		return &clock.Clock{}
	}
	missing := Missing(p.owed[i].Check, seen)
	if missing.Empty() {
		p.owed = slices.Delete(p.owed, i, i+1)
	} else {
		p.owed[i].Check = missing
	}
	return missing
}

// Incomplete returns nil if no set is owed, otherwise an error that wraps ErrIncomplete and names the sets.
func (p *Progress) Incomplete() error {
	var errs []error
	for _, o := range p.owed {
		errs = append(errs, fmt.Errorf("%w: %d dots of set %.64q are missing", ErrIncomplete, o.Check.Len(), o.Set))
	}
	return errors.Join(errs...)
}

// Missing returns the dots of a check that are not seen.
func Missing(check, seen *clock.Clock) *clock.Clock {
	missing := check.Clone()
	missing.Subtract(seen)
	return missing
}

// Due returns the dots whose keys must come before the sender's Dead of a moment may: those that were live at that moment and that
// the receiver has not seen.
func Due(senderSeen, senderDead, seen *clock.Clock) *clock.Clock {
	due := Missing(senderSeen, seen)
	due.Subtract(senderDead)
	return due
}
