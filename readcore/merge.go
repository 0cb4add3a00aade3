package readcore

import (
	"bytes"
	"errors"
	"fmt"

	"bigset/clock"
	"bigset/fold"
)

// Errors of Admit and NotFound. A refused call changes nothing: the stream may be failed and replaced.
var (
	// ErrChunk is returned for a chunk that no read can have made: out of order, without a clock, or without a bound.
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
	// Limit ends the read after that many elements; 0 is no limit. A stream that is itself limited must not end at its limit,
	// because some of its elements may not survive. It is read on after its last bound when it is wanted.
	Limit int
	// Passing says that the caller no longer uses the memory of a result when it asks for the scrap of the first stream
	// (Merge.Scrap). Then chunks whose elements were passed on unchanged become scrap, too.
	Passing bool
}

// Result is what a merge has become certain of. It shares memory with the chunks and must not be changed.
type Result struct {
	// Context, if it is not nil, is the wide context of the elements of this result and those after it, and replaces the context
	// before. It comes first of all, and once after each replacement. It does not apply to elements that the read leaves out
	// because it covers only a part of the set. See Merge.Whole for the whole set.
	Context *clock.Clock
	// Elements are the present elements that have become certain, in the order of the read, each with the dots that survived: its
	// narrow context.
	Elements []fold.Element
	// Bound is the element up to and including which everything is merged. It is nil before any element is, and when the whole read
	// is.
	Bound []byte
	// Done says that no result follows.
	Done bool
	// NotFound says, together with Done, that no replica knew the set.
	NotFound bool
	// Lacking says, by stream, what is missing at its replica. It omits streams at which nothing is missing, and what is missing at
	// a stream that does not know the set. Stream numbers refer to the current replicas: look up the replica of a stream before it
	// is replaced.
	Lacking []Lack
}

// Merge merges R streams of chunks. Make one with New; then call Admit, NotFound, Fail and Replace, in any order as chunks come and
// streams fail, each followed by Step.
type Merge struct {
	opt     Options
	streams []stream
	bound   []byte // merged up to here; nil when nothing is
	left    int    // elements that may still come, with Options.Limit
	found   bool   // a stream has delivered a chunk
	done    bool

	stale   bool         // a new context is due: none was given yet, or a stream has failed since
	context *clock.Clock // the current one
	spent   *clock.Clock // the intersection of all contexts before it; nil when there are none
	used    bool         // something was merged under the current one

	// Scratch of one walk.
	runs  [][]fold.Element // for each stream, what is certain and not walked yet
	heads []*fold.Element  // for each stream, the current element, nil when the stream does not have it
	at    []int            // for each head, its first dot that is not decided yet
	live  []clock.Dot      // the dots of the current element that survive
	lacks []Lack
	arena []clock.Dot // for dots of the result that belong to no chunk
}

// stream is one replica's part of the read.
type stream struct {
	chunk    *fold.Chunk  // what is not merged of it; nil when all is
	next     int          // its first element that is not merged
	shared   bool         // a result shares memory with it
	scrap    *fold.Chunk  // the chunk before, fully merged, if no result shares memory with it
	clock    *clock.Clock // of the last chunk
	first    *clock.Clock // of the first one; nil before it
	bound    []byte       // of the last chunk, or where the stream began; nil is the beginning
	over     bool         // no chunk follows: the stream is complete
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

// Wants appends to dst the streams that should deliver their next chunk, and returns it. Only these may deliver: the chunks of all
// others are held until they are merged, so that memory is bounded by one chunk per stream. When the read is done the list is
// empty, and streams that still deliver should be stopped.
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

// Admit takes the next chunk of a stream, and keeps it. A chunk that is not Done and has neither bound nor elements delivers only
// its clock: once the first clocks of all streams are known, so is the context, before there are elements. Its errors are
// ErrUnwanted and ErrChunk.
func (m *Merge) Admit(i int, c *fold.Chunk) error {
	if !m.wants(i) {
		return fmt.Errorf("%w: of stream %d", ErrUnwanted, i)
	}
	s := &m.streams[i]
	if reason := m.flaw(s.bound, c, m.checked(c)); reason != "" {
		return fmt.Errorf("%w: of stream %d: %s", ErrChunk, i, reason)
	}
	if s.resumed && !c.Clock.Descends(s.first) {
		return fmt.Errorf("%w: of stream %d: its clock does not contain what it had seen before", ErrChunk, i)
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

// Scrap returns the last chunk of a stream, once, if it is merged and no result shares memory with it; otherwise nil. While streams
// agree, this holds for all chunks except those of the first stream, and with Options.Passing for those, too.
func (m *Merge) Scrap(i int) *fold.Chunk {
	c := m.streams[i].scrap
	m.streams[i].scrap = nil
	return c
}

// checked reports whether the elements of a chunk are the memory of another stream's chunk, which has been checked and is held.
func (m *Merge) checked(c *fold.Chunk) bool {
	if c == nil || len(c.Elements) == 0 {
		return false
	}
	for i := range m.streams {
		if o := m.streams[i].chunk; o != nil && len(o.Elements) == len(c.Elements) && &o.Elements[0] == &c.Elements[0] {
			return true
		}
	}
	return false
}

// flaw returns what is wrong with a chunk that should continue after an element, or the empty string. If its elements were checked with another
// stream, only their place is.
func (m *Merge) flaw(after []byte, c *fold.Chunk, checked bool) string {
	switch {
	case c == nil || c.Clock == nil:
		return "no clock"
	case c.Count > len(c.Elements):
		return "elements are counted, not kept"
	case c.Bound == nil && !c.Done && len(c.Elements) > 0:
		return "elements without a bound"
	case c.Bound != nil && after != nil && m.compare(c.Bound, after) <= 0:
		return "the bound is not after the last one"
	}
	elements := c.Elements
	if checked {
		elements = elements[:1]
	}
	last, any, sign := after, after != nil, m.sign()
	for k := range elements {
		e := &elements[k]
		if any && bytes.Compare(e.Name, last) != sign {
			return "elements out of order"
		}
		if !ascending(e.Dots) {
			return "an element without dots, or with dots out of order"
		}
		last, any = e.Name, true
	}
	if n := len(c.Elements); c.Bound != nil && n > 0 && m.compare(c.Elements[n-1].Name, c.Bound) > 0 {
		return "an element after the bound"
	}
	return ""
}

// ascending reports whether there is at least one dot, and all are valid and in strictly ascending order.
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

// NotFound says that the replica of a stream does not know the set. The stream must be wanted and must have delivered nothing. It
// then counts as one that has seen nothing and has ended. If such an answer must not count, Fail the stream instead. Its error is
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

// Replace puts a replica in the place of a stream that has failed, and returns the element after which it must begin; nil means the
// beginning of the read. It may be the same replica that failed.
func (m *Merge) Replace(i int) (after []byte) {
	if !m.streams[i].failed {
		panic(fmt.Sprintf("readcore: stream %d has not failed", i))
	}
	m.streams[i] = stream{bound: m.bound}
	return m.bound
}

// Resume restarts a stream at its own replica, and returns the element after which it must go on. It forgets what was held of the
// stream, but not its first clock. The contexts that were given stay valid, and therefore Admit refuses a next chunk that has not
// seen as much as the first clock. Resume reports false, and changes nothing, for a stream of which nothing is merged, one that is
// complete, and one that has failed.
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

// Step merges what has become certain. It reports false if nothing has: a stream is wanted, or must be replaced, or the read is
// done.
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

// held reports whether every stream has something that is not merged, or has ended.
func (m *Merge) held() bool {
	for i := range m.streams {
		if s := &m.streams[i]; s.chunk == nil && !s.over {
			return false
		}
	}
	return true
}

// renewContext makes the context of the elements after the merged bound.
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

// Whole returns the context for an operation on the whole set, once all of it was read: the intersection of all contexts that were
// given. It is shared and must not be changed. Before the first Result it is nil.
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

// sign is the sign with which each element compares, by its bytes, to the one before it.
func (m *Merge) sign() int {
	if m.opt.Reverse {
		return -1
	}
	return 1
}
