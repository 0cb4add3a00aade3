package resp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"bigset"
	"bigset/server/door"
	"bigset/server/setname"
)

// nameOf returns the name of a key's set.
func nameOf(key []byte) []byte { return setname.OfKey(key) }

// keyOf inverts nameOf. ok is false for a name that belongs to no key.
func keyOf(name []byte) (key []byte, ok bool) { return setname.Key(name) }

// checkKey returns an error for an invalid key.
func checkKey(key []byte) error {
	if name := nameOf(key); bigset.CheckName(name) != nil {
		return refusal(fmt.Sprintf("ERR key is %d bytes, the maximum is %d", len(key), bigset.SetNameBytesMax-(len(name)-len(key))))
	}
	return nil
}

// checkElement returns an error for an invalid element.
func checkElement(e []byte) error {
	if bigset.CheckElement(e) != nil {
		return refusal(fmt.Sprintf("ERR element is %d bytes, the maximum is %d", len(e), bigset.ElementBytesMax))
	}
	return nil
}

// filterOf returns the filter of a key, or nil.
func (c *conn) filterOf(ctx context.Context, key []byte) (door.Filter, error) {
	if c.s.filters.FindsWait() {
		c.MayWait()
	}
	return c.s.filterOf(ctx, key)
}

func (s *Server) filterOf(ctx context.Context, key []byte) (door.Filter, error) {
	if !goodFilterName(key) {
		return nil, nil
	}
	f, err := s.filters.Find(ctx, key)
	if errors.Is(err, bigset.ErrNoFilter) {
		return nil, nil
	}
	return f, err
}

// forSet returns why a key can't be used as a set: errKind if it is a filter.
func (s *Server) forSet(ctx context.Context, key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	f, err := s.filterOf(ctx, key)
	if err == nil && f != nil {
		return errKind
	}
	return err
}

// isSet reports whether a key has elements. The connection may wait.
func (c *conn) isSet(ctx context.Context, key []byte) (bool, error) {
	for part, err := range c.s.sets.Read(ctx, door.Read{Set: nameOf(key), Limit: 1, Batch: 1, Bare: true}) {
		if errors.Is(err, bigset.ErrNotFound) {
			return false, nil
		}
		if err != nil || len(part.Elements) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// kindOf returns the kind of a key for TYPE: "none" if it does not exist.
func (c *conn) kindOf(ctx context.Context, key []byte) (string, error) {
	if checkKey(key) != nil {
		return kindNone, nil
	}
	f, err := c.filterOf(ctx, key)
	switch {
	case err != nil:
		return "", err
	case f != nil:
		return kindFilter, nil
	}
	is, err := c.isSet(ctx, key)
	if is {
		return kindSet, err
	}
	return kindNone, err
}

// Kinds of keys, as TYPE reports them.
const (
	kindNone   = "none"
	kindSet    = "set"
	kindFilter = "MBbloom--"
)

func (c *conn) exists(ctx context.Context, args [][]byte) {
	c.MayWait()
	defer c.EndParts()
	n := int64(0)
	for i, key := range args[1:] {
		if i > 0 && i%namesPart == 0 {
			c.nextPart()
		}
		kind, err := c.kindOf(ctx, key)
		if err == nil {
			err = c.gone()
		}
		if err != nil {
			c.failed("exists", key, err)
			return
		}
		if kind != kindNone {
			n++
		}
	}
	c.int(n)
}

func (c *conn) typeOf(ctx context.Context, args [][]byte) {
	c.MayWait()
	kind, err := c.kindOf(ctx, args[1])
	if err != nil {
		c.failed("type", args[1], err)
		return
	}
	c.Out = appendSimple(c.Out, kind)
}

// ttl answers -1 for an existing key, which never expires, and -2 otherwise.
func (c *conn) ttl(ctx context.Context, args [][]byte) {
	c.MayWait()
	kind, err := c.kindOf(ctx, args[1])
	switch {
	case err != nil:
		c.failed("ttl", args[1], err)
	case kind == kindNone:
		c.int(-2)
	default:
		c.int(-1)
	}
}

// del removes keys one after another. An error says how many were removed before it.
func (c *conn) del(ctx context.Context, args [][]byte) {
	c.MayWait()
	n := int64(0)
	all := acks{least: math.MaxInt}
	for _, key := range args[1:] {
		gone, err := c.remove(ctx, key)
		if err != nil {
			if n > 0 {
				err = partly(err, fmt.Sprintf("%d keys were removed before it", n))
			}
			c.failed("del", key, err)
			return
		}
		if gone {
			n++
			all.join(&c.acked)
		}
	}
	if n > 0 {
		c.acked = all
	}
	c.int(n)
}

// partly returns the error of a command that had done something before: it must not read as if nothing had happened.
func partly(err error, done string) error {
	if errors.Is(err, door.ErrUnknown) {
		return fmt.Errorf("%w (%s)", err, done)
	}
	return fmt.Errorf("%w: %w (%s)", door.ErrUnknown, err, done)
}

// remove removes a key, and reports whether it existed. A set and a filter with one name, which exist only if both were made at the same
// time, are removed together.
func (c *conn) remove(ctx context.Context, key []byte) (gone bool, err error) {
	if checkKey(key) != nil {
		return false, nil
	}
	f, err := c.filterOf(ctx, key)
	if err != nil {
		return false, err
	}
	if f != nil {
		if err := c.s.filters.Drop(ctx, key); err != nil && !errors.Is(err, bigset.ErrNoFilter) {
			return false, err
		}
		gone = true
	}
	is, err := c.removeSet(ctx, key, nil)
	if gone {
		c.acked.none()
		if err != nil {
			err = partly(err, "the filter of the key was removed before it")
		}
	}
	return gone || is, err
}

// removeSet removes the elements of a key that a context saw, or all without one. It reports whether the key had elements.
func (c *conn) removeSet(ctx context.Context, key []byte, seen door.Token) (is bool, err error) {
	if is, err = c.isSet(ctx, key); err != nil || !is {
		return false, err
	}
	dropped, err := c.s.sets.Drop(ctx, door.Drop{Set: nameOf(key), Context: seen, Later: true})
	if isUnheard(err) {
		err = nil
	}
	c.acked.changed(dropped.Acked, dropped.Later)
	return true, err
}
