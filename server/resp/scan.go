package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"bigset"
	"bigset/server/door"
	"bigset/server/tokens"
)

// Limits of one step of SSCAN or SCAN.
const (
	scanDefault  = 10
	scanMost     = 100_000 // elements that are read
	scanOthers   = 1000    // names that are no keys, or COUNT if that is more
	scanBytesMax = 1 << 20 // about the bytes of these
)

// scanOptions are the options of SSCAN and SCAN.
type scanOptions struct {
	count int
	match []byte // nil means all
	glob  *glob  // match
	kind  string // for SCAN
	kinds bool   // all kinds
}

// errCursorGone is the error for an unknown cursor. Redis accepts any number.
const errCursorGone = "ERR cursor is not known here: it was not used for long, the node has started again, or another node gave it; begin again with 0"

// scanCursor reads a cursor as redis does: it ends before a zero byte, an empty one is 0, and it may have a sign.
func scanCursor(arg []byte) (uint64, error) {
	arg, _, _ = bytes.Cut(arg, []byte{0})
	if len(arg) == 0 {
		return 0, nil
	}
	sign := arg[0]
	if sign == '+' || sign == '-' {
		arg = arg[1:]
	}
	n, err := strconv.ParseUint(string(arg), 10, 64)
	if err != nil {
		return 0, refusal(errCursor)
	}
	if sign == '-' {
		n = -n
	}
	return n, nil
}

// scanOptionsOf reads the arguments after the cursor.
func scanOptionsOf(args [][]byte, kinds bool) (o scanOptions, err error) {
	o.count, o.kinds = scanDefault, true
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, refusal(errSyntax)
		}
		value := args[i+1]
		switch {
		case is(args[i], "COUNT"):
			n, ok := number(value)
			if !ok {
				return o, refusal(errInteger)
			}
			if n < 1 {
				return o, refusal(errSyntax)
			}
			o.count = int(min(n, scanMost))
		case is(args[i], "MATCH"):
			if o.glob, err = newGlob(value); err != nil {
				return o, err
			}
			o.match = value
		case kinds && is(args[i], "TYPE"):
			o.kind, o.kinds = string(bytes.ToLower(value)), false
		default:
			return o, refusal(errSyntax)
		}
	}
	if len(o.match) == 1 && o.match[0] == '*' {
		o.match = nil
	}
	return o, nil
}

// begin returns where a scan of a key continues; key is nil for SCAN.
func (c *conn) begin(number uint64, key []byte) (position, error) {
	if number == 0 {
		return position{key: key}, nil
	}
	p, ok := c.s.cursors.use(number)
	if !ok || (key == nil) != (p.key == nil) || !bytes.Equal(key, p.key) {
		return p, refusal(errCursorGone)
	}
	return p, nil
}

// sscan scans a set in its order: every element that is present during the whole scan comes exactly once, and none comes twice.
func (c *conn) sscan(ctx context.Context, args [][]byte) {
	c.MayWait()
	number, err := scanCursor(args[2])
	if err == nil {
		err = c.s.forSet(ctx, args[1])
	}
	if err != nil {
		c.failed("sscan", args[1], err)
		return
	}
	if number == 0 {
		if is, err := c.isSet(ctx, args[1]); err != nil || !is {
			c.answerEmpty("sscan", args[1], err)
			return
		}
	}
	o, err := scanOptionsOf(args[3:], false)
	if err != nil {
		c.failed("sscan", args[1], err)
		return
	}
	p, err := c.begin(number, append([]byte{}, args[1]...))
	if err != nil {
		c.failed("sscan", args[1], err)
		return
	}
	g := c.gather("sscan")
	defer g.release()
	next, n, err := c.scanElements(ctx, g, p, o)
	if err != nil {
		c.failed("sscan", args[1], err)
		return
	}
	c.answerScan(g, next, n, number)
}

// answerEmpty answers a scan of a key that does not exist.
func (c *conn) answerEmpty(cmd string, key []byte, err error) {
	if err != nil {
		c.failed(cmd, key, err)
		return
	}
	c.Out = append(c.Out, "*2\r\n$1\r\n0\r\n*0\r\n"...)
}

func (c *conn) answerScan(g *gathered, next *position, n int, before uint64) {
	number := uint64(0)
	if next != nil {
		number = c.s.cursors.keep(*next, before, &c.scans)
	}
	c.header(typeArray, 2)
	c.text(strconv.FormatUint(number, 10))
	c.header(typeArray, n)
	g.send(c)
}

// scanElements collects elements from a position on. next is nil at the end.
func (c *conn) scanElements(ctx context.Context, g *gathered, p position, o scanOptions) (next *position, n int, err error) {
	r := door.Read{Set: nameOf(p.key), From: p.after, Prefix: prefixOf(o.match), Limit: o.count + 2, Batch: min(o.count+2, door.BatchMax), Bare: true}
	looked, size, last := 0, 0, []byte{}
	compared := 0 // bytes, since the last part began
	defer c.EndParts()
	for part, err := range c.s.sets.Read(ctx, r) {
		if errors.Is(err, bigset.ErrNotFound) {
			return nil, n, nil
		}
		if err != nil {
			return nil, 0, err
		}
		for i := range part.Elements {
			e := part.Elements[i].Name
			if p.after != nil && bytes.Equal(e, p.after) { // the last step ended with it
				continue
			}
			if looked == o.count || size > scanBytesMax { // more elements follow
				return &position{key: p.key, after: last}, n, nil
			}
			looked++
			size += len(e)
			last = append(last[:0], e...)
			if compared += len(e); compared > namesPartBytes {
				c.nextPart()
				compared = len(e)
			}
			if o.match != nil && !o.glob.matches(e) {
				continue
			}
			n++
			if err := g.bulk(e); err != nil {
				return nil, 0, err
			}
		}
		if !part.Done {
			c.nextPart()
		}
	}
	return nil, n, nil
}

// The stages of a scan of keys: one key space of two kinds.
const (
	stageSets = iota
	stageFilters
)

// scan scans the keys: sets in their order, then filters in theirs.
func (c *conn) scan(ctx context.Context, args [][]byte) {
	c.MayWait()
	number, err := scanCursor(args[1])
	var o scanOptions
	if err == nil {
		o, err = scanOptionsOf(args[2:], true)
	}
	var p position
	if err == nil {
		p, err = c.begin(number, nil)
	}
	if err != nil {
		c.failed("scan", nil, err)
		return
	}
	g := c.gather("scan")
	defer g.release()
	n, looked, others, size := 0, 0, 0, 0
	end := time.Now().Add(c.s.opt.ListTime / 2) // a client gives up at some time, and in a cluster each name costs a call
	next, err := c.eachKey(ctx, p, func(key []byte, kind string) (bool, error) {
		if looked == o.count || others == max(o.count, scanOthers) || size > scanBytesMax || looked+others > 0 && time.Now().After(end) {
			return false, nil
		}
		if kind == kindNone {
			others++
			return true, nil
		}
		looked++
		size += len(key)
		if !c.sees(key) {
			return true, nil
		}
		if o.match != nil && !o.glob.matches(key) || !o.kinds && o.kind != lowerKind(kind) {
			return true, nil
		}
		n++
		return true, g.bulk(key)
	})
	if err != nil {
		c.failed("scan", nil, err)
		return
	}
	c.answerScan(g, next, n, number)
}

func lowerKind(kind string) string {
	if kind == kindFilter {
		return "mbbloom--"
	}
	return kind
}

// eachKey calls f for the keys from a position on, until f returns false or an error. For each name that is no key on its own, such as one of
// another bucket or of an empty set, it calls f with kindNone. next is the position of the key for which f returned false, or nil at the end. If the client's token
// is removed before it ends, eachKey returns an error: f has left out keys since, and the answer must not look complete.
func (c *conn) eachKey(ctx context.Context, p position, f func(key []byte, kind string) (bool, error)) (next *position, err error) {
	defer c.EndParts()
	if next, err = c.walkKeys(ctx, p, c.inTurns(ctx, f)); err == nil {
		err = c.grant.Valid()
	}
	return next, err
}

// namesPart and namesPartBytes are how many names, or bytes of them, are a part of a list: each byte is compared with a pattern.
const (
	namesPart      = 256
	namesPartBytes = 64 << 10
)

// inTurns returns a function that calls f, and begins a part of long work after each namesPart names or namesPartBytes. It returns the error of
// ctx if that has ended. The caller must call EndParts.
func (c *conn) inTurns(ctx context.Context, f func(key []byte, kind string) (bool, error)) func(key []byte, kind string) (bool, error) {
	n, size := 0, 0
	return func(key []byte, kind string) (bool, error) {
		n++
		if size += len(key); n == namesPart || size > namesPartBytes {
			n, size = 0, 0
			c.nextPart()
			err := ctx.Err()
			if err == nil {
				err = c.gone()
			}
			if err != nil {
				return false, err
			}
		}
		return f(key, kind)
	}
}

// listed returns the error of a command that lists all keys within the time of ctx.
func listed(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return refusal(errListTime)
	}
	return err
}

// errListTime is the error of a command that can't list all keys in time.
const errListTime = "ERR the keys can't be listed in the time of a command; use SCAN to list them in parts"

// walkKeys is eachKey for a client whose token is not removed.
func (c *conn) walkKeys(ctx context.Context, p position, f func(key []byte, kind string) (bool, error)) (next *position, err error) {
	if p.stage == stageSets {
		after := p.after
		for name, err := range c.s.sets.Names(ctx, true, p.after) { // with empty ones, which take as long
			if err != nil {
				return nil, err
			}
			more, err := c.setName(ctx, &name, f)
			if err != nil {
				return nil, err
			}
			if !more {
				return &position{stage: stageSets, after: after}, nil
			}
			after = append([]byte{}, name.Name...)
		}
		p = position{stage: stageFilters}
	}
	return c.eachFilter(ctx, string(p.after), f)
}

// setName calls f for a set, with kindNone if it is empty, if its name belongs to no key, or if a filter has the key too.
func (c *conn) setName(ctx context.Context, set *bigset.SetInfo, f func(key []byte, kind string) (bool, error)) (more bool, err error) {
	key, ok := keyOf(set.Name)
	if !ok || set.Live == 0 {
		return f(nil, kindNone)
	}
	filter, err := c.filterOf(ctx, key)
	switch {
	case err != nil:
		return false, err
	case filter != nil:
		return f(nil, kindNone)
	}
	return f(key, kindSet)
}

// filtersListed is how many filters are requested at a time.
const filtersListed = 256

func (c *conn) eachFilter(ctx context.Context, after string, f func(key []byte, kind string) (bool, error)) (next *position, err error) {
	for {
		list, err := c.s.filters.List(ctx, door.FilterListing{After: after, Most: filtersListed})
		if err != nil {
			return nil, err
		}
		for i := range list {
			more, err := f([]byte(list[i].Name), kindFilter)
			if err != nil {
				return nil, err
			}
			if !more {
				return &position{stage: stageFilters, after: []byte(after)}, nil
			}
			after = list[i].Name
		}
		if len(list) < filtersListed {
			return nil, nil
		}
	}
}

// keys answers with all keys that match.
func (c *conn) keys(ctx context.Context, args [][]byte) {
	c.MayWait()
	pattern, err := newGlob(args[1])
	if err != nil {
		c.failed("keys", nil, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.s.opt.ListTime)
	defer cancel()
	g := c.gather("keys")
	defer g.release()
	n := 0
	_, err = c.eachKey(ctx, position{}, func(key []byte, kind string) (bool, error) {
		if kind == kindNone || !c.sees(key) || !pattern.matches(key) {
			return true, nil
		}
		n++
		return true, g.bulk(key)
	})
	if err != nil {
		c.failed("keys", nil, listed(ctx, err))
		return
	}
	c.header(typeArray, n)
	g.send(c)
}

// countKeys counts the keys that the client may read. If these are all keys, the sets are not listed; then a name that is a set and a
// filter counts twice.
func (c *conn) countKeys(ctx context.Context) (n int64, err error) {
	c.MayWait()
	ctx, cancel := context.WithTimeout(ctx, c.s.opt.ListTime)
	defer cancel()
	if c.grant.May(tokens.Read, nil) {
		sets, err := c.s.sets.CountSets(ctx)
		if err != nil {
			return 0, listed(ctx, err)
		}
		defer c.EndParts()
		_, err = c.eachFilter(ctx, "", c.inTurns(ctx, func([]byte, string) (bool, error) {
			n++
			return true, nil
		}))
		return n + int64(sets.Sets-sets.Apart), listed(ctx, err)
	}
	_, err = c.eachKey(ctx, position{}, func(key []byte, kind string) (bool, error) {
		if kind != kindNone && c.sees(key) {
			n++
		}
		return true, nil
	})
	return n, listed(ctx, err)
}

func (c *conn) dbsize(ctx context.Context, _ [][]byte) {
	n, err := c.countKeys(ctx)
	if err != nil {
		c.failed("dbsize", nil, fmt.Errorf("the keys can't be counted: %w", err))
		return
	}
	c.int(n)
}
