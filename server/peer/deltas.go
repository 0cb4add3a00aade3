package peer

import (
	"bytes"
	"context"
	"fmt"

	"bigset"
)

// The kinds of frames about several deltas of one set, from version 3 on. They are on the wire.
const (
	kindDeltas   = '1'
	kindOutcomes = '2'
)

// DeltasVersion is the least version of frames that has several deltas in one.
const DeltasVersion = 3

// The bounds of several deltas in one frame. They are part of the wire format.
const (
	DeltasMax     = 4096               // deltas
	DeltaItemsMax = bigset.BatchOpsMax // items of all of them
)

// ErrOneByOne says that the replica runs an older version, which does not take several deltas in one call. It wraps ErrUnavailable: nothing has happened,
// and each delta can be applied by itself. It is found before anything is sent, so that it never crosses the wire.
var ErrOneByOne = fmt.Errorf("%w: it takes deltas one by one", ErrUnavailable)

// ManyDeltas is what a Replica may also offer: several deltas of one set in one call, so that a coordinator sends a node one frame for a group of writers.
type ManyDeltas interface {
	// ApplyMany applies deltas of one set, each as Apply does: whole or not at all, and with an error of its own, which says what that of Apply would say.
	// No errors at all, nil, acknowledge all deltas. The error of the call is that of each of them, unless it is Refused or ErrOneByOne: then nothing
	// was done, perhaps because of a single delta, and the caller applies each by itself. There are 1 to DeltasMax deltas, with at most DeltaItemsMax
	// items together.
	ApplyMany(ctx context.Context, deltas []bigset.Delta, durability bigset.Durability) ([]error, Member, error)
}

// DeltasSender is a ManyDeltas that can be sent deltas without a goroutine that waits for the answer.
type DeltasSender interface {
	// SendDeltas does what ApplyMany does, and returns before. It reports false, or calls done, as DeltaSender.SendDelta does.
	SendDeltas(ctx context.Context, deltas []bigset.Delta, durability bigset.Durability, done func(each []error, err error)) bool
}

// ManyWrites is what a Replica in this process may also offer: several requests to one set in one call.
type ManyWrites interface {
	// WriteMany does requests to one set, each as Write does: whole or not at all, and with an outcome of its own. With an error of the call nothing was done.
	WriteMany(ctx context.Context, set []byte, all []bigset.WriteRequest) ([]bigset.WriteOutcome, Member, error)
}

// Deltas are several deltas of one set in a frame: ManyDeltas.ApplyMany's arguments.
type Deltas []bigset.Delta

// Outcomes answers Deltas if some were not applied: the error of each, nil for those that were.
type Outcomes []error

func (Deltas) kind() byte   { return kindDeltas }
func (Outcomes) kind() byte { return kindOutcomes }

// deltasMessage decodes the rest of a frame as one about several deltas, or returns nil when the kind is none of theirs.
func (d *decoder) deltasMessage(kind byte) Message {
	switch kind {
	case kindDeltas:
		return d.deltas()
	case kindOutcomes:
		return d.outcomes()
	}
	return nil
}

// CheckDeltas returns an error that is ErrFrame unless deltas can be applied together.
func CheckDeltas(all []bigset.Delta) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: no deltas", ErrFrame)
	}
	items := 0
	for i := range all {
		items += len(all[i].Items)
		if !bytes.Equal(all[i].Set, all[0].Set) {
			return fmt.Errorf("%w: deltas of %.64q and %.64q", ErrFrame, all[0].Set, all[i].Set)
		}
	}
	if len(all) > DeltasMax || items > DeltaItemsMax {
		return fmt.Errorf("%w: %d deltas with %d items", ErrFrameTooLarge, len(all), items)
	}
	return nil
}

func (m Deltas) appendTo(e *encoder) error {
	if err := CheckDeltas(m); err != nil {
		return err
	}
	e.set(m[0].Set)
	e.uvarint(uint64(len(m)))
	for i := range m {
		if err := e.change((*Delta)(&m[i])); err != nil {
			return err
		}
	}
	return nil
}

// changeBytesMin is the least that a delta takes without its set: the length of the request id, the empty clock, the number of items.
const changeBytesMin = 1 + len(emptyClock) + 1

func (d *decoder) deltas() Deltas {
	set := d.setName()
	n, left := d.count(changeBytesMin, DeltasMax), DeltaItemsMax
	if n == 0 {
		d.fail("no deltas")
		return nil
	}
	m := make(Deltas, 0, n)
	for len(m) < n && d.err == nil {
		m = append(m, bigset.Delta(d.change(set, left)))
		left -= len(m[len(m)-1].Items)
	}
	return m
}

func (m Outcomes) appendTo(e *encoder) error {
	if len(m) > DeltasMax {
		return fmt.Errorf("%w: outcomes of %d deltas", ErrFrameTooLarge, len(m))
	}
	e.uvarint(uint64(len(m)))
	for _, err := range m {
		e.groupError(err)
	}
	return nil
}

func (d *decoder) outcomes() Outcomes {
	n := d.count(1, DeltasMax)
	m := make(Outcomes, 0, n)
	for len(m) < n && d.err == nil {
		m = append(m, d.groupError())
	}
	return m
}

// Every returns the errors of n deltas by what ManyDeltas.ApplyMany has returned: those of each, or that of the call.
func Every(n int, each []error, err error) []error {
	switch {
	case err == nil && len(each) == n:
		return each
	case err == nil && each != nil: // of other deltas: nobody knows
		err = ErrAnswer
	}
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}
