package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// What is asked and answered. Their fields are documented in package door.
type (
	Token    = door.Token
	Quorum   = door.Quorum
	Op       = door.Op
	Write    = door.Write
	Written  = door.Written
	Subset   = door.Subset
	Presence = door.Presence
	Read     = door.Read
	Part     = door.Part
	Element  = door.Element
	Count    = door.Count
	Drop     = door.Drop
	Name     = door.Name
)

// Errors.
var (
	// ErrUnavailable says that no node could do what was asked; nothing has happened.
	ErrUnavailable = door.ErrUnavailable
	// ErrUnknown is what *UnknownError wraps.
	ErrUnknown = door.ErrUnknown
	// ErrOptions is returned for options that can't be.
	ErrOptions = errors.New("client: bad options")
)

// UnknownError says that nobody knows whether a change was done. The same change with the same id may be sent again: it is done once.
type UnknownError struct {
	Request []byte // the id
	Err     error  // why
}

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v (request %s): %v", ErrUnknown, hex.EncodeToString(e.Request), e.Err)
}

// Unwrap makes errors.Is find ErrUnknown and the cause.
func (e *UnknownError) Unwrap() []error { return []error{ErrUnknown, e.Err} }

// Options say how nodes are reached.
type Options struct {
	Addrs []string    // HOST:PORT of nodes, at least one; names are resolved at each dial
	TLS   *tls.Config // of a client; nil is without TLS, which is for loopback addresses alone
	Name  string      // of this client, for the nodes' logs; with TLS the certificate says it
	// Timeout bounds a call whose context has no deadline; default 10 s. Reads of a set have none.
	Timeout time.Duration
}

// Client asks nodes. Make one with Open.
type Client struct {
	links   []wire.Caller
	close   func() error
	timeout time.Duration
	first   atomic.Int32 // the address that answered last
}

var _ door.Backend = (*Client)(nil)

// Open returns a client. It connects at the first call.
func Open(o Options) (*Client, error) {
	if len(o.Addrs) == 0 {
		return nil, fmt.Errorf("%w: no address", ErrOptions)
	}
	var links []*wire.Link
	c := &Client{timeout: o.Timeout, close: func() error {
		for _, l := range links {
			_ = l.Close()
		}
		return nil
	}}
	for _, addr := range o.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("%w: address %q: it is HOST:PORT", ErrOptions, addr)
		}
		if o.TLS == nil && !loopback(addr) {
			return nil, fmt.Errorf("%w: %s is not this machine, and there is no TLS: everyone on the way could read and change what is sent", ErrOptions, addr)
		}
	}
	for _, addr := range o.Addrs {
		l := wire.NewLink(wire.LinkOptions{Requests: 1,
			Dial: func(ctx context.Context) (net.Conn, error) {
				if o.TLS == nil {
					return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
				}
				return (&tls.Dialer{Config: o.TLS}).DialContext(ctx, "tcp", addr)
			},
			Client: func() wire.ClientOptions {
				return wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}}, Name: o.Name}
			}})
		links, c.links = append(links, l), append(c.links, l)
	}
	if c.timeout == 0 {
		c.timeout = 10 * time.Second
	}
	return c, nil
}

// Over returns a client whose calls go over callers, one for each node: for tests, and for programs with connections of their own.
func Over(callers ...wire.Caller) *Client {
	return &Client{links: callers, timeout: 10 * time.Second, close: func() error { return nil }}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Close ends the connections. Calls under way fail.
func (c *Client) Close() error { return c.close() }

// roundPause is how long it is from one round over all addresses to the next.
const roundPause = 20 * time.Millisecond

// bound gives a call without a deadline one.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// notBegun reports whether an error says that nothing has happened and another node may be asked.
func notBegun(err error) bool {
	return errors.Is(err, wire.ErrNotSent) && !errors.Is(err, wire.ErrRefused) || errors.Is(err, door.ErrUnavailable)
}

// each asks node after node until one has answered, the context ends, or an error says that no other would do better. lost is called when nobody knows whether the request
// was done, and says whether it may be sent again.
func (c *Client) each(ctx context.Context, ask func(wire.Caller) error, lost func(error) bool) (err error) {
	at, n := int(c.first.Load()), len(c.links)
	end := time.Now().Add(c.timeout) // of the tries, where the context has none
	for try := 0; ; try++ {
		i := (at + try) % n
		if err = ask(c.links[i]); err == nil {
			c.first.Store(int32(i))
			return nil
		}
		unknown := errors.Is(err, wire.ErrLost) || errors.Is(err, door.ErrUnknown)
		if !(unknown && lost(err)) && !notBegun(err) {
			return err
		}
		if try%n < n-1 {
			continue
		}
		if _, bounded := ctx.Deadline(); !bounded && time.Now().After(end) {
			return err
		}
		t := time.NewTimer(roundPause)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
	}
}

// do asks for something that changes nothing.
func (c *Client) do(ctx context.Context, verb wire.Verb, body []byte) (answer []byte, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	err = c.each(ctx, func(to wire.Caller) (err error) {
		answer, err = to.Do(ctx, wire.Call{Verb: verb, Body: body})
		return err
	}, func(error) bool { return ctx.Err() == nil })
	return answer, failure(err)
}

// failure says of an error of the wire what it means here.
func failure(err error) error {
	if err != nil && errors.Is(err, wire.ErrNotSent) && !errors.Is(err, door.ErrUnavailable) && !errors.Is(err, wire.ErrRefused) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// requestBytes is the length of an id that is drawn.
const requestBytes = 16

// Write does operations on a set, in order and as one atomic batch, once.
func (c *Client) Write(ctx context.Context, w Write) (out Written, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if len(w.Request) == 0 {
		w.Request = make([]byte, requestBytes)
		_, _ = rand.Read(w.Request)
	}
	var answer []byte
	began := false // a node may have done it
	err = c.each(ctx, func(to wire.Caller) (err error) {
		answer, err = to.Do(ctx, wire.Call{Verb: api.VerbWrite, Body: api.AppendWrite(nil, &w)})
		return err
	}, func(error) bool {
		began, w.Retry = true, true
		return ctx.Err() == nil
	})
	if err == nil {
		return api.DecodeWritten(answer)
	}
	if errors.Is(err, wire.ErrLost) || errors.Is(err, door.ErrUnknown) || began && notBegun(err) {
		return Written{}, &UnknownError{w.Request, err}
	}
	return Written{}, failure(err)
}

// Add adds elements to a set.
func (c *Client) Add(ctx context.Context, set string, elements ...string) (Written, error) {
	return c.Write(ctx, Write{Set: []byte(set), Ops: ops(keyscheme.OpAdd, elements)})
}

// Remove removes what the nodes have of elements. Written.Removed says how many were there.
func (c *Client) Remove(ctx context.Context, set string, elements ...string) (Written, error) {
	return c.Write(ctx, Write{Set: []byte(set), Ops: ops(keyscheme.OpRemove, elements)})
}

func ops(kind keyscheme.Op, elements []string) (all []Op) {
	for _, e := range elements {
		all = append(all, Op{Kind: kind, Element: []byte(e)})
	}
	return all
}

// Contains reports whether a set contains an element.
func (c *Client) Contains(ctx context.Context, set, element string) (bool, error) {
	found, err := c.Subset(ctx, Subset{Set: []byte(set), Elements: [][]byte{[]byte(element)}})
	return err == nil && found[0].Present, err
}

// Subset reports, for each element, whether the set contains it, with the context to act on it.
func (c *Client) Subset(ctx context.Context, s Subset) ([]Presence, error) {
	b, err := c.do(ctx, api.VerbSubset, api.AppendSubset(nil, &s))
	if err != nil {
		return nil, err
	}
	found, err := api.DecodePresences(b)
	if err == nil && len(found) != len(s.Elements) {
		err = fmt.Errorf("client: %d answers about %d elements", len(found), len(s.Elements))
	}
	return found, err
}

// Count counts the elements that Read would give.
func (c *Client) Count(ctx context.Context, r Read) (Count, error) {
	b, err := c.do(ctx, api.VerbCount, api.AppendRead(nil, &r))
	if err != nil {
		return Count{}, err
	}
	return api.DecodeCount(b)
}

// Context returns the context of the whole set, by r replicas; 0 is the default.
func (c *Client) Context(ctx context.Context, set []byte, r int) (Token, error) {
	b, err := c.do(ctx, api.VerbContext, api.AppendSubset(nil, &Subset{Set: set, R: r}))
	return b, err
}

// Drop removes everything in a set or, with a context, what that saw, and returns how many dots are left. Without a context it asks for one first, so that it may be sent
// again: what comes later stays.
func (c *Client) Drop(ctx context.Context, d Drop) (left uint64, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if len(d.Context) == 0 {
		if d.Context, err = c.Context(ctx, d.Set, 0); err != nil {
			return 0, err
		}
	}
	b, err := c.do(ctx, api.VerbDrop, api.AppendDrop(nil, &d))
	if err != nil {
		return 0, err
	}
	return api.DecodeLeft(b)
}

// stream asks for something in parts. Before the first part another node may take the place of one that fails.
func (c *Client) stream(ctx context.Context, call wire.Call, part func([]byte) (more bool, err error)) error {
	begun := false
	return failure(c.each(ctx, func(to wire.Caller) error {
		for b, err := range to.Stream(ctx, call) {
			if err != nil {
				if begun {
					err = fmt.Errorf("client: the stream broke off: %v", err)
				}
				return err
			}
			begun = true
			if more, err := part(b); err != nil || !more {
				return err
			}
		}
		return nil
	}, func(error) bool { return !begun && ctx.Err() == nil }))
}

// Read streams elements in order. The last part, and only that, is Done. A part is good until the next. It has no deadline but that of ctx.
func (c *Client) Read(ctx context.Context, r Read) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped, done := false, false
		err := c.stream(ctx, wire.Call{Verb: api.VerbRead, Priority: wire.PriorityRead, Body: api.AppendRead(nil, &r)}, func(b []byte) (bool, error) {
			p, err := api.DecodePart(b)
			if err == nil {
				stopped, done = !yield(p, nil), p.Done
			}
			return !stopped, err
		})
		if err == nil && !stopped && !done {
			err = errors.New("client: the stream ended before it was done")
		}
		if err != nil && !stopped {
			yield(Part{}, err)
		}
	}
}

// Names lists sets: those with elements or, with all, also those that are empty.
func (c *Client) Names(ctx context.Context, all bool) iter.Seq2[Name, error] {
	return func(yield func(Name, error) bool) {
		stopped := false
		err := c.stream(ctx, wire.Call{Verb: api.VerbNames, Priority: wire.PriorityRead, Body: api.AppendAll(nil, all)}, func(b []byte) (bool, error) {
			names, err := api.DecodeNames(b)
			for _, n := range names {
				if stopped = stopped || !yield(n, nil); stopped {
					break
				}
			}
			return !stopped, err
		})
		if err != nil && !stopped {
			yield(Name{}, err)
		}
	}
}
