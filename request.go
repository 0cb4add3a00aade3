package bigset

import (
	"fmt"
	"time"

	"bigset/clock"
	"bigset/keyscheme"
)

// KeptRequest is what a store keeps of a client's request to a set, on its way to another store. Because of it, a repeated request
// is answered by the events that it became the first time.
type KeptRequest struct {
	Set, ID []byte
	// Age is how long ago it was stored, in whole milliseconds, by the clock of the sending store. So the receiver forgets it when
	// the sender does, whatever the clocks of the two machines are.
	Age time.Duration
	// Event i has the dot (Actor, First+i).
	Actor  clock.Actor
	First  uint64
	Events []keyscheme.RequestItem
}

// RequestAgeMax is the greatest age of a KeptRequest.
const RequestAgeMax = 365 * 24 * time.Hour

// Check returns what is wrong with a kept request: ErrLimit, or ErrRequest.
func (r *KeptRequest) Check() error {
	if err := CheckName(r.Set); err != nil {
		return err
	}
	if err := CheckRequest(r.ID); err != nil {
		return err
	}
	if len(r.Events) > BatchOpsMax {
		return &LimitError{"events of a request", len(r.Events), BatchOpsMax}
	}
	switch last := r.First + uint64(len(r.Events)) - 1; {
	case len(r.ID) == 0 || len(r.Events) == 0:
		return fmt.Errorf("%w: a kept request without an id or without events", ErrRequest)
	case r.Age < 0 || r.Age > RequestAgeMax || r.Age%time.Millisecond != 0:
		return fmt.Errorf("%w: a kept request of age %v", ErrRequest, r.Age)
	case r.First == 0 || last < r.First || len(r.Actor) == 0 || len(r.Actor) > clock.ActorBytesMax:
		return fmt.Errorf("%w: a kept request of %d events from dot %x:%d", ErrRequest, len(r.Events), string(r.Actor), r.First)
	}
	for i := range r.Events {
		if !r.Events[i].Op.Valid() {
			return fmt.Errorf("%w: an event of kind %q", ErrRequest, r.Events[i].Op)
		}
	}
	return nil
}
