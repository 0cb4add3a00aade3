package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

func (c *conn) sinterstore(ctx context.Context, args [][]byte) {
	c.store(ctx, "sinterstore", (*conn).inter, args[1], args[2:])
}

func (c *conn) sunionstore(ctx context.Context, args [][]byte) {
	c.store(ctx, "sunionstore", (*conn).union, args[1], args[2:])
}

func (c *conn) sdiffstore(ctx context.Context, args [][]byte) {
	c.store(ctx, "sdiffstore", (*conn).diff, args[1], args[2:])
}

// store replaces a set by the elements that an operation yields, in one batch. It adds all of these, even elements that are present,
// because another node may be removing them at this moment; it removes the other elements of the set. A change that is too large for a
// batch is refused before anything is written. The sets are read in parts, each of a moment of its own: other clients may change the
// destination until then. Without elements only what the destination had at the start is removed.
func (c *conn) store(ctx context.Context, cmd string, op operation, to []byte, keys [][]byte) {
	c.MayWait()
	err := c.s.forSet(ctx, to)
	if err == nil {
		err = c.checkSets(ctx, keys)
	}
	if err != nil {
		c.failed(cmd, to, err)
		return
	}
	g := c.gather(cmd)
	defer g.release()
	g.most = min(g.most, bigset.BatchBytesMax)
	g.refuse = func() error { return tooMuch(cmd) }
	n, err := c.storeElements(ctx, g, to, op(c, ctx, c.inParts(keys)))
	if err != nil {
		c.failed(cmd, to, err)
		return
	}
	c.int(int64(n))
}

// storeElements replaces a set by elements, and returns their number.
func (c *conn) storeElements(ctx context.Context, g *gathered, to []byte, elements iter.Seq2[[]byte, error]) (n int, err error) {
	seen, err := c.s.sets.Context(ctx, nameOf(to), 0)
	if err != nil && !isUnheard(err) {
		return 0, err
	}
	if len(seen) > chunkBytes && !c.Take(contextCopies*len(seen)) {
		return 0, refusal(errNoRoom)
	}
	ops, err := c.adds(g, elements)
	if err == nil {
		err = c.s.forSet(ctx, to) // it may have become a filter
	}
	switch {
	case err != nil:
	case len(ops) > 0:
		err = c.replace(ctx, g, to, ops)
	case len(seen) > 0:
		_, err = c.removeSet(ctx, to, seen) // whatever its size
	}
	return len(ops), err
}

// tooMuch is the error of a STORE that does not fit into a batch.
func tooMuch(cmd string) error {
	return refusal(fmt.Sprintf("ERR %s would change more than %d elements or %d bytes of elements, which is the most that is written at once; nothing was written; read by BS.RANGE or SSCAN, and SADD in parts",
		upper(cmd), bigset.BatchOpsMax, bigset.BatchBytesMax))
}

// adds collects the elements to add.
func (c *conn) adds(g *gathered, elements iter.Seq2[[]byte, error]) (ops []door.Op, err error) {
	for e, err := range elements {
		if err != nil {
			return nil, err
		}
		if ops, err = appendOp(g, ops, keyscheme.OpAdd, e); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func appendOp(g *gathered, ops []door.Op, kind keyscheme.Op, e []byte) ([]door.Op, error) {
	if len(ops) == bigset.BatchOpsMax {
		return nil, g.refuse()
	}
	if !g.roomFor(len(ops), 2*argumentBytes) {
		return nil, refusal(errNoRoom)
	}
	e, err := g.keep(e)
	return append(ops, door.Op{Kind: kind, Element: e}), err
}

// replace adds the elements of the operations, which are in order, and removes the other elements of the set.
func (c *conn) replace(ctx context.Context, g *gathered, to []byte, ops []door.Op) (err error) {
	coming := ops
	for e, err := range c.elements(ctx, door.Read{Set: nameOf(to)}) {
		if err != nil {
			return err
		}
		for len(coming) > 0 && bytes.Compare(coming[0].Element, e) < 0 {
			coming = coming[1:]
		}
		if len(coming) > 0 && bytes.Equal(coming[0].Element, e) {
			continue
		}
		if ops, err = appendOp(g, ops, keyscheme.OpRemove, e); err != nil {
			return err
		}
	}
	written, err := c.s.sets.Write(ctx, door.Write{Set: nameOf(to), Ops: ops, Later: true})
	if err == nil {
		c.acked.changed(written.Acked, written.Later)
	}
	return err
}

// isUnheard reports whether an error says that no replica has heard of a set.
func isUnheard(err error) bool { return errors.Is(err, bigset.ErrNotFound) }
