package resp

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
)

// Limits of commands on several sets.
const (
	setsMost = 64 // sets in one command
	// If a set is lookUpsLess times smaller than another, its elements are looked up in the larger one instead of being merged with all of
	// it: a look-up takes several times as long as a step of a read.
	lookUpsLess = 16
)

// other is a set against which elements of another one are checked.
type other struct {
	key    []byte
	stream *stream // nil means that elements are looked up
}

// has reports for ordered elements which of them the set contains.
func (o *other) has(ctx context.Context, c *conn, elements [][]byte, yes []bool) error {
	if o.stream == nil {
		present, err := c.s.present(ctx, o.key, elements)
		copy(yes, present)
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

// sizes returns about how many elements sets have. For a single set it returns 0.
func (c *conn) sizes(ctx context.Context, keys [][]byte) ([]uint64, error) {
	list := make([]uint64, len(keys))
	if len(keys) == 1 {
		return list, nil
	}
	for i, key := range keys {
		s, err := c.s.sets.Stats(ctx, nameOf(key), 0)
		if err != nil && !isUnheard(err) {
			return nil, err
		}
		list[i] = s.Live
	}
	return list, nil
}

// inter yields the elements that all sets contain, in order. Keys must be checked.
func (c *conn) inter(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sizes, err := c.sizes(ctx, keys)
		if err != nil {
			yield(nil, err)
			return
		}
		keys, least := slices.Clone(keys), 0
		for i, n := range sizes {
			if n < sizes[least] {
				least = i
			}
		}
		keys[0], keys[least] = keys[least], keys[0] // the smallest set drives
		sizes[0], sizes[least] = sizes[least], sizes[0]
		c.held(ctx, keys, sizes, true, yield)
	}
}

// diff yields the elements that only the first set contains, in order. Keys must be checked.
func (c *conn) diff(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sizes, err := c.sizes(ctx, keys)
		if err != nil {
			yield(nil, err)
			return
		}
		c.held(ctx, keys, sizes, false, yield)
	}
}

// held yields the elements of the first set that all others contain or, with want false, that none contains. In much larger sets they are
// looked up.
func (c *conn) held(ctx context.Context, keys [][]byte, sizes []uint64, want bool, yield func([]byte, error) bool) {
	open := streams{c: c}
	ctx, cancel := context.WithCancel(ctx)
	defer open.close()
	defer cancel()
	others := make([]other, len(keys)-1)
	for i := range others {
		others[i].key = keys[i+1]
		if sizes[i+1]/lookUpsLess <= sizes[0] {
			others[i].stream = open.of(keys[i+1])
		}
	}
	s := open.of(keys[0])
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
		left = append(left[:0], s.elements[s.at:]...)
		s.at = len(s.elements)
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

// union yields the elements that some set contains, in order. Keys must be checked.
func (c *conn) union(ctx context.Context, keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		open := streams{c: c}
		ctx, cancel := context.WithCancel(ctx)
		defer open.close()
		defer cancel()
		streams := make([]*stream, len(keys))
		for i, key := range keys {
			streams[i] = open.of(key)
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
				if bytes.Equal(s.elements[s.at], least) {
					s.at++
				}
			}
		}
	}
}

// operation is an operation on several sets.
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

// combine answers with the elements that an operation yields.
func (c *conn) combine(ctx context.Context, cmd string, op operation, keys [][]byte) {
	c.MayWait()
	if err := c.checkSets(ctx, keys); err != nil {
		c.failed(cmd, keys[0], err)
		return
	}
	c.answerElements(cmd, keys[0], op(c, ctx, keys))
}

// sintercardArgs reads the arguments of SINTERCARD; a limit of 0 means none.
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

// sintercard counts the elements without storing them.
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
