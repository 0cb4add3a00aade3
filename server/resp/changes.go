package resp

import (
	"context"
	"fmt"
	"time"

	"bigset/server/door"
	"bigset/server/tokens"
)

// changesArgs reads what follows the key of BS.CHANGES.
func changesArgs(q *door.Changes, args [][]byte) (err error) {
	if q.Since, err = token(args[0]); err != nil {
		return err
	}
	for w := (options{form: &changesForm, args: args[1:]}); len(w.args) > 0; {
		word, value, err := w.next()
		if err != nil {
			return err
		}
		switch word {
		case "LIMIT":
			q.Limit, err = numberOf(word, value, 1)
		case "WAIT":
			var ms int
			ms, err = numberOf(word, value, 0)
			q.Wait = time.Duration(ms) * time.Millisecond
		case "R":
			q.R, err = numberOf(word, value, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bsChanges answers what was added and removed since a token, as a map: added and removed are elements, each with its dots, dead are dots whose elements are not known.
func (c *conn) bsChanges(ctx context.Context, args [][]byte) {
	c.MayWait()
	q := door.Changes{Set: nameOf(args[1]), Limit: pageDefault, Part: c.nextPart}
	err := c.s.forSet(ctx, args[1])
	if err == nil {
		err = changesArgs(&q, args[2:])
	}
	a := newChanged(c)
	defer a.release()
	if err == nil && q.Wait > 0 { // nobody needs the answer of a client that has gone
		var stop func()
		q.Until, stop = c.UntilGone()
		defer stop()
	}
	if err == nil {
		c.s.counters.waiting.Add(1)
		err = a.take(ctx, q)
		c.s.counters.waiting.Add(-1)
	}
	if err == nil && !c.grant.Free() { // it may have waited for a while
		err = c.grant.Check(tokens.Read, q.Set)
	}
	if err != nil {
		c.failed("bs.changes", args[1], err)
		return
	}
	a.answer()
}

// changed is an answer of BS.CHANGES.
type changed struct {
	c                    *conn
	added, removed, dead *gathered
	counts               [3]int
	reset                string
	last                 door.Changed
}

// newChanged returns an empty answer. Its parts have one limit together.
func newChanged(c *conn) *changed {
	a := &changed{c: c, added: c.gather("bs.changes"), removed: c.gather("bs.changes"), dead: c.gather("bs.changes")}
	a.removed.bytes, a.dead.bytes = a.added.bytes, a.added.bytes
	for _, g := range []*gathered{a.added, a.removed, a.dead} {
		g.refuse = func() error {
			return refusal(fmt.Sprintf("ERR the answer to BS.CHANGES has more than %d bytes; ask with a lower LIMIT", g.most))
		}
	}
	return a
}

func (a *changed) release() {
	a.added.release()
	a.removed.release()
	a.dead.release()
}

// take gathers the parts of the answer.
func (a *changed) take(ctx context.Context, q door.Changes) error {
	defer a.c.EndParts()
	for part, err := range a.c.s.sets.Changes(ctx, q) {
		if err != nil {
			return err
		}
		if part.Reset != "" {
			a.reset = part.Reset
		}
		if err := a.dotted(a.added, &a.counts[0], part.Added); err != nil {
			return err
		}
		if err := a.dotted(a.removed, &a.counts[1], part.Removed); err != nil {
			return err
		}
		if part.Dead != nil {
			for run := range part.Dead.Runs() {
				if err := a.dead.bulk(fmt.Appendf(nil, "%x:%d-%d", string(run.Actor), run.First, run.Last)); err != nil {
					return err
				}
				a.counts[2]++
			}
		}
		if a.last = part; !part.Done {
			a.c.nextPart()
		}
	}
	return nil
}

// dotted gathers elements, each as an array that begins with its name.
func (a *changed) dotted(g *gathered, n *int, all []door.Dotted) error {
	for i := range all {
		head, err := g.room(bulkBytes)
		if err != nil {
			return err
		}
		head = appendHeader(head, a.c.proto, typeArray, 1+len(all[i].Dots))
		g.last = g.last[:len(g.last)+len(head)]
		if err := g.bulk(all[i].Name); err != nil {
			return err
		}
		for _, d := range all[i].Dots {
			if err := g.bulk([]byte(d.String())); err != nil {
				return err
			}
		}
		*n++
	}
	return nil
}

func (a *changed) answer() {
	c := a.c
	c.header(typeMap, 8)
	c.text("reset")
	if a.reset == "" {
		c.null()
	} else {
		c.text(a.reset)
	}
	for i, g := range []*gathered{a.added, a.removed, a.dead} {
		c.text([]string{"added", "removed", "dead"}[i])
		c.header(typeArray, a.counts[i])
		g.send(c)
	}
	c.text("next")
	c.token(a.last.Next)
	c.text("expires")
	c.int(int64(a.last.Expires / time.Second))
	c.text("more")
	c.bit(a.last.More)
	c.text("unconfirmed")
	c.int(int64(a.last.Unconfirmed))
}
