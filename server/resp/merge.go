package resp

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"bigset/server/door"
)

// Limits of commands of several sets.
const (
	setsMost     = 64        // sets in one command
	pageMost     = 4000      // elements of a page
	pageBytesMax = 256 << 10 // and about their bytes
	// lookUpsLess is how much smaller a set is than another where its elements are looked up in that, and not merged with all of it: a look-up takes some
	// times as long as a step of a read.
	lookUpsLess = 16
)

// stream goes through a set in its order, in pages. Each page is a read of its own, so that no read waits for another.
type stream struct {
	c    *conn
	name []byte
	page [][]byte
	text []byte // the bytes of the page
	at   int
	end  bool // the page is the last
}

// head returns the next element. ok is false at the end.
func (s *stream) head(ctx context.Context) (e []byte, ok bool, err error) {
	for s.at == len(s.page) {
		if s.end {
			return nil, false, nil
		}
		var last []byte
		if len(s.page) > 0 {
			last = bytes.Clone(s.page[len(s.page)-1])
		}
		if err := s.read(ctx, last, len(s.page) > 0); err != nil {
			return nil, false, err
		}
	}
	return s.page[s.at], true, nil
}

// read reads the page that begins at an element, or after it.
func (s *stream) read(ctx context.Context, from []byte, after bool) error {
	s.page, s.text, s.at, s.end = s.page[:0], s.text[:0], 0, true
	for e, err := range s.c.elements(ctx, door.Read{Set: s.name, From: from, Limit: pageMost + 2}) {
		switch {
		case err != nil:
			return err
		case after && bytes.Equal(e, from):
			continue
		case len(s.page) == pageMost || len(s.text) > pageBytesMax:
			s.end = false
			return nil
		}
		n := len(s.text)
		if cap(s.text)-n < len(e) { // earlier elements keep theirs
			s.text, n = make([]byte, 0, max(2*cap(s.text), len(e), 4<<10)), 0
		}
		s.text = append(s.text, e...)
		s.page = append(s.page, s.text[n:len(s.text):len(s.text)])
	}
	return nil
}

// seek goes on to the first element that is not before e, and reports whether it is e.
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
		if last := s.page[len(s.page)-1]; bytes.Compare(last, e) >= 0 {
			s.at++
			continue
		}
		s.at = len(s.page)
		if !s.end { // whatever is between is not read
			if err := s.read(ctx, bytes.Clone(e), false); err != nil {
				return false, err
			}
		}
	}
}

// other is a set that elements of another one are held against.
type other struct {
	key    []byte
	stream *stream // nil: they are looked up
}

// has reports for elements in order which of them the set contains.
func (o *other) has(ctx context.Context, c *conn, elements [][]byte, yes []bool) error {
	if o.stream == nil {
		present, err := c.subset(ctx, o.key, elements)
		for i := range present {
			yes[i] = present[i].Present
		}
		return err
	}
	for i, e := range elements {
		var err error
		if yes[i], err = o.stream.seek(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// checkSets returns why commands can't take some keys for sets.
func (c *conn) checkSets(ctx context.Context, keys [][]byte) error {
	if len(keys) > setsMost {
		return refusal(fmt.Sprintf("ERR %d sets, at most %d in one command", len(keys), setsMost))
	}
	for _, key := range keys {
		if err := c.forSet(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// others returns sets to hold the elements of a driver against: by look-up where they are much larger.
func (c *conn) others(ctx context.Context, driver []byte, keys [][]byte) ([]other, error) {
	list := make([]other, len(keys))
	small, err := c.size(ctx, driver)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		n, err := c.size(ctx, key)
		if err != nil {
			return nil, err
		}
		list[i].key = key
		if n/lookUpsLess <= small {
			list[i].stream = &stream{c: c, name: nameOf(key)}
		}
	}
	return list, nil
}

// size returns about how many elements a set has.
func (c *conn) size(ctx context.Context, key []byte) (uint64, error) {
	s, err := c.s.sets.Stats(ctx, nameOf(key), 0)
	if isUnheard(err) {
		return 0, nil
	}
	return s.Live, err
}

// inter yields what all sets contain, in order. Keys are checked.
func (c *conn) inter(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		keys, err := c.smallestFirst(ctx, keys)
		if err != nil {
			yield(nil, err)
			return
		}
		c.held(ctx, keys[0], keys[1:], true, yield)
	}
}

// smallestFirst returns keys in another order.
func (c *conn) smallestFirst(ctx context.Context, keys [][]byte) ([][]byte, error) {
	least, at := uint64(0), 0
	for i, key := range keys {
		n, err := c.size(ctx, key)
		if err != nil {
			return nil, err
		}
		if i == 0 || n < least {
			least, at = n, i
		}
	}
	out := append([][]byte{keys[at]}, keys[:at]...)
	return append(out, keys[at+1:]...), nil
}

// diff yields what the first set contains and no other, in order. Keys are checked.
func (c *conn) diff(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { c.held(ctx, keys[0], keys[1:], false, yield) }
}

// held yields the elements of a driver that all other sets contain, or, with want false, that none does.
func (c *conn) held(ctx context.Context, driver []byte, keys [][]byte, want bool, yield func([]byte, error) bool) {
	others, err := c.others(ctx, driver, keys)
	if err != nil {
		yield(nil, err)
		return
	}
	s := &stream{c: c, name: nameOf(driver)}
	var left [][]byte
	var yes []bool
	for {
		_, ok, err := s.head(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		if !ok {
			return
		}
		left = append(left[:0], s.page[s.at:]...)
		s.at = len(s.page)
		for i := range others {
			if len(yes) < len(left) {
				yes = make([]bool, len(left))
			}
			if err := others[i].has(ctx, c, left, yes); err != nil {
				yield(nil, err)
				return
			}
			n := 0
			for j, e := range left {
				if yes[j] == want {
					left[n] = e
					n++
				}
			}
			left = left[:n]
		}
		for _, e := range left {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// union yields what some set contains, in order. Keys are checked.
func (c *conn) union(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		streams := make([]*stream, len(keys))
		for i, key := range keys {
			streams[i] = &stream{c: c, name: nameOf(key)}
		}
		for {
			var least []byte
			for i := 0; i < len(streams); {
				e, ok, err := streams[i].head(ctx)
				if err != nil {
					yield(nil, err)
					return
				}
				if !ok {
					streams = append(streams[:i], streams[i+1:]...)
					continue
				}
				if i == 0 || bytes.Compare(e, least) < 0 {
					least = e
				}
				i++
			}
			if len(streams) == 0 || !yield(least, nil) {
				return
			}
			for _, s := range streams {
				if bytes.Equal(s.page[s.at], least) {
					s.at++
				}
			}
		}
	}
}

// operation is what a command does with several sets.
type operation func(c *conn, ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error]

func (c *conn) sinter(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sinter", (*conn).inter, args[1:])
}
func (c *conn) sunion(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sunion", (*conn).union, args[1:])
}
func (c *conn) sdiff(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sdiff", (*conn).diff, args[1:])
}

// combine answers what an operation yields.
func (c *conn) combine(ctx context.Context, cmd string, op operation, keys [][]byte) {
	c.Settle()
	if err := c.checkSets(ctx, keys); err != nil {
		c.failed(cmd, keys[0], err)
		return
	}
	c.answerElements(cmd, keys[0], op(c, ctx, keys))
}

// sintercardArgs reads the arguments of SINTERCARD; a limit of 0 is none.
func sintercardArgs(args [][]byte) (keys [][]byte, limit int64, err error) {
	n, ok := number(args[1])
	if !ok || n < 1 {
		return nil, 0, refusal("ERR numkeys should be greater than 0")
	}
	if n > int64(len(args)-2) {
		return nil, 0, refusal("ERR Number of keys can't be greater than number of args")
	}
	keys = args[2 : 2+n]
	for rest := args[2+n:]; len(rest) > 0; rest = rest[2:] {
		if !is(rest[0], "LIMIT") || len(rest) < 2 {
			return nil, 0, refusal(errSyntax)
		}
		if limit, ok = number(rest[1]); !ok || limit < 0 {
			return nil, 0, refusal("ERR LIMIT can't be negative")
		}
	}
	return keys, limit, nil
}

// sintercard counts, without room for what it counts.
func (c *conn) sintercard(ctx context.Context, args [][]byte) {
	c.Settle()
	keys, limit, err := sintercardArgs(args)
	if err == nil {
		err = c.checkSets(ctx, keys)
	}
	if err != nil {
		c.failed("sintercard", nil, err)
		return
	}
	n := int64(0)
	for _, err := range c.inter(ctx, keys) {
		if err != nil {
			c.failed("sintercard", keys[0], err)
			return
		}
		if n++; n == limit {
			break
		}
	}
	c.int(n)
}
