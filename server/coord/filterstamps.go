package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bigset"
	"bigset/server/peer"
)

// stamps are what the coordinator knows of filters that replicas were found to have alike: by the stamps that the replica in this process
// and another one had when they had the same bits. As long as both have these stamps, the other one has no key that this one does not have,
// so it is asked for its stamp instead of for the keys that were not found here.
type stamps struct {
	mu      sync.Mutex
	filters map[string]*filterStamps // by name; at most stampsMax
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
	comparing    bool
	next         time.Time     // no comparison begins before
	pause        time.Duration // from a comparison to the next
	used         int           // checks that the last comparison has served
}

const (
	stampsMax = 1024
	// stampQuiet is how long a filter must not have changed here before it is compared: what marks it also changes the other replica.
	stampQuiet = 100 * time.Millisecond
	// stampPause and stampPauseMax bound the time from one comparison to the next. A comparison stores the pages that have changed and hashes
	// them, so the pause doubles after each that has served fewer than stampUsed checks.
	stampPause    = time.Second
	stampPauseMax = 10 * time.Minute
	stampUsed     = 256
	// stampShare bounds the share of time that comparisons take: the pause is at least so many times what the last one took.
	stampShare = 20
)

// errStamp is the error of a replica that has changed since it was compared. Another one is asked for the keys.
var errStamp = fmt.Errorf("%w: the filter has changed there", peer.ErrUnavailable)

// of returns what is known of a filter, whose stamp here is mine. It is called with mu held.
func (s *stamps) of(spec *bigset.SliceSpec, mine uint64, now time.Time) *filterStamps {
	f := s.filters[string(spec.Name)]
	if f == nil || f.generation != spec.Generation {
		if s.filters == nil || f == nil && len(s.filters) >= stampsMax {
			s.filters = map[string]*filterStamps{}
		}
		f = &filterStamps{generation: spec.Generation, nodes: map[string]*nodeStamp{}}
		s.filters[string(spec.Name)] = f
	}
	if f.since.IsZero() || f.mine != mine {
		f.mine, f.since = mine, now
	}
	return f
}

// theirs returns the stamp that a replica must have to be as it was when it had the same bits as the one here.
func (s *stamps) theirs(spec *bigset.SliceSpec, node string, mine uint64) (number uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.filters[string(spec.Name)]
	if f == nil || f.generation != spec.Generation {
		return 0, false
	}
	n := f.nodes[node]
	if n == nil || n.mine != mine || n.mine == 0 && n.theirs == 0 {
		return 0, false
	}
	n.used++
	return n.theirs, true
}

// differ records that a replica has another stamp than number.
func (s *stamps) differ(spec *bigset.SliceSpec, node string, number uint64) {
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
	f := s.of(spec, mine, now)
	n := f.nodes[node]
	if n == nil {
		n = &nodeStamp{pause: stampPause}
		f.nodes[node] = n
	}
	if n.comparing || now.Sub(f.since) < stampQuiet || now.Before(n.next) {
		return false
	}
	n.comparing = true
	return true
}

// compared records the result of a comparison that began at a time. alike says that the filters were the same.
func (s *stamps) compared(spec *bigset.SliceSpec, node string, alike bool, mine, theirs uint64, began, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	n.comparing, n.used, n.next = false, 0, now.Add(max(n.pause, stampShare*now.Sub(began)))
	if n.mine, n.theirs = 0, 0; alike {
		n.mine, n.theirs = mine, theirs
	}
}

// stamped is a check of many keys by the stamp that the filter had here before the keys were looked for. The zero value is one without.
type stamped struct {
	c    *Coordinator
	near peer.SlicesNow // the replica in this process; nil means that stamps are not used
	spec bigset.SliceSpec
	mine uint64
}

// stampOf returns the stamp of a filter at a replica, if that is in this process.
func (c *Coordinator) stampOf(rep peer.SliceReplica, spec bigset.SliceSpec) (s stamped) {
	near, ok := rep.(peer.SlicesNow)
	if !ok {
		return s
	}
	spec.Slice = 0
	if mine, ok := near.StampNow(spec); ok {
		s = stamped{c, near, spec, mine}
	}
	return s
}

// nothingMore reports whether a replica certainly has no key that was not found here: it has the stamp that it had when it was like the
// one here. Its error is errStamp if it has another one. An error that is bigset.ErrNoFilter is an answer.
func (s *stamped) nothingMore(ctx context.Context, rep peer.SliceReplica) (bool, error) {
	if s.near == nil {
		return false, nil
	}
	far, ok := rep.(peer.Stamper)
	if !ok {
		return false, nil
	}
	node := rep.Member().Node
	theirs, ok := s.c.stamps.theirs(&s.spec, node, s.mine)
	if !ok {
		return false, nil
	}
	got, m, err := far.Stamp(ctx, s.spec, false)
	switch {
	case errors.Is(err, bigset.ErrNoFilter):
		return false, fmt.Errorf("%s: %w", m.Node, err)
	case err == nil && m.State != peer.Normal: // a joining replica may not have all marks
		err = fmt.Errorf("%w: %v", peer.ErrJoining, m)
	case err == nil && got.Number == theirs:
		return true, nil
	case err == nil:
		err = errStamp
	}
	s.c.stamps.differ(&s.spec, node, theirs)
	return false, err
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

// compareStamps asks two replicas for the digests of a filter. Each stamp is from before its digest, so a filter that changes in the
// meantime has another one.
func (c *Coordinator) compareStamps(near, far peer.Stamper, spec bigset.SliceSpec) {
	ctx, cancel := Deadline(c.life, c.run, c.opt.Timeout)
	defer cancel()
	began := c.run.Now()
	here, by, err := near.Stamp(ctx, spec, true)
	var there peer.Stamp
	alike := err == nil && by.State == peer.Normal
	if alike {
		there, by, err = far.Stamp(ctx, spec, true)
		alike = err == nil && by.State == peer.Normal && here.Digest == there.Digest
	}
	c.stamps.compared(&spec, far.Member().Node, alike, here.Number, there.Number, began, c.run.Now())
}
