package door

import (
	"sync/atomic"
	"time"
)

// Connections whose answers take long from memory are served by goroutines of their own. If as many of them work as there are processors, the
// goroutine of a loop gets a processor only when one of them is interrupted, which takes ten milliseconds, and then waits for all that came before
// it. So while loops have requests, long work is done by fewer at a time: see placesOf. They take turns after each part: of a read, and of an answer
// that is written. Places are of one door: long reads of other protocols have none.

const (
	// askedTime is how long loops count as busy after a request. It is longer than a loop waits for a processor of a busy machine.
	askedTime = time.Second
	// placeTime is the longest time that a part of long work waits for a place: others may hold theirs because they wait for a disk.
	placeTime = time.Second
)

// places are for connections that do a part of long work.
type places struct {
	taken chan struct{}
	wait  time.Duration
	asked spell // loops have requests
}

// placesOf returns the number of places: the loops have a processor each, but at most half of all.
func placesOf(processors, loops int) int { return max(1, processors/2, processors-max(0, loops)) }

// NextPart begins a part of long work that MayWait has announced: one that takes a processor for about a millisecond. While event loops have
// requests, it waits until few enough other connections do a part. EndParts must follow the last part.
func (c *Conn) NextPart() {
	c.EndParts()
	if !c.s.places.asked.lasts() {
		return
	}
	select {
	case c.s.places.taken <- struct{}{}:
		c.placed = true
		return
	default:
	}
	t := time.NewTimer(c.s.places.wait)
	defer t.Stop()
	select {
	case c.s.places.taken <- struct{}{}:
		c.placed = true
	case <-t.C:
	}
}

// EndParts ends the current part of long work, if any.
func (c *Conn) EndParts() {
	if c.placed {
		c.placed = false
		<-c.s.places.taken
	}
}

// spell is a time that ends by itself. It has its end in nanoseconds since 1970; 0 means that there was none.
type spell struct{ end atomic.Int64 }

func (s *spell) begin(now time.Time, d time.Duration) { s.end.Store(now.Add(d).UnixNano()) }

func (s *spell) lasts() bool {
	end := s.end.Load()
	return end != 0 && time.Now().UnixNano() < end
}
