package resp

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"bigset/server/door"
)

const (
	pageMost     = 4000      // elements of a page
	pageBytesMax = 256 << 10 // about the bytes of a page
	// streamFree is the part of a page's memory that is not counted: a small set is read whatever other clients do.
	streamFree = 4 << 10
)

// stream reads a set in its order, in pages. Each page is a read of its own, so that no read waits for another. While the elements of a page
// are used, another goroutine reads the next page, so that several sets are read at the same time.
type stream struct {
	c    *conn
	name []byte
	page
	at    int       // of the next element in the page
	begun bool      // a page has been read
	alone bool      // no memory was left to read ahead
	ahead chan page // receives the next page; nil if it is not being read
	spare page      // memory for another page
}

// page is a part of a set. Its memory is used again for the page after the next one.
type page struct {
	elements [][]byte
	text     []byte // the bytes of the elements
	end      bool   // no elements follow
	err      error
}

// streams are the streams of a command.
type streams struct {
	c    *conn
	list []*stream
}

// of opens a stream of a set.
func (o *streams) of(key []byte) *stream {
	s := &stream{c: o.c, name: nameOf(key)}
	o.list = append(o.list, s)
	return s
}

// close waits for the reads in progress, whose context has ended.
func (o *streams) close() {
	for _, s := range o.list {
		s.stop()
	}
}

// head returns the next element, which is valid until the page after this one has been used. ok is false at the end.
func (s *stream) head(ctx context.Context) (e []byte, ok bool, err error) {
	for s.at == len(s.elements) {
		if s.end {
			return nil, false, nil
		}
		if err := s.next(ctx); err != nil {
			return nil, false, err
		}
	}
	return s.elements[s.at], true, nil
}

// next goes on to the next page, and begins to read the one after it.
func (s *stream) next(ctx context.Context) error {
	var p page
	switch {
	case s.ahead != nil:
		if p, s.ahead = <-s.ahead, nil; errors.Is(p.err, refusal(errNoRoom)) {
			s.alone = true
			p = s.readInPlace(ctx, s.last(), true)
		}
	case s.begun:
		p = s.readInPlace(ctx, s.last(), true)
	default:
		p = s.read(ctx, nil, false, s.spare)
	}
	s.use(p)
	if p.err != nil || p.end || s.alone || len(p.elements) < pageMost { // a page of large elements takes much memory
		return p.err
	}
	ahead, from, spare := make(chan page, 1), bytes.Clone(s.last()), s.spare
	s.ahead, s.spare = ahead, page{}
	go func() { ahead <- s.read(ctx, from, true, spare) }()
	return nil
}

// use makes a page the current one.
func (s *stream) use(p page) {
	s.spare, s.page, s.at, s.begun = s.page, p, 0, true
}

// readInPlace is read into the memory of the current page, which is no longer used.
func (s *stream) readInPlace(ctx context.Context, from []byte, after bool) page {
	from, memory := bytes.Clone(from), s.page
	s.page = page{}
	return s.read(ctx, from, after, memory)
}

// last returns the last element of the page, which must have one.
func (s *stream) last() []byte { return s.elements[len(s.elements)-1] }

// stop ends reading ahead.
func (s *stream) stop() {
	if s.ahead != nil {
		s.spare, s.ahead = <-s.ahead, nil
	}
}

// read reads the page that begins at an element, or after it, into the memory of another page.
func (s *stream) read(ctx context.Context, from []byte, after bool, memory page) page {
	p := page{elements: memory.elements[:0], text: memory.text[:0], end: true}
	for e, err := range s.c.elements(ctx, door.Read{Set: s.name, From: from, Limit: pageMost + 2}) {
		switch {
		case err != nil:
			p.err = err
			return p
		case after && bytes.Equal(e, from):
			continue
		case len(p.elements) == pageMost || len(p.text) > pageBytesMax:
			p.end = false
			return p
		}
		if p.err = p.add(s.c, e); p.err != nil {
			return p
		}
	}
	return p
}

// add adds an element. The command returns the memory at its end.
func (p *page) add(c *conn, e []byte) error {
	n := len(p.text)
	if cap(p.text)-n < len(e) { // earlier elements keep their memory
		size := max(2*cap(p.text), len(e), streamFree)
		if !takePage(c, size) {
			return refusal(errNoRoom)
		}
		p.text, n = make([]byte, 0, size), 0
	}
	if len(p.elements) == cap(p.elements) {
		more := max(len(p.elements), streamFree/argumentBytes)
		if !takePage(c, argumentBytes*more) {
			return refusal(errNoRoom)
		}
		p.elements = slices.Grow(p.elements, more)
	}
	p.text = append(p.text, e...)
	p.elements = append(p.elements, p.text[n:len(p.text):len(p.text)])
	return nil
}

// takePage takes memory for a page.
func takePage(c *conn, bytes int) bool { return bytes <= 2*streamFree || c.Take(bytes) }

// seek moves to the first element that is not before e, and reports whether it is e.
func (s *stream) seek(ctx context.Context, e []byte) (bool, error) {
	for {
		head, ok, err := s.head(ctx)
		if err != nil || !ok {
			return false, err
		}
		switch order := bytes.Compare(head, e); {
		case order == 0:
			return true, nil
		case order > 0:
			return false, nil
		}
		if bytes.Compare(s.last(), e) >= 0 {
			s.at++
			continue
		}
		s.at = len(s.elements)
		if !s.end {
			if err := s.skip(ctx, e); err != nil {
				return false, err
			}
		}
	}
}

// skip goes on to the next page if it has e or a later element, or else to the page that begins at e: elements in between are not read.
func (s *stream) skip(ctx context.Context, e []byte) error {
	if s.ahead != nil {
		var p page
		p, s.ahead = <-s.ahead, nil
		if n := len(p.elements); errors.Is(p.err, refusal(errNoRoom)) {
			s.alone = true
		} else if p.err != nil || p.end || n > 0 && bytes.Compare(p.elements[n-1], e) >= 0 {
			s.use(p)
			return p.err
		}
	}
	s.use(s.readInPlace(ctx, e, false))
	return s.err
}
