package api

import (
	"context"
	"fmt"
	"time"

	"bigset/clock"
	"bigset/server/door"
	"bigset/server/wire"
)

// AppendChanges appends a request of VerbChanges. The wait is in milliseconds.
func AppendChanges(dst []byte, q *door.Changes) []byte {
	dst = putBytes(putBytes(append(dst, version), q.Set), q.Since)
	return putInt(putInt(putInt(dst, q.Limit), q.R), int(q.Wait/time.Millisecond))
}

// DecodeChanges inverts AppendChanges.
func DecodeChanges(b []byte) (q door.Changes, err error) {
	in := begin(b)
	q.Set, q.Since = in.bytes(), in.bytes()
	q.Limit, q.R = in.int(), in.int()
	q.Wait = time.Duration(in.int()) * time.Millisecond
	return q, in.end()
}

// AppendChanged appends a part of the answer. What only the last part has follows in that alone.
func AppendChanged(dst []byte, c *door.Changed) []byte {
	dst = putBytes(append(dst, version), []byte(c.Reset))
	dst = putDotted(putDotted(dst, c.Added), c.Removed)
	var dead []byte
	if !c.Dead.Empty() {
		dead = c.Dead.Append(nil)
	}
	dst = putBool(putBytes(dst, dead), c.Done)
	if !c.Done {
		return dst
	}
	dst = putInt(putBytes(dst, c.Next), int(c.Expires/time.Second))
	return putUint(putBool(dst, c.More), c.Unconfirmed)
}

func putDotted(dst []byte, all []door.Dotted) []byte {
	dst = putInt(dst, len(all))
	for i := range all {
		dst = putInt(putBytes(dst, all[i].Name), len(all[i].Dots))
		for _, d := range all[i].Dots {
			dst = putUint(putBytes(dst, []byte(d.Actor)), d.Counter)
		}
	}
	return dst
}

// DecodeChanged inverts AppendChanged.
func DecodeChanged(b []byte) (c door.Changed, err error) {
	in := begin(b)
	c.Reset = string(in.bytes())
	c.Added, c.Removed = in.dotted(), in.dotted()
	if dead := in.bytes(); len(dead) > 0 {
		if c.Dead, err = clock.Decode(dead); err != nil || c.Dead.Empty() {
			in.fail("dead dots: %v", err)
		}
	}
	if c.Done = in.bool(); c.Done {
		c.Next = in.bytes()
		c.Expires = time.Duration(in.int()) * time.Second
		c.More, c.Unconfirmed = in.bool(), in.uint()
	}
	return c, in.end()
}

// dotted reads elements with dots; none are nil.
func (in *input) dotted() (all []door.Dotted) {
	n := in.count(4)
	if n == 0 {
		return nil
	}
	all = make([]door.Dotted, n)
	for i := range all {
		all[i].Name = in.bytes()
		all[i].Dots = make([]clock.Dot, in.count(2))
		for k := range all[i].Dots {
			all[i].Dots[k] = clock.Dot{Actor: clock.Actor(in.bytes()), Counter: in.uint()}
		}
		if len(all[i].Dots) == 0 {
			in.fail("an element without dots")
		}
	}
	return all
}

func (s *service) changes(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
	q, err := DecodeChanges(r.Body)
	if err != nil {
		return nil, err
	}
	q.Rest = r.Rest
	for part, err := range s.backend.Changes(ctx, q) {
		if err != nil {
			return nil, err
		}
		b := AppendChanged(nil, &part)
		if part.Done {
			return b, nil
		}
		if err := send(b); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("api: changes of %.64q ended without their last part", q.Set)
}
