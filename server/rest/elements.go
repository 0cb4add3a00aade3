package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"bigset/keyscheme"
	"bigset/server/door"
)

// Elements in a page.
const (
	pageDefault = 1000
	pageMost    = 10_000
)

// page answers with a part of a set: {"type":"set","context":...,"value":[...],"contexts":[...],"after":...}.
func (q *request) page() error {
	a := &whole{q: q}
	r, err := q.span()
	if err != nil {
		return err
	}
	if a.base64, err = q.inBase64(); err != nil {
		return err
	}
	if r.Limit, err = q.number("limit", pageDefault, 1, pageMost); err != nil {
		return err
	}
	if r.After, err = q.token("after"); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		to   *bool
	}{{"reverse", &r.Reverse}, {"contexts", &r.Contexts}, {"include_context", &r.Bare}} {
		if *f.to, err = q.flag(f.name, false); err != nil {
			return err
		}
	}
	r.Bare = !r.Bare
	err = a.raw(`{"type":"set"`)
	var after door.Token
	if err == nil {
		after, err = a.elements(r, true)
	}
	if err == nil && len(after) > 0 {
		if err = a.raw(`,"after":`); err == nil {
			err = a.context(after)
		}
	}
	if err == nil {
		err = a.raw(`}`)
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}

// A stream is written streamBytes at a time. Before each write, the client's token is checked again.
const streamBytes = 32 << 10

// lines is an answer that is a stream of JSON values, one a line.
type lines struct {
	q *request
	b []byte
}

// begin begins the answer. Before that, an error is answered by a status.
func (l *lines) begin() {
	l.q.begun = true
	l.q.w.Header().Set("Content-Type", typeLines)
}

// ended ends a line. It returns an error if the client has gone, or is no longer permitted.
func (l *lines) ended() error {
	l.b = append(l.b, '\n')
	if len(l.b) < streamBytes {
		return nil
	}
	if err := l.q.grant.Check(l.q.route.verb, l.q.set); err != nil {
		l.b = l.b[:0] // the client may not see what was collected since
		return err
	}
	return l.flush()
}

// context begins the answer with the context of a set. A long one takes from the memory of all long answers until it is written.
func (l *lines) context(t door.Token) error {
	n := int64(0)
	if len(t) > bodyBytesKept {
		n = (contextCopies + 1) * int64(len(t)) // and the answer
	}
	if err := l.q.take(n); err != nil {
		return err
	}
	l.begin()
	l.b = append(append(append(l.b, `{"type":"set","context":"`...), t.Text()...), `"}`...)
	err := l.ended()
	if cap(l.b) > 2*streamBytes {
		l.b = nil
	}
	l.q.give(n)
	return err
}

// errGone reports that the client takes no more.
var errGone = errors.New("rest: the client is gone")

func (l *lines) flush() error {
	control := http.NewResponseController(l.q.w)
	_ = control.SetWriteDeadline(time.Now().Add(l.q.s.opt.WriteTime))
	if _, err := l.q.w.Write(l.b); err != nil {
		return errGone
	}
	l.b = l.b[:0]
	if err := control.Flush(); err != nil {
		return errGone
	}
	return nil
}

// last ends the answer, with the number of values or with an error, so that the client knows whether it has everything.
func (l *lines) last(n uint64, err error) error {
	if errors.Is(err, errGone) || l.q.r.Context().Err() != nil {
		return nil
	}
	if err != nil {
		l.q.fail(err) // fail counts the error
		f := l.q.failureOf(err)
		l.b = append(appendText(append(appendText(append(l.b, `{"error":`...), f.Error), `,"message":`...), f.Message), "}\n"...)
	} else {
		l.b = fmt.Appendf(l.b, `{"done":true,"count":%d}`+"\n", n)
	}
	_ = l.flush()
	return nil
}

// streamElements answers with a set of any size, or a range of it.
func (q *request) streamElements() error {
	r, err := q.span()
	if err != nil {
		return err
	}
	if r.Limit, err = q.number("limit", 0, 1, 1<<31-1); err != nil {
		return err
	}
	if r.Reverse, err = q.flag("reverse", false); err != nil {
		return err
	}
	if r.Contexts, err = q.flag("contexts", false); err != nil {
		return err
	}
	if r.Contexts {
		r.Batch = door.ContextsMax
	}
	l, n := &lines{q: q}, uint64(0)
	for part, err := range q.s.sets.Read(q.ctx, r) {
		if err != nil {
			if !q.begun {
				return err
			}
			return l.last(n, err)
		}
		if !q.begun {
			if err := l.context(part.Context); err != nil {
				if !q.begun {
					return err
				}
				return l.last(n, err)
			}
		}
		for i := range part.Elements {
			e := &part.Elements[i]
			l.b = appendField(append(l.b, '{'), "element", e.Name)
			if r.Contexts {
				l.b = append(l.b, `,"context":"`+e.Context.Text()+`"`...)
			}
			l.b = append(l.b, '}')
			n++
			if err := l.ended(); err != nil {
				return l.last(n, err)
			}
		}
	}
	if !q.begun {
		l.begin()
	}
	return l.last(n, nil)
}

// count answers with the number of elements: {"type":"set","count":n}.
func (q *request) count() error {
	r, err := q.span()
	if err != nil {
		return err
	}
	r.Bare = true
	c, err := q.s.sets.Count(q.ctx, r)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, map[string]any{"type": "set", "count": c.Elements})
}

// contains answers whether a set contains the elements named in the path.
func (q *request) contains() error {
	q.param("element")
	var elements [][]byte
	for _, e := range q.query["element"] {
		if len(e) > keyscheme.ElementBytesMax {
			return badRequest("element has %d bytes, at most %d", len(e), keyscheme.ElementBytesMax)
		}
		elements = append(elements, []byte(e))
	}
	if len(elements) == 0 {
		return badRequest("no element is given: ?element=A&element=B")
	}
	return q.present(elements)
}

// containsMany answers whether a set contains the elements of the body.
func (q *request) containsMany() error {
	elements, err := q.elements("elements")
	if err != nil {
		return err
	}
	return q.present(elements)
}

// present answers, in the order of the elements: {"type":"set","present":[...],"contexts":[...]}.
func (q *request) present(elements [][]byte) error {
	with, err := q.flag("contexts", false)
	if err != nil {
		return err
	}
	r, err := q.reads()
	if err != nil {
		return err
	}
	a := &whole{q: q}
	err = a.raw(`{"type":"set","present":[`)
	kept, most := contexts{q: q}, door.BatchMax
	if with {
		most = door.ContextsMax
	}
	for first := true; len(elements) > 0 && err == nil; {
		some := elements[:min(len(elements), most)]
		elements = elements[len(some):]
		found, e := q.s.sets.Subset(q.ctx, door.Subset{Set: q.set, Elements: some, R: r, Bare: !with})
		if e != nil {
			return e
		}
		for i := range found {
			if !first && err == nil {
				err = a.raw(",")
			}
			first = false
			if err == nil {
				err = a.raw(strconv.FormatBool(found[i].Present))
			}
			if with && err == nil {
				err = kept.add(found[i].Context)
			}
		}
	}
	if err == nil {
		err = a.raw("]")
	}
	if err == nil && with {
		err = a.contexts(kept.list)
	}
	if err == nil {
		err = a.raw("}")
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}

// context answers with the context of a whole set of any size.
func (q *request) context() error {
	r, err := q.reads()
	if err != nil {
		return err
	}
	t, err := q.s.sets.Context(q.ctx, q.set, r)
	if err != nil {
		return err
	}
	a := &whole{q: q}
	err = a.raw(`{"type":"set","context":`)
	if err == nil {
		err = a.context(t)
	}
	if err == nil {
		err = a.raw("}")
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}

// figures are the figures of a set as the replicas know it together.
type figures struct {
	Type           string `json:"type"`
	Live           uint64 `json:"live"`
	Seen           uint64 `json:"seen"`
	Dead           uint64 `json:"dead"`
	Actors         uint64 `json:"actors"`
	Gaps           uint64 `json:"gaps"`
	ClockBytes     uint64 `json:"clock_bytes"`
	TombstoneBytes uint64 `json:"tombstone_bytes"`
	Here           any    `json:"here,omitempty"` // what this node's disk contains of it
}

// stats answers with figures of a set.
func (q *request) stats() error {
	r, err := q.reads()
	if err != nil {
		return err
	}
	here, err := q.flag("here", false)
	if err != nil {
		return err
	}
	st, err := q.s.sets.Stats(q.ctx, q.set, r)
	if err != nil {
		return err
	}
	f := figures{"set", st.Live, st.Seen, st.Dead, st.Actors, st.Gaps, st.ClockBytes, st.TombstoneBytes, nil}
	if here && q.s.opt.About.Here != nil {
		if f.Here, err = q.s.opt.About.Here(q.ctx, q.set); err != nil && !unheard(err) {
			return err
		}
	}
	return q.json(http.StatusOK, &f)
}
