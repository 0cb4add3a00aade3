package bigset

import (
	"fmt"

	"bigset/clock"
	"bigset/keyscheme"
)

// Delta is what one atomic batch did. Other replicas apply it with engine.Replica.ApplyDelta, in any order and any number of times.
// Item i has the dot (Actor, First+i). A whole-set delete has no items but a Clear.
type Delta struct {
	Set   []byte
	Actor clock.Actor
	First uint64
	Items []Item
	Clear *clock.Clock
	// Request is the id of the client's request that made the delta, if it had one. A store that applies the delta knows the
	// request from then on.
	Request []byte
}

// Empty reports whether the delta holds no event.
func (d Delta) Empty() bool { return len(d.Items) == 0 && d.Clear.Empty() }

// Item is one event of a delta: an add or a remove of an element, and the dots that it killed.
type Item struct {
	Kind    keyscheme.Op
	Element []byte
	Context []clock.Dot
	// Wide, if it is not nil, replaces Context: the event kills the dots of its element that Wide covers, which each replica
	// determines for itself. Only stores with engine.Options.KeepContexts make and accept such items.
	Wide *clock.Clock
}

// WideBytes returns the size of the item's wide context in memory, 0 without one.
func (it *Item) WideBytes() int { return Context{Wide: it.Wide}.WideBytes() }

// ApplyOptions say how a delta, or facts, of another replica are applied. The zero value is the store's durability.
type ApplyOptions struct {
	Durability Durability
}

// Check returns what is wrong with a delta, for any store: ErrLimit, ErrRequest for its names, or ErrDelta.
func (d Delta) Check() error {
	if err := CheckName(d.Set); err != nil {
		return err
	}
	if err := CheckClock(d.Clear); err != nil {
		return err
	}
	if err := CheckRequest(d.Request); err != nil {
		return err
	}
	if len(d.Items) == 0 {
		return nil
	}
	if len(d.Items) > BatchOpsMax {
		return &LimitError{"items in a delta", len(d.Items), BatchOpsMax}
	}
	last := d.First + uint64(len(d.Items)) - 1
	if d.First == 0 || last < d.First || len(d.Actor) == 0 || len(d.Actor) > clock.ActorBytesMax {
		return fmt.Errorf("%w: %d items from dot %x:%d", ErrDelta, len(d.Items), string(d.Actor), d.First)
	}
	total, dots := 0, 0
	for i := range d.Items {
		it := &d.Items[i]
		if it.Kind != keyscheme.OpAdd && it.Kind != keyscheme.OpRemove {
			return fmt.Errorf("%w: an item of kind %q", ErrDelta, it.Kind)
		}
		if err := CheckElement(it.Element); err != nil {
			return err
		}
		if it.Wide != nil && len(d.Request) > 0 {
			return fmt.Errorf("%w: a request's id and a wide context", ErrDelta)
		}
		if err := (Context{Dots: it.Context, Wide: it.Wide}).check(DeltaDotsMax); err != nil {
			return fmt.Errorf("%w: %w", ErrDelta, err)
		}
		total += len(it.Element) + it.WideBytes()
		dots += len(it.Context)
	}
	if total > BatchBytesMax {
		return &LimitError{"bytes of elements in a delta", total, BatchBytesMax}
	}
	return checkBatch(d.Set, len(d.Items), total, dots)
}
