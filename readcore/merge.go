package readcore

import (
	"bytes"
	"errors"
	"fmt"

	"bigset/clock"
	"bigset/fold"
)

// Errors of Admit and NotFound. What they refuse changes nothing: the stream may be failed and replaced.
var (
	// ErrChunk is returned for a chunk that no read can have made: out of order, without a clock, without a bound.
	ErrChunk = errors.New("readcore: bad chunk")
	// ErrUnwanted is returned for a stream that must not deliver now: its last chunk is not merged yet, or it has ended,
	// or has failed.
	ErrUnwanted = errors.New("readcore: unwanted chunk")
)

// Options say what is merged.
type Options struct {
	// Streams is R, the number of streams that must answer for each element; at least 1.
	Streams int
	// Reverse says that the streams come in descending order.
	Reverse bool
	// Limit ends the read after that many elements; 0 is no limit. A stream that is limited, too, is not over at its limit:
	// elements of it may not survive. It is read on behind its last bound when it is wanted.
	Limit int
	// Passing says that the memory of a result is used no more when the first stream is asked for its scrap (Merge.Scrap): then the chunks whose elements were
	// given as they are become scrap, too.
	Passing bool
}

// Result is what a merge became certain of. Its memory is shared with the chunks: it must not be changed.
type Result struct {
	// Context, when it is not nil, is the wide context of the elements of this result and those behind it, in place of the
	// one before. It comes first of all, and once after each replacement. It is not for elements that the read leaves out
	// because it is of a part of the set. See Merge.Whole for the whole set.
	Context *clock.Clock
	// Elements are those present that have become certain, in the order of the read, each with the dots that survived: its
	// narrow context.
	Elements []fold.Element
	// Bound is the element up to which all is merged, itself included. Nil before there is one, and when all of the read is.
	Bound []byte
	// Done says that no result follows.
	Done bool
	// NotFound says, with Done, that no replica knew the set.
	NotFound bool
	// Lacking says, by stream, what its replica lacks. Streams that lack nothing are left out, and so is what is missing at
	// one that does not know the set. A stream is that of the moment: look up whose it is before it is replaced.
	Lacking []Lack
}

// Merge merges R streams of chunks. Make one with New; then, in any order as chunks come and streams fail, Admit, NotFound,
// Fail and Replace, each followed by Step.
type Merge struct {
	opt     Options
	streams []stream
	bound   []byte // merged up to here; nil when nothing is
	left    int    // elements that may still come, with Options.Limit
	found   bool   // a stream has delivered a chunk
	done    bool

	stale   bool         // a new context is due: none was given yet, or a stream has failed since
	context *clock.Clock // the current one
	spent   *clock.Clock // what is in all contexts before it; nil when there is none
	used    bool         // something was merged under the current one

	// Scratch of one walk.
	runs  [][]fold.Element // of each stream, what is certain and not walked yet
	heads []*fold.Element  // of each stream, the element at hand, nil when the stream does not have it
	at    []int            // of each head, its first dot that is not merged yet
	live  []clock.Dot      // those of the element at hand that survive
	lacks []Lack
	arena []clock.Dot // of the result's dots that are nobody's
}

// stream is one replica's part of the read.
type stream struct {
	chunk    *fold.Chunk  // what is not merged of it; nil when all is
	next     int          // its first element that is not merged
	shared   bool         // a result shares memory with it
	scrap    *fold.Chunk  // the one before, all merged, if no result shares memory with it
	clock    *clock.Clock // of the last chunk
	first    *clock.Clock // of the first one; nil before it
	bound    []byte       // of the last one, or where the stream began; nil is the beginning
	over     bool         // no chunk follows: it is complete for ever
	resumed  bool         // its next chunk must have seen what its first one had
	failed   bool         // it has no replica
	notFound bool         // its replica does not know the set
}

// New returns a merge of o.Streams streams, all of which are wanted. It panics if there are none.
func New(o Options) *Merge {
	if o.Streams < 1 {
		panic(fmt.Sprintf("readcore: %d streams", o.Streams))
	}
	return &Merge{
		opt:     o,
		streams: make([]stream, o.Streams),
		left:    o.Limit,
		stale:   true,
		runs:    make([][]fold.Element, o.Streams),
		heads:   make([]*fold.Element, o.Streams),
		at:      make([]int, o.Streams),
		lacks:   make([]Lack, o.Streams),
	}
}

// Wants appends to dst the streams that should deliver their next chunk, and returns it. Only these may: the chunks of all
// others are held until they are merged, so that memory is bounded by one chunk a stream. When the read is done it is empty:
// whoever still delivers is told to stop.
func (m *Merge) Wants(dst []int) []int {
	for i := range m.streams {
		if m.wants(i) {
			dst = append(dst, i)
		}
	}
	return dst
}

func (m *Merge) wants(i int) bool {
	s := &m.streams[i]
	return !m.done && s.chunk == nil && !s.over && !s.failed
}

// Admit takes the next chunk of a stream, and keeps it. One with neither bound nor elements, which is not Done, says nothing
// but its clock: with the first clocks of all streams the context is known, before there are elements. Its errors are
// ErrUnwanted and ErrChunk.
func (m *Merge) Admit(i int, c *fold.Chunk) error {
	if !m.wants(i) {
		return fmt.Errorf("%w: of stream %d", ErrUnwanted, i)
	}
	s := &m.streams[i]
	if reason := m.flaw(s.bound, c); reason != "" {
		return fmt.Errorf("%w: of stream %d: %s", ErrChunk, i, reason)
	}
	if s.resumed && !c.Clock.Descends(s.first) {
		return fmt.Errorf("%w: of stream %d: it has forgotten what it had seen", ErrChunk, i)
	}
	m.found = true
	s.clock, s.resumed = c.Clock, false
	if s.first == nil {
		s.first = c.Clock
	}
	s.over = c.Done
	if c.Bound != nil {
		s.bound = c.Bound
	}
	if c.Bound != nil || c.Done {
		s.chunk, s.next, s.shared, s.scrap = c, 0, false, nil
	}
	return nil
}

// Scrap returns the last chunk of a stream if it is merged and no result shares memory with it, once; else nil. While streams agree all
// chunks but those of the first one end so, and with Options.Passing those, too.
func (m *Merge) Scrap(i int) *fold.Chunk {
	c := m.streams[i].scrap
	m.streams[i].scrap = nil
	return c
}

// flaw returns what is wrong with a chunk that should go on behind a bound, or nothing.
func (m *Merge) flaw(behind []byte, c *fold.Chunk) string {
	switch {
	case c == nil || c.Clock == nil:
		return "no clock"
	case c.Count > len(c.Elements):
		return "elements are counted, not kept"
	case c.Bound == nil && !c.Done && len(c.Elements) > 0:
		return "elements without a bound"
	case c.Bound != nil && behind != nil && m.compare(c.Bound, behind) <= 0:
		return "the bound is not behind the last one"
	}
	last, any, sign := behind, behind != nil, m.sign()
	for k := range c.Elements {
		e := &c.Elements[k]
		if any && bytes.Compare(e.Name, last) != sign {
			return "elements out of order"
		}
		if !ascending(e.Dots) {
			return "an element without dots, or with dots out of order"
		}
		last, any = e.Name, true
	}
	if c.Bound != nil && any && m.compare(last, c.Bound) > 0 {
		return "an element behind the bound"
	}
	return ""
}

// ascending reports whether there are dots, all valid, each above the one before.
func ascending(dots []clock.Dot) bool {
	if len(dots) == 1 { // as usual
		return dots[0].Valid()
	}
	for i := range dots {
		if !dots[i].Valid() || i > 0 && dots[i-1].Compare(dots[i]) >= 0 {
			return false
		}
	}
	return len(dots) > 0
}

// NotFound says that the replica of a stream that is wanted, and has delivered nothing, does not know the set: it counts as one
// that has seen nothing and has ended. Where such an answer shall not count, Fail the stream instead. Its error is
// ErrUnwanted.
func (m *Merge) NotFound(i int) error {
	s := &m.streams[i]
	if !m.wants(i) || s.first != nil {
		return fmt.Errorf("%w: not found, of stream %d", ErrUnwanted, i)
	}
	s.clock = &clock.Clock{}
	s.first, s.over, s.notFound = s.clock, true, true
	return nil
}

// Fail forgets a stream: what was held of it, and its clocks. Nothing is merged until it is replaced.
func (m *Merge) Fail(i int) {
	m.streams[i] = stream{failed: true}
	m.stale = true
}

// Replace puts a replica in the place of a stream that has failed, and returns the element behind which it must begin; nil is
// where the read begins. It may be the one that failed.
func (m *Merge) Replace(i int) (after []byte) {
	if !m.streams[i].failed {
		panic(fmt.Sprintf("readcore: stream %d has not failed", i))
	}
	m.streams[i] = stream{bound: m.bound}
	return m.bound
}

// Resume begins a stream again, at the replica that it is of, and returns the element after which it must go on. What was held of it is forgotten, its first
// clock is not: the contexts that were given stay, and so Admit refuses a next chunk that has not seen as much. It reports false, and changes nothing, for a
// stream of which nothing is merged, one that is complete, and one that has failed.
func (m *Merge) Resume(i int) (after []byte, ok bool) {
	s := &m.streams[i]
	if m.done || m.bound == nil || s.first == nil || s.over || s.failed {
		return nil, false
	}
	*s = stream{first: s.first, bound: m.bound, resumed: true}
	return m.bound, true
}

// Rest returns what is held of a stream and not merged, or nil. It shares the memory of the chunk.
func (m *Merge) Rest(i int) *fold.Chunk {
	s := &m.streams[i]
	if s.chunk == nil {
		return nil
	}
	rest := s.chunk.Elements[s.next:]
	return &fold.Chunk{Clock: s.clock, Elements: rest, Count: len(rest), Bound: s.chunk.Bound, Done: s.chunk.Done}
}

// Step merges what has become certain. It reports false when that is nothing new: a stream is wanted, or to be replaced, or the
// read is done.
func (m *Merge) Step() (Result, bool) {
	if m.done || !m.answered() {
		return Result{}, false
	}
	var r Result
	if m.stale {
		m.renewContext()
		r.Context = m.context
	}
	held := m.held()
	if held {
		m.merge(&r)
	}
	r.Bound, r.Done, r.NotFound = m.bound, m.done, m.done && !m.found
	return r, held || r.Context != nil
}

// answered reports whether the first clocks of all streams are known.
func (m *Merge) answered() bool {
	for i := range m.streams {
		if m.streams[i].first == nil {
			return false
		}
	}
	return true
}

// held reports whether every stream has something that is not merged, or is over.
func (m *Merge) held() bool {
	for i := range m.streams {
		if s := &m.streams[i]; s.chunk == nil && !s.over {
			return false
		}
	}
	return true
}

// renewContext makes the context of what is behind the merged bound.
func (m *Merge) renewContext() {
	if m.used {
		m.spent = m.Whole()
	}
	m.context = m.streams[0].first.Clone()
	for i := range m.streams[1:] {
		m.context.Union(m.streams[i+1].first)
	}
	m.stale, m.used = false, false
}

// Whole returns the context for an operation on the whole set, once all of it was read: what is in every context that was given. It
// is shared and must not be changed. Before the first Result it is nil.
func (m *Merge) Whole() *clock.Clock {
	if m.spent == nil {
		return m.context
	}
	whole := m.spent.Clone()
	whole.Intersect(m.context)
	return whole
}

// compare orders two elements in the direction of the read.
func (m *Merge) compare(a, b []byte) int { return bytes.Compare(a, b) * m.sign() }

// sign is how an element compares, by its bytes, to the one before it.
func (m *Merge) sign() int {
	if m.opt.Reverse {
		return -1
	}
	return 1
}
