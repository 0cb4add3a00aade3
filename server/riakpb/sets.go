package riakpb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"google.golang.org/protobuf/encoding/protowire"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// set returns the name of the set.
func (i id) set() []byte { return setname.Name{Type: i.typ, Bucket: i.bucket, Key: i.key}.Set() }

// mayBeSet returns why no set is served under a name: a filter has it, which clients of redis see.
func (c *conn) mayBeSet(ctx context.Context, set []byte) error {
	key, ok := setname.Key(set)
	if !ok || c.s.filters == nil || len(key) == 0 || len(key) > keyscheme.FilterNameBytesMax {
		return nil
	}
	switch _, err := c.s.filters.Find(ctx, key); {
	case err == nil:
		return refusal(fmt.Sprintf("%.100q is a bloom filter, not a set: use another key, or BF.ADD and BF.EXISTS over redis's protocol", key))
	case !errors.Is(err, bigset.ErrNoFilter):
		return err
	}
	return nil
}

// fetch answers a DtFetchReq.
func (c *conn) fetch(ctx context.Context, body []byte) {
	q, err := decodeFetch(body)
	if err != nil {
		c.fail(door.Text(err))
		return
	}
	c.Settle()
	ctx, cancel := within(ctx, q.timeout)
	defer cancel()
	set := q.set()
	r, err := reads(c.s.opt.Replicas(), q.r, q.pr)
	if err == nil {
		err = c.grant.Check(tokens.Read, set)
	}
	if err == nil {
		err = c.mayBeSet(ctx, set)
	}
	g := gathered{c: c, number: 2} // its memory is returned after the answer
	if err == nil {
		err = g.read(ctx, door.Read{Set: set, R: r, Bare: q.noContext})
	}
	switch {
	case errors.Is(err, bigset.ErrNotFound): // an answer without a value
		c.Out = appendMessage(c.Out, codeFetchResp, appendUint(nil, 2, typeSet))
	case err != nil:
		c.failed("fetch", set, err)
	default:
		var head []byte
		if len(g.context) > 0 {
			head = appendBytes(head, 1, g.context)
		}
		head = appendUint(head, 2, typeSet)
		head = protowire.AppendTag(head, 3, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(g.bytes)))
		g.send(codeFetchResp, head)
	}
}

// update answers a DtUpdateReq.
func (c *conn) update(ctx context.Context, body []byte) {
	q, err := decodeUpdate(body)
	switch {
	case err != nil:
		c.fail(door.Text(err))
		return
	case q.other != "":
		c.fail(fmt.Sprintf("Operation type is `%s` but bucket type is `set`.", q.other)) // Riak's words
		return
	}
	c.Settle()
	ctx, cancel := within(ctx, q.timeout)
	defer cancel()
	if !q.hasKey {
		q.key = newKey()
	}
	set := q.set()
	if err := c.write(ctx, &q, set); err != nil {
		c.failed("update", set, err)
		return
	}
	var head []byte
	if !q.hasKey {
		head = appendBytes(head, 1, q.key)
	}
	if !q.body {
		c.Out = appendMessage(c.Out, codeUpdateResp, head)
		return
	}
	g := gathered{c: c, number: 4}
	err = g.read(ctx, door.Read{Set: set, Bare: q.noContext})
	if err != nil && !errors.Is(err, bigset.ErrNotFound) {
		c.failed("update", set, done(err))
		return
	}
	if len(g.context) > 0 {
		head = appendBytes(head, 2, g.context)
	}
	g.send(codeUpdateResp, head)
}

// done turns an error of a read into one that says that the change before it was made.
func done(err error) error {
	text, _ := answerOf(err)
	return refusal("the change was made, but the set could not be read for return_body: " + text)
}

// write makes the change of an update.
func (c *conn) write(ctx context.Context, q *updateReq, set []byte) error {
	need := tokens.Write
	if q.body {
		need |= tokens.Read
	}
	if err := c.grant.Check(need, set); err != nil {
		return err
	}
	if err := c.mayBeSet(ctx, set); err != nil {
		return err
	}
	quorum, err := writes(c.s.opt.Replicas(), q.w, q.pw, q.dw)
	if err != nil {
		return err
	}
	ops := make([]door.Op, 0, len(q.adds)+len(q.removes))
	for _, e := range q.adds {
		ops = append(ops, door.Op{Kind: keyscheme.OpAdd, Element: e})
	}
	for _, e := range q.removes {
		ops = append(ops, door.Op{Kind: keyscheme.OpRemove, Element: e})
	}
	if len(ops) == 0 {
		return bigset.CheckName(set)
	}
	if len(q.removes) > 0 && isEmpty(q.context) {
		return errEmpty
	}
	if err := c.takeContext(q.context); err != nil {
		return err
	}
	c.s.counters.elements.Add(uint64(len(ops)))
	_, err = c.s.sets.Write(ctx, door.Write{Set: set, Ops: ops, Context: q.context, Quorum: quorum})
	return err
}

// errEmpty is the error of a change that removes something and has a context of no bytes: without a context more would be removed than the client has
// seen.
const errEmpty = refusal("the context is empty: leave it out to remove what the set has, whether you have seen it or not")

// isEmpty reports whether a request has a context, but one of no bytes.
func isEmpty(context []byte) bool { return context != nil && len(context) == 0 }

// delete answers an RpbDelReq. It drops a set or, with a context, what that context saw.
func (c *conn) delete(ctx context.Context, body []byte) {
	q, err := decodeDel(body)
	if err != nil {
		c.fail(door.Text(err))
		return
	}
	c.Settle()
	ctx, cancel := within(ctx, q.timeout)
	defer cancel()
	set := q.set()
	quorum, err := writes(c.s.opt.Replicas(), q.w, q.pw, q.dw)
	if err == nil {
		err = c.grant.Check(tokens.Write, set)
	}
	if err == nil {
		err = c.mayBeSet(ctx, set)
	}
	if err == nil && isEmpty(q.context) {
		err = errEmpty
	}
	if err == nil {
		err = c.takeContext(q.context)
	}
	if err == nil {
		_, err = c.s.sets.Drop(ctx, door.Drop{Set: set, Context: q.context, Quorum: quorum})
	}
	if err != nil && !errors.Is(err, bigset.ErrNotFound) {
		c.failed("delete", set, err)
		return
	}
	c.Out = appendMessage(c.Out, codeDelResp)
}

// keyLetters are the digits of the keys that a node makes, as in Riak.
const keyLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newKey returns a key that no set has: 160 random bits.
func newKey() []byte {
	var random [20]byte
	rand.Read(random[:]) // never fails
	n, base, digit := new(big.Int).SetBytes(random[:]), big.NewInt(int64(len(keyLetters))), new(big.Int)
	var key []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, digit)
		key = append(key, keyLetters[digit.Int64()])
	}
	return key
}

// gathered collects a set for an answer: the elements as fields with one number. Its memory counts toward that of all long answers.
type gathered struct {
	c       *conn
	number  protowire.Number
	bytes   []byte
	taken   int
	context []byte
}

// gatheredFree is how much memory gathered takes without being counted: as much as a connection keeps.
const gatheredFree = 64 << 10

// read reads a set. It returns bigset.ErrNotFound for a set that no replica has heard of.
func (g *gathered) read(ctx context.Context, r door.Read) error {
	for part, err := range g.c.s.sets.Read(ctx, r) {
		if err != nil {
			return err
		}
		if len(part.Context) > 0 {
			if err := g.c.takeContext(part.Context); err != nil {
				return err
			}
			g.context = append([]byte{}, part.Context...)
		}
		for i := range part.Elements {
			if err := g.add(part.Elements[i].Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// contextCopies is how often a context is in memory beside a request or an answer: as bytes and as a clock, or as bytes of two messages.
const contextCopies = 3

// takeContext takes memory for a long context, until the message is answered.
func (c *conn) takeContext(t door.Token) error {
	if len(t) > gatheredFree && !c.Take(contextCopies*len(t)) {
		return door.ErrNoRoom
	}
	return nil
}

func (g *gathered) add(element []byte) error {
	need := len(g.bytes) + len(element) + 2*protowire.SizeVarint(1<<32)
	if most := g.c.s.opt.AnswerBytesMax; need > most {
		return refusal(fmt.Sprintf("the set takes more than the %d bytes of an answer, whose length comes first: read it in pages over HTTP, or by SSCAN and BS.RANGE over redis's protocol", most))
	}
	if need > cap(g.bytes) {
		size := min(max(4<<10, 2*need), g.c.s.opt.AnswerBytesMax)
		if size > gatheredFree {
			if !g.c.Take(size - g.taken) {
				return door.ErrNoRoom
			}
			g.taken = size
		}
		g.bytes = append(make([]byte, 0, size), g.bytes...)
	}
	g.bytes = appendBytes(g.bytes, g.number, element)
	return nil
}

// sendBytes is how much of an answer is passed to the connection at once.
const sendBytes = 64 << 10

// send sends the answer, the head and then the elements, as fast as the client reads it.
func (g *gathered) send(code byte, head []byte) {
	n := 1 + len(head) + len(g.bytes)
	g.c.Out = append(g.c.Out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), code)
	g.c.Out = append(g.c.Out, head...)
	for rest := g.bytes; len(rest) > 0 && !g.c.Ended(); {
		piece := rest[:min(len(rest), sendBytes)]
		g.c.Out, rest = append(g.c.Out, piece...), rest[len(piece):]
		g.c.WriteIfFull()
	}
}
