package peer

import (
	"context"
	"fmt"

	"bigset"
)

// The kinds of frames about stamps of filters, from version 2 on. They are on the wire.
const (
	kindAskStamp = '3'
	kindStamp    = '4'
)

// Stamper is an optional extension of ManySlices: a replica whose filters have stamps, so that a coordinator need not ask for each key when
// two replicas have the same bits.
type Stamper interface {
	ManySlices

	// Stamp returns the stamp of a filter at this replica, with its digest if that is asked for. The spec's slice is ignored. Marks that were
	// acknowledged before the call are in what the stamp stands for. The answer counts as that of Check: the replica is complete if its state
	// is Normal. Errors are those of Check, and bigset.ErrLimit if too much would have to be read for a digest. A replica that runs an
	// older program returns ErrFrameKind.
	//
	//	Stamp => 7;  Stamp => 7;  Mark(k);  Stamp => 8
	Stamp(ctx context.Context, spec bigset.SliceSpec, digest bool) (Stamp, Member, error)
}

// Stamp says what a replica has of a filter at one moment. A replica never has the same Number for other bits of any filter, up to the
// chance of 64 random bits, and has another one after a restart. Replicas with equal digests have the same slices with the same bits.
type Stamp struct {
	Number uint64
	Digest [16]byte // zero if it was not asked for
}

// AskStamp asks for the stamp of a filter: Stamper.Stamp's arguments in a frame.
type AskStamp struct {
	Spec   bigset.SliceSpec // its slice is 0
	Digest bool
}

func (AskStamp) kind() byte { return kindAskStamp }
func (Stamp) kind() byte    { return kindStamp }

// stampMessage decodes the rest of a frame as a message about stamps, or returns nil if the kind is not one.
func (d *decoder) stampMessage(kind byte) Message {
	switch kind {
	case kindAskStamp:
		m := AskStamp{Spec: d.spec(), Digest: d.bool()}
		if m.Spec.Slice != 0 {
			d.fail("a slice of a whole filter")
		}
		return m
	case kindStamp:
		m := Stamp{Number: d.uvarint()}
		copy(m.Digest[:], d.raw(len(m.Digest)))
		return m
	}
	return nil
}

func (m AskStamp) appendTo(e *encoder) error {
	if m.Spec.Slice != 0 {
		return fmt.Errorf("%w: slice %d of a whole filter", ErrFrame, m.Spec.Slice)
	}
	if err := e.spec(&m.Spec); err != nil {
		return err
	}
	e.bool(m.Digest)
	return nil
}

func (m Stamp) appendTo(e *encoder) error {
	e.uvarint(m.Number)
	e.b = append(e.b, m.Digest[:]...)
	return nil
}
