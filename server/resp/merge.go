package resp

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"bigset/server/door"
)

// Limits of commands on several sets.
const (
	setsMost     = 64        // sets in one command
	pageMost     = 4000      // elements of a page
	pageBytesMax = 256 << 10 // about the bytes of a page
	// If a set is lookUpsLess times smaller than another, its elements are looked up in the larger one instead of being merged with all of
	// it: a look-up takes several times as long as a step of a read.
	lookUpsLess = 16
)

// stream reads a source in its order, in pages. Each page is a read of its own, so that no read waits for another.
type stream struct {
	*source
	page [][]byte
	text []byte // the bytes of the page
	next int    // in page
	last bool   // the page is the last
}

// head returns the next element. ok is false at the end.
func (s *stream) head(ctx context.Context) (e []byte, ok bool, err error) {
	for s.next == len(s.page) {
		if s.last {
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
	return s.page[s.next], true, nil
}

// read reads the page that begins at an element, or after it.
func (s *stream) read(ctx context.Context, from []byte, after bool) error {
	s.page, s.text, s.next, s.last = s.page[:0], s.text[:0], 0, true
	for e, err := range s.elements(ctx, from, pageMost+2) {
		switch {
		case err != nil:
			return err
		case after && bytes.Equal(e, from):
			continue
		case len(s.page) == pageMost || len(s.text) > pageBytesMax:
			s.last = false
			return nil
		}
		n := len(s.text)
		if cap(s.text)-n < len(e) { // earlier elements keep their memory
			size := max(2*cap(s.text), len(e), streamFree)
			if !s.take(size) {
				return refusal(errNoRoom)
			}
			s.text, n = make([]byte, 0, size), 0
		}
		if len(s.page) == cap(s.page) {
			more := max(len(s.page), streamFree/argumentBytes)
			if !s.take(argumentBytes * more) {
				return refusal(errNoRoom)
			}
			s.page = slices.Grow(s.page, more)
		}
		s.text = append(s.text, e...)
		s.page = append(s.page, s.text[n:len(s.text):len(s.text)])
	}
	return nil
}

// streamFree is the part of a stream's memory that is not counted: a small set is read whatever other clients do.
const streamFree = 4 << 10

// take takes memory for a page. The command returns it at the end.
func (s *stream) take(bytes int) bool { return bytes <= 2*streamFree || s.c.Take(bytes) }

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
		if last := s.page[len(s.page)-1]; bytes.Compare(last, e) >= 0 {
			s.next++
			continue
		}
		if err := s.leap(ctx, e); err != nil {
			return false, err
		}
	}
}

// leap moves from a page whose last element is before e to the first element that is not: elements in between are not read.
func (s *stream) leap(ctx context.Context, e []byte) error {
	s.next = len(s.page)
	if s.last {
		return nil
	}
	return s.read(ctx, bytes.Clone(e), false)
}

// other is a set against which elements of another one are checked.
type other struct {
	*source
	stream *stream // nil means that elements are looked up
}

// has reports for ordered elements which of them the set contains.
func (o *other) has(ctx context.Context, elements [][]byte, yes []bool) error {
	if o.stream == nil {
		return o.present(ctx, elements, yes)
	}
	for i, e := range elements {
		var err error
		if yes[i], err = o.stream.seek(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// checkSets returns why some keys can't be used as sets by a command.
func (c *conn) checkSets(ctx context.Context, keys [][]byte) error {
	if len(keys) > setsMost {
		return refusal(fmt.Sprintf("ERR %d sets, at most %d in one command", len(keys), setsMost))
	}
	for _, key := range keys {
		if err := c.s.forSet(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// live returns how many live dots a set has.
func (s *Server) live(ctx context.Context, key []byte) (uint64, error) {
	if b, ok := s.sets.(door.Sizer); ok {
		return b.Live(ctx, nameOf(key))
	}
	st, err := s.sets.Stats(ctx, nameOf(key), 0)
	return st.Live, err
}

// sizes returns about how many elements sets have. For a single set it returns 0.
func (c *conn) sizes(ctx context.Context, sets []*source) ([]uint64, error) {
	list := make([]uint64, len(sets))
	if len(sets) == 1 {
		return list, nil
	}
	for i, set := range sets {
		var err error
		if list[i], err = c.s.live(ctx, set.key); err != nil && !isUnheard(err) {
			return nil, err
		}
	}
	return list, nil
}

// inter yields the elements that all sets contain, in order. Their keys must be checked.
func (c *conn) inter(ctx context.Context, sets []*source) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sizes, err := c.sizes(ctx, sets)
		if err != nil {
			yield(nil, err)
			return
		}
		sets, least := slices.Clone(sets), 0
		for i, n := range sizes {
			if n < sizes[least] {
				least = i
			}
		}
		sets[0], sets[least] = sets[least], sets[0] // the smallest set drives
		sizes[0], sizes[least] = sizes[least], sizes[0]
		c.held(ctx, sets, sizes, true, yield)
	}
}

// diff yields the elements that only the first set contains, in order. Their keys must be checked.
func (c *conn) diff(ctx context.Context, sets []*source) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sizes, err := c.sizes(ctx, sets)
		if err != nil {
			yield(nil, err)
			return
		}
		c.held(ctx, sets, sizes, false, yield)
	}
}

// held yields the elements of the first set that all others contain or, with want false, that none contains. In much larger sets they are
// looked up.
func (c *conn) held(ctx context.Context, sets []*source, sizes []uint64, want bool, yield func([]byte, error) bool) {
	others := make([]other, len(sets)-1)
	for i := range others {
		others[i].source = sets[i+1]
		if sizes[i+1]/lookUpsLess <= sizes[0] {
			others[i].stream = &stream{source: sets[i+1]}
		}
	}
	s := &stream{source: sets[0]}
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
		left = append(left[:0], s.page[s.next:]...)
		s.next = len(s.page)
		for i := range others {
			if len(yes) < len(left) {
				yes = make([]bool, len(left))
			}
			if err := others[i].has(ctx, left, yes); err != nil {
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
		if !want {
			continue
		}
		if more, err := s.leapTo(ctx, others); !more {
			if err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

// leapTo moves from a page that is used up to the first element that each of the others may still contain. It reports false if none can.
func (s *stream) leapTo(ctx context.Context, others []other) (more bool, err error) {
	var to []byte
	for i := range others {
		if others[i].stream == nil {
			continue
		}
		head, ok, err := others[i].stream.head(ctx)
		if err != nil || !ok {
			return false, err
		}
		if bytes.Compare(head, to) > 0 {
			to = head
		}
	}
	if len(s.page) == 0 || bytes.Compare(to, s.page[len(s.page)-1]) <= 0 {
		return true, nil
	}
	return true, s.leap(ctx, to)
}

// union yields the elements that some set contains, in order. Their keys must be checked.
func (c *conn) union(ctx context.Context, sets []*source) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		streams := make([]*stream, len(sets))
		for i, set := range sets {
			streams[i] = &stream{source: set}
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
				if bytes.Equal(s.page[s.next], least) {
					s.next++
				}
			}
		}
	}
}

// operation is an operation on several sets.
type operation func(c *conn, ctx context.Context, sets []*source) iter.Seq2[[]byte, error]

func (c *conn) sinter(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sinter", (*conn).inter, args[1:])
}
func (c *conn) sunion(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sunion", (*conn).union, args[1:])
}
func (c *conn) sdiff(ctx context.Context, args [][]byte) {
	c.combine(ctx, "sdiff", (*conn).diff, args[1:])
}

// combine answers with the elements that an operation yields, of one moment on a node without a cluster, or with an error before the first byte.
// Requests of several connections share a read.
func (c *conn) combine(ctx context.Context, cmd string, op operation, keys [][]byte) {
	c.MayWait()
	a := c.s.reads.share(nameShared(cmd, keys), func(a *shared) {
		c.leaves.may = false // others need the answer, too
		a.loan = c.s.Loan()
		a.gathered = c.s.gather(cmd, a.loan)
		a.n, a.err = c.read(ctx, a.gathered, op, keys)
	})
	defer a.release()
	if a.err != nil {
		c.failed(cmd, keys[0], a.err)
		return
	}
	c.Sends(a.loan)
	defer c.Give()
	c.header(typeSet, a.n)
	a.send(c)
}

// read reads the elements that an operation yields, and returns how many they are. It waits for no client.
func (c *conn) read(ctx context.Context, g *gathered, op operation, keys [][]byte) (n int, err error) {
	if err := c.checkSets(ctx, keys); err != nil {
		return 0, err
	}
	sets, done, err := c.atOnce(ctx, keys)
	if err != nil {
		return 0, err
	}
	defer c.Give() // what the operation took
	defer done()
	for e, err := range op(c, ctx, sets) {
		if err == nil {
			err = g.bulk(e)
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// sintercardKeys returns the keys of SINTERCARD.
func sintercardKeys(args [][]byte) ([][]byte, error) {
	n, ok := number(args[1])
	if !ok || n < 1 {
		return nil, refusal("ERR numkeys should be greater than 0")
	}
	if n > int64(len(args)-2) {
		return nil, refusal("ERR Number of keys can't be greater than number of args")
	}
	return args[2 : 2+n], nil
}

// sintercardArgs reads the arguments of SINTERCARD; a limit of 0 means none.
func sintercardArgs(args [][]byte) (keys [][]byte, limit int64, err error) {
	if keys, err = sintercardKeys(args); err != nil {
		return nil, 0, err
	}
	for rest := args[2+len(keys):]; len(rest) > 0; rest = rest[2:] {
		if !is(rest[0], "LIMIT") || len(rest) < 2 {
			return nil, 0, refusal(errSyntax)
		}
		n, ok := number(rest[1])
		if !ok || n < 0 {
			return nil, 0, refusal("ERR LIMIT can't be negative")
		}
		limit = n
	}
	return keys, limit, nil
}

// sintercard counts the elements without storing them. It reads the sets in parts.
func (c *conn) sintercard(ctx context.Context, args [][]byte) {
	c.MayWait()
	keys, limit, err := sintercardArgs(args)
	if err == nil {
		err = c.checkSets(ctx, keys)
	}
	if err != nil {
		c.failed("sintercard", nil, err)
		return
	}
	defer c.Give()
	n := int64(0)
	for _, err := range c.inter(ctx, c.inParts(keys)) {
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
