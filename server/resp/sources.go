package resp

import (
	"context"
	"errors"
	"iter"

	"bigset/server/door"
)

// source is a set that a command reads: as it was at one moment, or in parts that are each of a moment of their own.
type source struct {
	c      *conn
	key    []byte
	moment door.Moment // nil if each part is of a moment of its own
	at     int         // the index in the moment
}

// inParts returns the sets of keys as sources for commands that stream: each part is of a moment of its own, and nothing is held up.
func (c *conn) inParts(keys [][]byte) []*source {
	list := make([]*source, len(keys))
	for i, key := range keys {
		list[i] = &source{c: c, key: key}
	}
	return list
}

// momentBytes is about the memory of a set in a moment: its iterator, and the blocks that this holds. The first momentFree sets of a command
// are not counted: a few small sets are read whatever other clients do.
const (
	momentBytes = 32 << 10
	momentFree  = 4
)

// atOnce returns the sets of keys as they are at one moment, if this is a node without a cluster; otherwise it is inParts. The caller must
// call done when it has read them. It is for commands whose answers are collected in memory, and do not wait for a client until then.
func (c *conn) atOnce(ctx context.Context, keys [][]byte) (list []*source, done func(), err error) {
	list = c.inParts(keys)
	b, ok := c.s.sets.(door.Momentary)
	if !ok {
		return list, func() {}, nil
	}
	names := make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = nameOf(key)
	}
	if more := len(keys) - momentFree; more > 0 && !c.Take(more*momentBytes) {
		return nil, nil, refusal(errNoRoom)
	}
	m, err := b.Moment(ctx, names)
	if err != nil {
		c.Give()
		return nil, nil, err
	}
	for i, s := range list {
		s.moment, s.at = m, i
	}
	return list, m.Close, nil
}

// errMomentOver is the error of a command whose sets can't be read at one moment because they are too large.
const errMomentOver = "ERR the sets were read for more than a minute, which is as long as a node shows one moment of them; use SSCAN or BS.RANGE to read in parts, SINTERCARD to count"

// elements streams elements from one on, at most limit; 0 means all. An element is valid until the next one.
func (s *source) elements(ctx context.Context, from []byte, limit int) iter.Seq2[[]byte, error] {
	if s.moment == nil {
		return s.c.elements(ctx, door.Read{Set: nameOf(s.key), From: from, Limit: limit})
	}
	return s.ofMoment(ctx, from, limit)
}

// momentPart is how many elements of a moment are a part of a read.
const momentPart = 1000

func (s *source) ofMoment(ctx context.Context, from []byte, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		defer s.c.EndParts()
		n := 0
		for e, err := range s.moment.Elements(ctx, s.at, from, nil, limit) {
			if !yield(e, s.inTime(ctx, err)) {
				return
			}
			if n++; n%momentPart == 0 {
				s.c.nextPart()
			}
		}
	}
}

// present reports for ordered elements which of them the set contains.
func (s *source) present(ctx context.Context, elements [][]byte, yes []bool) error {
	defer s.c.EndParts()
	if s.moment == nil {
		present, err := s.c.s.present(ctx, s.key, elements, s.c.nextPart)
		copy(yes, present)
		return err
	}
	for first := true; len(elements) > 0; first = false {
		if !first {
			s.c.nextPart()
		}
		n := min(len(elements), momentPart)
		if err := s.moment.Contains(ctx, s.at, elements[:n], yes[:n]); err != nil {
			return s.inTime(ctx, err)
		}
		elements, yes = elements[n:], yes[n:]
	}
	return nil
}

// inTime returns the error of reading a moment for the client.
func (s *source) inTime(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return refusal(errMomentOver)
	}
	return err
}
