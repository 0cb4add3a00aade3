package rest

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
)

// accept reads parameters of Riak that have no effect here, so that invalid values are refused.
func (q *request) accept() error {
	for _, name := range ofRiak[:3] {
		if _, err := q.flag(name, false); err != nil {
			return err
		}
	}
	_, err := q.number("n_val", 0, 1, 255)
	return err
}

// fetch answers with a set as Riak does: {"type":"set","context":...,"value":[...]}.
func (q *request) fetch() error {
	a := &whole{q: q}
	var err error
	if a.base64, err = q.inBase64(); err != nil {
		return err
	}
	r, err := q.reads()
	if err != nil {
		return err
	}
	with, err := q.flag("include_context", true)
	if err == nil {
		err = q.accept()
	}
	if err == nil {
		err = a.set(door.Read{Set: q.set, R: r, Bare: !with})
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}

// set appends a whole set. Its context comes with the first elements, and so precedes them.
func (a *whole) set(r door.Read) error {
	if err := a.raw(`{"type":"set"`); err != nil {
		return err
	}
	_, err := a.elements(r, true)
	if err != nil {
		return err
	}
	return a.raw(`}`)
}

// elements appends the context of a read unless the read is bare, the elements as "value", and their contexts as "contexts" if requested.
// after is where the next page begins.
func (a *whole) elements(r door.Read, withContext bool) (after door.Token, err error) {
	first, n := true, 0
	kept := contexts{q: a.q}
	begin := func(t door.Token) error {
		if first = false; withContext && !r.Bare {
			if err := a.raw(`,"context":`); err != nil {
				return err
			}
			if err := a.context(t); err != nil {
				return err
			}
		}
		return a.raw(`,"value":[`)
	}
	if r.Contexts {
		r.Batch = door.ContextsMax
	}
	for part, err := range a.q.s.sets.Read(a.q.ctx, r) {
		if err == nil && first {
			err = begin(part.Context)
		}
		if err != nil {
			return nil, err
		}
		for i := range part.Elements {
			if n > 0 {
				err = a.raw(",")
			}
			if err == nil {
				err = a.element(part.Elements[i].Name)
			}
			if err != nil {
				return nil, err
			}
			if n++; r.Contexts {
				if err := kept.add(append(door.Token{}, part.Elements[i].Context...)); err != nil {
					return nil, err
				}
			}
		}
		after = append(after, part.After...)
	}
	if first {
		if err := begin(nil); err != nil {
			return nil, err
		}
	}
	if err := a.raw("]"); err != nil || !r.Contexts {
		return after, err
	}
	return after, a.contexts(kept.list)
}

// contexts are the contexts of elements, which follow all elements in an answer. Above 64 KiB they take from the memory of all long answers.
type contexts struct {
	q            *request
	list         []door.Token
	bytes, taken int64
}

// contextBytes is the memory of a context besides its bytes.
const contextBytes = 48

func (c *contexts) add(t door.Token) error {
	c.list = append(c.list, t)
	c.bytes += int64(len(t)) + contextBytes
	more := c.bytes - c.taken - bodyBytesKept
	if more <= 0 {
		return nil
	}
	if most := c.q.s.opt.AnswerBytesMax; c.bytes > int64(most) {
		return tooLarge(most)
	}
	more = max(more, bodyBytesKept)
	c.taken += more
	return c.q.take(more)
}

// contexts appends the contexts of elements; null for an element without one.
func (a *whole) contexts(list []door.Token) error {
	err := a.raw(`,"contexts":[`)
	for i, t := range list {
		if i > 0 && err == nil {
			err = a.raw(",")
		}
		if err != nil {
			return err
		}
		if len(t) == 0 {
			err = a.raw("null")
		} else {
			err = a.context(t)
		}
	}
	if err != nil {
		return err
	}
	return a.raw("]")
}

// update changes a set.
func (q *request) update() error {
	_, err := q.change(func() int { return http.StatusOK })
	return err
}

// create changes a set whose key the node makes. The answer contains the key even if it is unknown whether the set was changed.
func (q *request) create() error {
	again, err := q.flag("retry", false)
	if err != nil {
		return err
	}
	if again {
		return badRequest("a change is sent again to the set that it was for, or it makes another one: retry=true is for the path in Location, %.200s/KEY", q.r.URL.EscapedPath())
	}
	key := rand.Text()
	if err := q.name(key); err != nil {
		return err
	}
	name := func() { q.w.Header().Set("Location", q.r.URL.EscapedPath()+"/"+url.PathEscape(key)) }
	_, err = q.change(func() int {
		name()
		return http.StatusCreated
	})
	if err != nil {
		if _, f, _ := answerOf(err, true); f.Outcome == outcomeUnknown {
			name()
		}
	}
	return err
}

// wanted says what the answer to an update contains.
type wanted struct {
	body, changes, context bool
	base64                 bool
	r                      int
}

func (q *request) wanted() (want wanted, err error) {
	for _, f := range []struct {
		name string
		or   bool
		to   *bool
	}{{"returnbody", false, &want.body}, {"returnchanges", false, &want.changes}, {"include_context", true, &want.context}} {
		if *f.to, err = q.flag(f.name, f.or); err != nil {
			return want, err
		}
	}
	if want.body && want.changes {
		return want, badRequest("returnbody and returnchanges are two answers: ask for one")
	}
	if want.body {
		if err := q.grant.Check(tokens.Read, q.set); err != nil {
			return want, err
		}
	}
	if want.base64, err = q.inBase64(); err != nil {
		return want, err
	}
	want.r, err = q.reads()
	return want, err
}

// change writes the changes of the body and answers. done is called when they have happened, and returns the status.
func (q *request) change(done func() int) (door.Result, error) {
	want, err := q.wanted()
	if err == nil {
		err = q.accept()
	}
	if err != nil {
		return door.Result{}, err
	}
	w := door.Write{Set: q.set, Request: q.bytes("request_id"), Contexts: want.changes, Changes: want.changes}
	if w.Quorum, err = q.writes(); err != nil {
		return door.Result{}, err
	}
	if w.Retry, err = q.flag("retry", false); err != nil {
		return door.Result{}, err
	}
	if n := len(w.Request); n > keyscheme.RequestIDBytesMax || n == 0 && q.query.Has("request_id") { // an empty one would be no id
		return door.Result{}, badRequest("request_id has %d bytes, and must have 1 to %d", n, keyscheme.RequestIDBytesMax)
	}
	if w.Ops, w.Context, err = q.changes(); err != nil {
		return door.Result{}, err
	}
	if err := q.mayBeSet(); err != nil {
		return door.Result{}, err
	}
	out, err := q.s.sets.Write(q.ctx, w)
	if err != nil {
		return out, err
	}
	status := done()
	switch {
	case want.changes:
		return out, q.sendChanges(status, &out)
	case want.body:
		return out, q.sendBody(status, want)
	case status == http.StatusOK:
		status = http.StatusNoContent
	}
	q.begun = true
	if status == http.StatusCreated {
		q.w.Header().Set("Content-Length", "0")
	}
	q.w.WriteHeader(status)
	return out, nil
}

// sendChanges answers with the result of a change.
func (q *request) sendChanges(status int, w *door.Result) error {
	a := &whole{q: q}
	err := a.raw(`{"type":"set","removed":` + strconv.Itoa(w.Removed) + `,"acked":` + strconv.Itoa(w.Acked) + `,"durable":` + strconv.Itoa(w.Durable) + `,"changed":[`)
	for i, c := range w.Changed {
		if i > 0 && err == nil {
			err = a.raw(",")
		}
		if err == nil {
			err = a.raw(strconv.FormatBool(c))
		}
	}
	if err == nil {
		err = a.raw("]")
	}
	if err == nil {
		err = a.contexts(w.Contexts)
	}
	if err == nil {
		err = a.raw("}")
	}
	if err != nil {
		return q.afterChange(status, err)
	}
	return a.send(status)
}

// sendBody answers with the set that was changed.
func (q *request) sendBody(status int, want wanted) error {
	a := &whole{q: q, base64: want.base64}
	if err := a.set(door.Read{Set: q.set, R: want.r, Bare: !want.context}); err != nil {
		return q.afterChange(status, err)
	}
	return a.send(status)
}

// afterChange answers a change that was made but whose set can't be shown. This is not an error status, or the client would send the change
// again.
func (q *request) afterChange(status int, err error) error {
	f := q.failureOf(err)
	return q.json(status, map[string]string{"type": "set", "omitted": f.Error, "message": "the change was made; " + f.Message})
}

// drop removes everything in a set or, with a context, what that context saw.
func (q *request) drop() error {
	d := door.Drop{Set: q.set}
	var err error
	if d.Quorum, err = q.writes(); err != nil {
		return err
	}
	if d.Context, err = q.token("context"); err != nil {
		return err
	}
	if len(d.Context) == 0 && q.query.Has("context") {
		return errEmpty
	}
	return q.dropped(d)
}

// dropSeen removes what the context in the body saw. A context in an address can be too long for it.
func (q *request) dropSeen() error {
	d := door.Drop{Set: q.set}
	var err error
	if d.Quorum, err = q.writes(); err != nil {
		return err
	}
	if err := q.takeElements(); err != nil {
		return err
	}
	if err := q.takeContext(); err != nil {
		return err
	}
	in := newInput(q.body, false)
	in.object("a drop", func(name string) bool {
		switch name {
		case "context":
			d.Context = in.context()
		case "type": // as in the answer that has the context
			if in.str(name) != "set" {
				in.fail("type is set")
			}
		default:
			return false
		}
		return true
	})
	if err := in.end(); err != nil {
		return err
	}
	if len(d.Context) == 0 {
		return badRequest("no context is given; DELETE without one removes everything")
	}
	return q.dropped(d)
}

func (q *request) dropped(d door.Drop) error {
	if err := q.mayBeSet(); err != nil {
		return err
	}
	dropped, err := q.s.sets.Drop(q.ctx, d)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, map[string]any{"type": "set", "left": dropped.Left})
}

// unheard reports whether an error says that no replica has heard of a set.
func unheard(err error) bool { return errors.Is(err, bigset.ErrNotFound) }
