package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"bigset"
	"bigset/server/peer"
)

// stamps records, for each filter and node, the two stamps at which that node's replica and the one in this process had the same bits. While
// both still have these stamps, the other one has no key that this one does not have, so it is asked for its stamp instead of for the keys
// that were not found here.
type stamps struct {
	mu        sync.Mutex
	filters   map[string]*filterStamps // by name; at most stampsMax
	comparing int                      // comparisons under way; at most stampsAtOnce
	results   atomic.Uint64            // number of comparisons whose result was recorded
}

// filterStamps are those of one generation of a filter.
type filterStamps struct {
	generation uint64
	mine       uint64    // as last seen
	since      time.Time // when it was first seen
	nodes      map[string]*nodeStamp
}

// nodeStamp is what is known of another replica.
type nodeStamp struct {
	mine, theirs uint64 // when the two were alike; both 0 if they were not yet, or have changed since
	result       uint64 // the number of the comparison that found this
	comparing    bool
	last         uint64        // the stamp here at the last comparison
	least, next  time.Time     // no comparison begins before least, and before next only if the filter rests
	pause        time.Duration // from a comparison to the next
	used         int           // requests for the stamp since the last comparison
	asked        int           // requests for keys since the filter last changed here
}

const (
	stampsMax = 1024
	// stampsAtOnce is how many filters are compared at a time: each comparison may read much at two nodes.
	stampsAtOnce = 2
	// stampQuiet is how long a filter must not have changed here before it is compared: a mark reaches the replicas at different moments.
	stampQuiet = 100 * time.Millisecond
	// stampPause and stampPauseMax bound the time from one comparison to the next. A comparison stores the pages that have changed and hashes
	// them, so the pause doubles after each that has served fewer than stampUsed checks.
	stampPause    = time.Second
	stampPauseMax = 10 * time.Minute
	stampUsed     = 256
	// stampRest is how long a filter must not have changed here to rest. If it has changed since the last comparison, and then stampUsed
	// checks have asked for keys, the pause ends: by now a comparison would have paid, however few checks the earlier ones have served.
	stampRest = time.Second
	// stampShare bounds the share of time that comparisons take: each pause is at least 20 times as long as the comparison before it.
	stampShare = 20
)

// entry returns what is known of a filter, whose stamp here is mine. It is called with mu held.
func (s *stamps) entry(spec *bigset.SliceSpec, mine uint64, now time.Time) *filterStamps {
	f := s.filters[string(spec.Name)]
	if f == nil || f.generation != spec.Generation {
		if s.filters == nil {
			s.filters = map[string]*filterStamps{}
		}
		for name := range s.filters { // any other one makes room
			if f != nil || len(s.filters) < stampsMax {
				break
			}
			delete(s.filters, name)
		}
		f = &filterStamps{generation: spec.Generation, nodes: map[string]*nodeStamp{}}
		s.filters[string(spec.Name)] = f
	}
	if f.since.IsZero() || f.mine != mine {
		f.mine, f.since = mine, now
		for _, n := range f.nodes {
			n.asked = 0
		}
	}
	return f
}

// wanted returns the stamp that a replica must have to be as it was when it had the same bits as the one here, which has the stamp mine. Only
// the given number of results count.
func (s *stamps) wanted(spec *bigset.SliceSpec, node string, mine, results uint64) (number uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.filters[string(spec.Name)]
	if f == nil || f.generation != spec.Generation {
		return 0, false
	}
	n := f.nodes[node]
	if n == nil || n.result > results || n.mine != mine || n.mine == 0 && n.theirs == 0 {
		return 0, false
	}
	n.used++
	return n.theirs, true
}

// forget forgets that a replica was like the one here when it had the stamp number.
func (s *stamps) forget(spec *bigset.SliceSpec, node string, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.filters[string(spec.Name)]; f != nil && f.generation == spec.Generation {
		if n := f.nodes[node]; n != nil && n.theirs == number {
			n.mine, n.theirs = 0, 0
		}
	}
}

// begin reports whether a replica is to be compared now, and records that it is.
func (s *stamps) begin(spec *bigset.SliceSpec, node string, mine uint64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.entry(spec, mine, now)
	n := f.nodes[node]
	if n == nil {
		n = &nodeStamp{pause: stampPause}
		f.nodes[node] = n
	}
	n.asked++
	quiet := now.Sub(f.since)
	rests := quiet >= stampRest && n.asked >= stampUsed && n.last != mine
	if rests {
		n.pause, n.next = stampPause, n.least
	}
	if n.comparing || quiet < stampQuiet || now.Before(n.next) || s.comparing >= stampsAtOnce {
		return false
	}
	n.comparing, n.last = true, mine
	s.comparing++
	return true
}

// compared records the result of a comparison that began at a time. alike says that the filters were the same.
func (s *stamps) compared(spec *bigset.SliceSpec, node string, alike bool, mine, theirs uint64, began, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comparing--
	f := s.filters[string(spec.Name)]
	if f == nil || f.generation != spec.Generation || f.nodes[node] == nil {
		return
	}
	n := f.nodes[node]
	if n.used >= stampUsed {
		n.pause = stampPause
	} else {
		n.pause = min(2*n.pause, stampPauseMax)
	}
	n.result = s.results.Add(1)
	n.least = now.Add(max(stampPause, stampShare*now.Sub(began)))
	n.comparing, n.used, n.next = false, 0, later(n.least, now.Add(n.pause))
	if n.mine, n.theirs = 0, 0; alike {
		n.mine, n.theirs = mine, theirs
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// stamped says how a check of many keys may use stamps. The zero value uses none.
type stamped struct {
	c    *Coordinator
	near peer.SlicesNow // the replica in this process; nil means that stamps are not used
	spec bigset.SliceSpec
	mine uint64 // the stamp that the filter had here after the keys were looked for

	results uint64 // of comparisons, that were known before the keys were looked for
}

// stampOf returns the stamp of a filter at a replica, if that is in this process.
func (c *Coordinator) stampOf(rep peer.SliceReplica, spec bigset.SliceSpec, results uint64) (s stamped) {
	near, ok := rep.(peer.SlicesNow)
	if !ok {
		return s
	}
	spec.Slice = 0
	if mine, ok := near.StampNow(spec); ok {
		s = stamped{c, near, spec, mine, results}
	}
	return s
}

// nothingMore reports whether a replica certainly has no key that was not found here: it has the stamp that it had when it was like the
// one here. If it has another stamp, or can't say, it has to be asked for the keys. The error bigset.ErrNoFilter is an answer: the filter was
// dropped. Any other error means that the caller no longer waits.
func (s *stamped) nothingMore(ctx context.Context, rep peer.SliceReplica) (bool, error) {
	if s.near == nil {
		return false, nil
	}
	far, ok := rep.(peer.Stamper)
	if !ok {
		return false, nil
	}
	node := rep.Member().Node
	theirs, ok := s.c.stamps.wanted(&s.spec, node, s.mine, s.results)
	if !ok {
		return false, nil
	}
	got, m, err := far.Stamp(ctx, s.spec, false)
	switch {
	case errors.Is(err, bigset.ErrNoFilter):
		return false, fmt.Errorf("%s: %w", m.Node, err)
	case err == nil && m.State == peer.Normal && got.Number == theirs: // a joining replica may not have all marks
		return true, nil
	case ctx.Err() != nil: // says nothing of the replica
		return false, context.Cause(ctx)
	}
	s.c.stamps.forget(&s.spec, node, theirs)
	return false, nil
}

// mayCompare compares the filter at a replica with that here, in the background, if it has been quiet and the last comparison is long ago.
func (s *stamped) mayCompare(rep peer.SliceReplica) {
	if s.near == nil {
		return
	}
	far, ok := rep.(peer.Stamper)
	if !ok || !s.c.stamps.begin(&s.spec, rep.Member().Node, s.mine, s.c.run.Now()) {
		return
	}
	if !s.c.enter() {
		return
	}
	s.c.run.Go(func() {
		defer s.c.leave()
		s.c.compareStamps(s.near, far, s.spec)
	})
}

// compareStamps asks two replicas for the digests of a filter, first the one that may not know them. Each stamp is from before its digest, so
// a filter that changes in the meantime has another one.
func (c *Coordinator) compareStamps(near, far peer.Stamper, spec bigset.SliceSpec) {
	ctx, cancel := Deadline(c.life, c.run, c.opt.Timeout)
	defer cancel()
	began := c.run.Now()
	there, by, err := far.Stamp(ctx, spec, true)
	var here peer.Stamp
	alike := err == nil && by.State == peer.Normal
	if alike {
		here, by, err = near.Stamp(ctx, spec, true)
		alike = err == nil && by.State == peer.Normal && here.Digest == there.Digest
	}
	node := far.Member().Node
	c.stamps.compared(&spec, node, alike, here.Number, there.Number, began, c.run.Now())
	kind := EventFilterDiffers
	if alike {
		kind = EventFilterAlike
	}
	c.opt.Events(Event{Kind: kind, Node: node, Set: spec.Name, Err: err})
}
