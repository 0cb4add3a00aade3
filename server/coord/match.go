package coord

import (
	"bytes"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

// match turns a replica's digests of its elements into the chunks that it would have sent. Its inputs are the chunks of the first stream of
// a read, and the counts of another replica (peer.Replica.CountParts), both after the same element. If the digest of a part equals that of
// the first stream's elements in the part, the other replica has shown those elements, by those dots: a chunk that contains them stands for
// its own.
//
//	first stream   a{1} b{2} c{3} │ d{4} e{5} f{6} │      two chunks, up to c and up to f
//	digests        (   ..b] (     ..d] (       ..g]       of 2, 2 and 4 elements
//	stands for     a{1} b{2} c{3} │                       the second part is alike: all up to d is, so all up to c
//	                                                      the third part has one more element: nothing is known after d
//
// A chunk that stands for another has the clock of the first answer. It is older than everything that was counted, as the clock of a chunk
// may be.
type match struct {
	clock  *clock.Clock           // of the first answer
	parts  []bigset.ElementDigest // not compared yet
	last   bool                   // no element follows the parts
	bound  []byte                 // the end of the last part that was alike; nil before the first
	chunks []*fold.Chunk          // of the first stream, that do not stand for a chunk yet
	at     int                    // the chunk whose elements are being summed
	next   int                    // its first element that is not summed yet
	part   bigset.ElementDigest   // of the elements since bound
	hash   bigset.ElementHash
	alike  uint64 // number of elements in parts that were alike
}

// matched is the result of match.take.
type matched int

const (
	matchNoDigest matched = iota // it needs another answer
	matchNoChunk                 // it needs another chunk of the first stream
	matchUnlike                  // the replica has shown other elements, or may have
	matchAlike                   // a chunk of the first stream stands for what the replica has shown
)

// show adds the next chunk of the first stream.
func (m *match) show(c *fold.Chunk) { m.chunks = append(m.chunks, c) }

// answer adds the replica's next answer.
func (m *match) answer(p *bigset.PartCounts) {
	if m.clock == nil {
		m.clock = p.Clock
	}
	m.parts, m.last = append(m.parts, p.Parts...), p.Done
}

// take returns the chunk that stands for the replica's next chunk, if that is certain.
func (m *match) take() (*fold.Chunk, matched) {
	for !m.covered() {
		if len(m.parts) == 0 && !m.last {
			return nil, matchNoDigest
		}
		if ended := m.sum(); !ended {
			return nil, matchNoChunk
		}
		if len(m.parts) == 0 {
			if m.part.Elements > 0 { // the replica has nothing here
				return nil, matchUnlike
			}
			continue
		}
		if !m.part.Same(&m.parts[0]) {
			return nil, matchUnlike
		}
		m.alike += m.part.Elements
		m.bound, m.parts, m.part = m.parts[0].Bound, m.parts[1:], bigset.ElementDigest{}
	}
	c := m.chunks[0]
	m.chunks = slices.Delete(m.chunks, 0, 1)
	if m.at > 0 {
		m.at--
	} else {
		m.next = 0
	}
	return &fold.Chunk{Clock: m.clock, Elements: c.Elements, Count: len(c.Elements), Bound: c.Bound, Done: c.Done}, matchAlike
}

// covered reports whether the whole first chunk lies in parts that were alike, or after them if neither side has elements there.
func (m *match) covered() bool {
	if len(m.chunks) == 0 {
		return false
	}
	c := m.chunks[0]
	if !c.Done && m.bound != nil && bytes.Compare(c.Bound, m.bound) <= 0 {
		return true
	}
	summed := m.at > 0 || m.next == len(c.Elements)
	return m.last && len(m.parts) == 0 && summed
}

// sum adds the elements of the first stream to the current part, up to the end of the part, or of the read if there are no more parts. It
// reports false if that end lies after the chunks.
func (m *match) sum() (ended bool) {
	for ; m.at < len(m.chunks); m.at, m.next = m.at+1, 0 {
		c := m.chunks[m.at]
		rest := c.Elements[m.next:]
		n := len(rest)
		if len(m.parts) > 0 {
			n, _ = slices.BinarySearchFunc(rest, m.parts[0].Bound, func(e fold.Element, bound []byte) int {
				if bytes.Compare(e.Name, bound) <= 0 {
					return -1
				}
				return 1
			})
		}
		for i := range rest[:n] {
			sum, _ := m.hash.Sum(rest[i].Name, rest[i].Dots)
			m.part.Add(&sum)
		}
		m.next += n
		switch {
		case n < len(rest), c.Done, len(m.parts) == 0:
			return true
		case bytes.Compare(c.Bound, m.parts[0].Bound) >= 0:
			return true
		}
	}
	return false
}
