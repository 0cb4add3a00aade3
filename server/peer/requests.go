package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// The kinds of frames about records of clients' requests, from version 2 on. They are on the wire.
const (
	kindAskRequests = 'J'
	kindRequests    = 'B'
)

// RequestsMax is the maximum number of kept requests in a frame. It is part of the wire format.
const RequestsMax = 4096

// RequestLister is a Replica that lists its records of clients' requests, for a copy of the sets of these requests.
type RequestLister interface {
	// Requests lists this replica's records of requests to sets in a range of slots, both ends included, in the order of slots; those to
	// one set are adjacent. The list is not of a single moment. Joining replicas answer, too. A replica that runs an older program returns
	// ErrFrameKind.
	//
	//	here A7 of request q in set s;  Requests(all)  =>  {s q A7, 40 s old}
	Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error]
}

// AskRequests asks for the records of requests to the sets in a range of slots: RequestLister.Requests's arguments in a frame.
type AskRequests slots

func (AskRequests) kind() byte { return kindAskRequests }

func (m AskRequests) appendTo(e *encoder) error { return e.slots(slots(m)) }

// Requests are records of clients' requests.
type Requests []bigset.KeptRequest // at most RequestsMax

func (Requests) kind() byte { return kindRequests }

const (
	requestSumBytes = 8
	// requestBytesMin is the minimum size of a kept request: lengths and a byte each of set and id, slice, age, actor, first, number of
	// events, one event.
	requestBytesMin = 2 + 1 + 2 + 1 + 1 + 1 + 1 + requestEventBytesMin
	// requestEventBytesMin is the minimum size of an event: operation, sum, number of dots.
	requestEventBytesMin = 1 + requestSumBytes + 1
)

func (m Requests) appendTo(e *encoder) error {
	if len(m) > RequestsMax {
		return fmt.Errorf("%w: %d kept requests", ErrFrameTooLarge, len(m))
	}
	e.uvarint(uint64(len(m)))
	for i := range m {
		if err := e.keptRequest(&m[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) keptRequest(r *bigset.KeptRequest) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	e.set(r.Set)
	e.bytes(r.ID)
	e.uvarint(uint64(r.Age.Milliseconds()))
	e.actor(r.Actor)
	e.uvarint(r.First)
	e.uvarint(uint64(len(r.Events)))
	for i := range r.Events {
		ev := &r.Events[i]
		n := ev.Context.Len()
		if n > bigset.DeltaDotsMax {
			return fmt.Errorf("%w: %d dots", ErrFrameTooLarge, n)
		}
		e.byte(byte(ev.Op))
		e.b = binary.BigEndian.AppendUint64(e.b, ev.Sum)
		e.uvarint(n)
		for d := range ev.Context.Dots() {
			e.actor(d.Actor)
			e.uvarint(d.Counter)
		}
	}
	return nil
}

func (d *decoder) requests() Requests {
	n := d.count(requestBytesMin, RequestsMax)
	if n == 0 {
		return nil
	}
	m := make(Requests, 0, n)
	for len(m) < n && d.err == nil {
		m = append(m, d.keptRequest())
	}
	return m
}

func (d *decoder) keptRequest() bigset.KeptRequest {
	r := bigset.KeptRequest{Set: d.setName(), ID: d.bytes(RequestBytesMax), Age: time.Duration(d.upTo(uint64(bigset.RequestAgeMax.Milliseconds()))) * time.Millisecond,
		Actor: d.actor(), First: d.uvarint()}
	n := d.count(requestEventBytesMin, bigset.BatchOpsMax)
	r.Events = make([]keyscheme.RequestItem, 0, n)
	for len(r.Events) < n && d.err == nil {
		ev := keyscheme.RequestItem{Op: keyscheme.Op(d.byte()), Sum: binary.BigEndian.Uint64(d.raw(requestSumBytes))}
		dots := d.dots(bigset.DeltaDotsMax)
		if !ascending(dots) {
			d.fail("dots in no order")
		}
		ev.Context = clock.Of(dots...)
		r.Events = append(r.Events, ev)
	}
	if err := r.Check(); d.err == nil && err != nil {
		d.failed("kept request", err)
	}
	return r
}

// requestMessage decodes the rest of a frame as a message about kept requests, or returns nil if the kind is not one.
func (d *decoder) requestMessage(kind byte) Message {
	switch kind {
	case kindAskRequests:
		return AskRequests(d.slots())
	case kindRequests:
		return d.requests()
	}
	return nil
}
