package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// Requests and answers. They are types of package server/door, where `go doc bigset/server/door.Read` and so on document their fields.
type (
	// Token is a context, of an element or of a whole set, or the place where a page ended. Empty means none.
	Token = door.Token
	// Quorum says how many replicas must have done a write. Zero means the cluster's default.
	Quorum = door.Quorum
	// Op is an operation on one element: an add or a remove, with or without a context.
	Op = door.Op
	// Write is a request to change a set, by one or more operations.
	Write = door.Write
	// Result is the result of a Write.
	Result = door.Result
	// Subset asks which of some elements are in a set.
	Subset = door.Subset
	// Presence says whether a set contains an element, with the element's context.
	Presence = door.Presence
	// Read asks for elements of a set: all, a range, or a page.
	Read = door.Read
	// Part is a part of the answer to a Read.
	Part = door.Part
	// Element is an element of a set with its context.
	Element = door.Element
	// Count is a number of elements, with the context of the whole set at the start of the count.
	Count = door.Count
	// Stats are figures of a set: live dots, events, actors, bytes.
	Stats = door.Stats
	// Drop is a request to delete a whole set, or what a context saw of it.
	Drop = door.Drop
	// SetInfo is a set in a list of sets: its name, the number of its live dots, and of its events.
	SetInfo = bigset.SetInfo
	// SetsOptions select the sets of a list. The zero value selects those that contain elements.
	SetsOptions = bigset.SetsOptions
	// Changes asks what has happened to a set since the last answer.
	Changes = door.Changes
	// Changed is a part of the answer to Changes.
	Changed = door.Changed
	// Dotted is an element with some of its dots, the names of the adds that keep it in the set.
	Dotted = door.Dotted
	// Followed keeps the elements of a set by the answers to Changes. The zero value has none.
	Followed = door.Followed
)

// Kinds of operations, and the DW of a write that need not be on any disk.
const (
	OpAdd      = keyscheme.OpAdd
	OpRemove   = keyscheme.OpRemove
	NotDurable = door.NotDurable
)

// Why a follower has to forget what it has: Changed.Reset.
const (
	ResetBegin   = door.ResetBegin
	ResetLost    = door.ResetLost
	ResetExpired = door.ResetExpired
)

// Add returns the operation that adds an element. With a context it replaces what its author had seen of the element. It
// panics if more than one context is given.
func Add(element []byte, seen ...Token) Op { return op(keyscheme.OpAdd, element, seen) }

// Remove returns the operation that removes an element. With a context it removes what its author had seen of the
// element, and nothing newer; an empty context is none. It panics if more than one context is given.
func Remove(element []byte, seen ...Token) Op { return op(keyscheme.OpRemove, element, seen) }

func op(kind keyscheme.Op, element []byte, seen []Token) Op {
	o := Op{Kind: kind, Element: element}
	switch len(seen) {
	case 0:
	case 1:
		o.Context = seen[0]
	default:
		panic("client: an operation has one context")
	}
	return o
}

// An id drawn by the client is the time in milliseconds, big-endian, and random bytes. A store keeps the records of a set's requests in the
// order of their ids. It takes a record that comes after all others in a third of the time of one that comes anywhere among them.
const (
	requestBytes     = 16
	requestTimeBytes = 6
)

// newRequestID returns an id that no other request has.
func newRequestID(now time.Time) []byte {
	id := make([]byte, requestBytes)
	binary.BigEndian.PutUint64(id, uint64(now.UnixMilli())<<(8*(8-requestTimeBytes)))
	_, _ = rand.Read(id[requestTimeBytes:]) // never fails
	return id
}

// Write does operations on a set, in order, as one atomic batch, and does them once. A write without Request gets an id. Retry says that
// the same write may have been sent before with that id, by this process or another. Then even an error saying that nothing has happened
// now is returned as an *UnknownError, unless it follows from the request alone.
func (c *Client) Write(ctx context.Context, w Write) (Result, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	switch {
	case len(w.Request) == 0 && w.Retry:
		return Result{}, fmt.Errorf("%w: a retry without a request id", bigset.ErrRequest)
	case len(w.Request) == 0:
		w.Request = newRequestID(time.Now())
	}
	before := w.Retry
	var answer []byte
	lost, err := c.ask(ctx, func(to wire.Caller, lost error) error {
		w.Retry = before || lost != nil
		body := api.AppendWrite(nil, &w)
		err := checkBody(body)
		if err == nil {
			answer, err = to.Do(ctx, wire.Call{Verb: api.VerbWrite, Body: body})
		}
		return err
	})
	if err != nil {
		if (lost != nil || before) && !verdict(err) {
			return Result{}, &UnknownError{Request: w.Request, Err: err}
		}
		return Result{}, err
	}
	out, err := api.DecodeResult(answer)
	if err == nil && w.Contexts && len(out.Contexts) != len(w.Ops) {
		err = fmt.Errorf("%w: %d contexts of %d operations", ErrAnswer, len(out.Contexts), len(w.Ops))
	}
	if err != nil { // the answer says that the write was done, but not how
		return Result{}, &UnknownError{Request: w.Request, Err: err}
	}
	return out, nil
}

// checkBody refuses a request that is too long for every node.
func checkBody(b []byte) error {
	if len(b) > wire.BodyBytesMax {
		return &bigset.LimitError{What: "bytes of a request", Got: len(b), Max: wire.BodyBytesMax}
	}
	return nil
}

// subsetBytes is about how many bytes of elements one request contains.
const subsetBytes = 8 << 20

// Subset reports for each element whether the set contains it, with the context to act on it. Each element is looked up at a moment of its
// own. Many elements are split into several requests, each with the time of Options.Timeout.
func (c *Client) Subset(ctx context.Context, s Subset) ([]Presence, error) {
	found := make([]Presence, 0, len(s.Elements))
	for left := s.Elements; ; {
		n, size := 0, 0
		for n < len(left) && n < api.SubsetMax && size < subsetBytes {
			size += len(left[n])
			n++
		}
		some, err := c.subset(ctx, Subset{Set: s.Set, Elements: left[:n], R: s.R})
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
		if left = left[n:]; len(left) == 0 {
			return found, nil
		}
	}
}

func (c *Client) subset(ctx context.Context, s Subset) ([]Presence, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	body := api.AppendSubset(nil, &s)
	if err := checkBody(body); err != nil {
		return nil, err
	}
	b, err := c.get(ctx, api.VerbSubset, body)
	if err != nil {
		return nil, err
	}
	found, err := api.DecodePresences(b)
	if err == nil && len(found) != len(s.Elements) {
		err = fmt.Errorf("%w: %d answers about %d elements", ErrAnswer, len(found), len(s.Elements))
	}
	return found, err
}

// Whole asks about a whole set: for its context, or its figures.
type Whole struct {
	Set []byte
	// R is how many replicas have to answer; 0 is the cluster's default.
	R int
}

// Context returns the context of a whole set.
func (c *Client) Context(ctx context.Context, w Whole) (Token, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.get(ctx, api.VerbContext, api.AppendSubset(nil, &Subset{Set: w.Set, R: w.R}))
}

// Stats returns figures of a set.
func (c *Client) Stats(ctx context.Context, w Whole) (Stats, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	b, err := c.get(ctx, api.VerbStats, api.AppendSubset(nil, &Subset{Set: w.Set, R: w.R}))
	if err != nil {
		return Stats{}, err
	}
	return api.DecodeStats(b)
}

// Drop removes everything in a set or, with a context, what that context saw. It returns how many dots are left. Without a context it first
// fetches the set's: so the drop can be sent again, and elements added in between stay.
func (c *Client) Drop(ctx context.Context, d Drop) (left uint64, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if len(d.Context) == 0 {
		if d.Context, err = c.Context(ctx, Whole{Set: d.Set}); err != nil && !errors.Is(err, keyscheme.ErrTokenTooLarge) {
			return 0, err
		}
	}
	var answer []byte
	lost, err := c.ask(ctx, func(to wire.Caller, lost error) (err error) {
		if lost != nil && len(d.Context) == 0 { // a second drop would remove what was added after the first
			return settled{lost}
		}
		answer, err = to.Do(ctx, wire.Call{Verb: api.VerbDrop, Body: api.AppendDrop(nil, &d)})
		return err
	})
	if err != nil {
		if lost != nil && !verdict(err) {
			return 0, &UnknownError{Context: d.Context, Err: err}
		}
		return 0, err
	}
	if left, err = api.DecodeLeft(answer); err != nil {
		return 0, &UnknownError{Context: d.Context, Err: err}
	}
	return left, nil
}

// Count counts the elements that Read would return.
func (c *Client) Count(ctx context.Context, r Read) (Count, error) {
	if err := checkRead(&r); err != nil {
		return Count{}, err
	}
	b, err := c.get(ctx, api.VerbCount, api.AppendRead(nil, &r))
	if err != nil {
		return Count{}, err
	}
	return api.DecodeCount(b)
}

func checkRead(r *Read) error {
	if r.Limit > math.MaxInt32 {
		return &bigset.LimitError{What: "elements of a page", Got: r.Limit, Max: math.MaxInt32}
	}
	return r.Check()
}

// Read streams elements in order. Only the last part is Done. The bytes of a part are valid until the next part. Leaving the loop also ends
// the read at the node.
func (c *Client) Read(ctx context.Context, r Read) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		stopped := false
		err := c.read(ctx, &r, func(p *Part) bool {
			stopped = !yield(*p, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Part{}, err)
		}
	}
}

// read passes the parts of a read to f until f returns false.
func (c *Client) read(ctx context.Context, r *Read, f func(*Part) bool) error {
	if err := checkRead(r); err != nil {
		return err
	}
	var p Part
	done, stopped := false, false
	err := c.stream(ctx, api.VerbRead, api.AppendRead(nil, r), func(b []byte) (bool, error) {
		if done {
			return false, fmt.Errorf("%w: a part after the last", ErrAnswer)
		}
		if err := api.DecodePart(&p, b); err != nil {
			return false, err
		}
		done = p.Done
		stopped = !f(&p)
		return !stopped, nil
	})
	if err == nil && !done && !stopped {
		err = fmt.Errorf("%w: a read without its last part", ErrAnswer)
	}
	return err
}

// Elements streams elements in order. The bytes of an element are valid until the next one. Leaving the loop also ends the read at the
// node.
func (c *Client) Elements(ctx context.Context, r Read) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for p, err := range c.Read(ctx, r) {
			if err != nil {
				yield(Element{}, err)
				return
			}
			for _, e := range p.Elements {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Page contains some elements of a set.
type Page struct {
	Elements []Element
	Context  Token // of the whole set at the begin of the read
	After    Token // where the next page begins: Read.After; empty after the last page
}

// Page returns the next elements of a read, at most Read.Limit, which must be set. The caller owns the bytes.
func (c *Client) Page(ctx context.Context, r Read) (p Page, err error) {
	if r.Limit <= 0 {
		return Page{}, fmt.Errorf("%w: a page with a limit of %d elements", bigset.ErrRequest, r.Limit)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	err = c.read(ctx, &r, func(part *Part) bool {
		for _, e := range part.Elements {
			p.Elements = append(p.Elements, Element{Name: bytes.Clone(e.Name), Context: bytes.Clone(e.Context)})
		}
		if len(part.Context) > 0 {
			p.Context = bytes.Clone(part.Context)
		}
		p.After = bytes.Clone(part.After)
		return true
	})
	if err != nil {
		return Page{}, err
	}
	return p, nil
}

// CountSets counts the sets that contain elements, without listing them. SetCount.Apart counts those of them that Riak's
// clients named by another type or bucket, so that clients of redis have no key for them.
func (c *Client) CountSets(ctx context.Context) (bigset.SetCount, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	b, err := c.get(ctx, api.VerbCountSets, nil)
	if err != nil {
		return bigset.SetCount{}, err
	}
	return api.DecodeSetCount(b)
}

// Sets lists sets. Their order is fixed, but is not that of their names. The bytes of a name are valid until the next.
func (c *Client) Sets(ctx context.Context, o SetsOptions) iter.Seq2[SetInfo, error] {
	return func(yield func(SetInfo, error) bool) {
		stopped := false
		err := c.stream(ctx, api.VerbNames, api.AppendAll(nil, o.Empty, o.After), func(b []byte) (bool, error) {
			names, err := api.DecodeNames(b)
			if err != nil {
				return false, err
			}
			for _, n := range names {
				if stopped = !yield(n, nil); stopped {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil && !stopped {
			yield(SetInfo{}, err)
		}
	}
}
