package rest

import (
	"fmt"
	"time"

	"bigset/keyscheme"
	"bigset/server/door"
)

// waitMost is the longest wait for changes, in milliseconds.
const waitMost = 60_000

// changesSince answers what was added to a set and removed from it since a token, a JSON value a line.
func (q *request) changesSince() error {
	ask := door.Changes{Set: q.set}
	var err error
	if ask.R, err = q.reads(); err != nil {
		return err
	}
	if ask.Since, err = q.token("since"); err != nil {
		return err
	}
	if ask.Limit, err = q.number("limit", 0, 1, 1<<31-1); err != nil {
		return err
	}
	wait, err := q.number("wait", 0, 0, waitMost)
	if err != nil {
		return err
	}
	ask.Wait = time.Duration(wait) * time.Millisecond
	l, n := &lines{q: q}, uint64(0)
	for part, err := range q.s.sets.Changes(q.ctx, ask) {
		if err != nil && !q.begun {
			return err
		}
		if !q.begun {
			l.begin()
		}
		if err == nil {
			err = l.changed(&part, &n)
		}
		if err != nil {
			return l.last(n, err)
		}
		if part.Done {
			return l.lastChange(&part, n)
		}
	}
	return nil
}

// changed writes what a part says. Each line but that of a reset counts.
func (l *lines) changed(part *door.Changed, n *uint64) error {
	if part.Reset != "" {
		l.b = fmt.Appendf(l.b, `{"reset":%q}`, part.Reset)
		if err := l.ended(); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		name string
		all  []door.Dotted
	}{{"added", part.Added}, {"removed", part.Removed}} {
		for i := range list.all {
			l.b = append(appendField(append(l.b, '{'), list.name, list.all[i].Name), `,"dots":[`...)
			for k, d := range list.all[i].Dots {
				if k > 0 {
					l.b = append(l.b, ',')
				}
				l.b = fmt.Appendf(l.b, `"%v"`, d)
			}
			l.b = append(l.b, "]}"...)
			*n++
			if err := l.ended(); err != nil {
				return err
			}
		}
	}
	if part.Dead == nil {
		return nil
	}
	for run := range part.Dead.Runs() {
		l.b = fmt.Appendf(l.b, `{"dead":"%x:%d-%d"}`, string(run.Actor), run.First, run.Last)
		*n++
		if err := l.ended(); err != nil {
			return err
		}
	}
	return nil
}

// lastChange writes the last line, with the token with which to continue. Like every part of a stream it asks first whether the client's token still permits it.
func (l *lines) lastChange(part *door.Changed, n uint64) error {
	if err := l.q.grant.Check(l.q.route.verb, l.q.set); err != nil {
		l.b = l.b[:0]
		return l.last(n, err)
	}
	l.b = fmt.Appendf(l.b, `{"done":true,"count":%d,"next":"%s"`, n, keyscheme.EncodeText(part.Next))
	if part.Expires > 0 {
		l.b = fmt.Appendf(l.b, `,"expires":%d`, int(part.Expires/time.Second))
	}
	if part.More {
		l.b = append(l.b, `,"more":true`...)
	}
	if part.Unconfirmed > 0 {
		l.b = fmt.Appendf(l.b, `,"unconfirmed":%d`, part.Unconfirmed)
	}
	l.b = append(l.b, "}\n"...)
	_ = l.flush()
	return nil
}
