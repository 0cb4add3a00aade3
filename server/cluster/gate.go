package cluster

import (
	"fmt"
	"sync"

	"bigset/server/peer"
)

// gate lets in requests of the current epoch and no others. A change of the epoch waits for the writes inside: writes that were let in
// under the former epoch finish before anything is done under the next one, so a copy made under the next epoch contains them.
type gate struct {
	mu    sync.Mutex
	epoch uint64 // 0 lets nothing in
	room  *room
}

// room contains the writes of one epoch.
type room struct {
	ready  chan struct{} // closed when the writes of the room before have left
	inside int
	empty  chan struct{} // closed when left is set and nothing is inside
	left   bool
}

func newGate() *gate {
	ready := make(chan struct{})
	close(ready)
	return &gate{room: &room{ready: ready, empty: make(chan struct{})}}
}

// refuse returns why a request under an epoch is not served. The error wraps peer.ErrUnavailable, because nothing has happened.
func refuse(asked, own uint64) error {
	if own == 0 {
		return fmt.Errorf("%w: this member does not serve yet", peer.ErrUnavailable)
	}
	return fmt.Errorf("asked under epoch %d: %w", asked, &peer.EpochError{Epoch: own})
}

// check returns an error unless the epoch is the current one.
func (g *gate) check(epoch uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if epoch != g.epoch || g.epoch == 0 {
		return refuse(epoch, g.epoch)
	}
	return nil
}

// enter lets in a write of the current epoch until leave is called.
func (g *gate) enter(epoch uint64) (leave func(), err error) {
	g.mu.Lock()
	if epoch != g.epoch || g.epoch == 0 {
		defer g.mu.Unlock()
		return nil, refuse(epoch, g.epoch)
	}
	r := g.room
	r.inside++
	g.mu.Unlock()
	<-r.ready
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.inside--; r.left && r.inside == 0 {
			close(r.empty)
		}
	}, nil
}

// turn changes the epoch, 0 for none, and returns when the writes of the former epoch have left.
func (g *gate) turn(epoch uint64) {
	g.mu.Lock()
	if g.epoch == epoch {
		g.mu.Unlock()
		return
	}
	old := g.room
	next := &room{ready: make(chan struct{}), empty: make(chan struct{})}
	g.epoch, g.room = epoch, next
	old.left = true
	if old.inside == 0 {
		close(old.empty)
	}
	g.mu.Unlock()
	<-old.ready // the writes of the room before old
	<-old.empty
	close(next.ready)
}
