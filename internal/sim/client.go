package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
)

// view is what a read or a look-up has shown: contexts for later operations.
type view struct {
	whole    bigset.Context
	elements map[string]bigset.Context
}

// quorum returns the quorum of a step.
func (c *cluster) quorum(t *step) coord.Quorum {
	q := coord.Quorum{N: len(c.members), R: t.args["r"], W: t.args["w"], DW: t.args["dw"]}
	if s := c.script.settings(); c.script.epochs() { // a cluster stores what is written with its own W, and reads with its own R
		q = coord.Quorum{N: s.N, R: min(max(s.R, q.R), s.N), W: min(max(s.W, q.W), s.N), DW: q.DW}
		if q.DW > 0 {
			q.DW = q.W
		}
	}
	if q.DW == 0 {
		q.DW = coord.None
	}
	return q
}

// context returns the context of an operation: none if the step that should have shown it has not.
func (c *cluster) context(o stepOp) bigset.Context {
	v := c.views[o.from]
	switch {
	case v == nil:
		return bigset.Context{}
	case o.whole:
		return v.whole
	}
	return v.elements[o.element]
}

// write adds and removes elements, and tries again what may have happened.
func (c *cluster) write(t *step) {
	w := coord.Write{Set: c.set, Quorum: c.quorum(t)}
	for _, o := range t.ops {
		op := bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(o.element), Context: c.context(o)}
		if o.verb == "remove" {
			op.Kind = keyscheme.OpRemove
		}
		w.Ops = append(w.Ops, op)
	}
	c.stats.Operations += len(w.Ops)
	if t.args["id"] > 0 {
		w.Request = fmt.Append(nil, "request ", t.n)
		c.requests[string(w.Request)] = &requested{lives: c.lives()}
	}
	send := func(try int) error {
		began := c.facts.loss
		p := c.coordinator(t, try)
		r, err := c.writeBy(p, w)
		err = p.answers(err)
		c.answered(t, p, r, err, w.Quorum, began)
		return err
	}
	for try := 0; ; try++ {
		beside := c.turns.NewSignal()
		if try == 1 && t.args["id"] == idTwice {
			c.count("retries at once")
			c.turns.Go(func() {
				c.turns.Sleep(time.Duration(t.n%2) * time.Millisecond)
				_ = send(try + 1)
				beside.Set()
			})
		} else {
			beside.Set()
		}
		err := send(try)
		_ = beside.Wait(context.Background())
		if w.Retry = true; try == 2 || w.Request == nil || !errors.Is(err, coord.ErrUnknown) {
			return
		}
		c.count("retried")
	}
}

// idTwice is the argument id of a write whose first retry is sent by two coordinators at once.
const idTwice = 2

// requested is a request with an id: the first event that it has become, and the lives of all members when it was sent first.
type requested struct {
	event clock.Dot
	lives int
}

// lives returns the number of lives that all members have had.
func (c *cluster) lives() (n int) {
	for _, m := range c.members {
		n += m.lives
	}
	return n
}

// once records what a request has become. However often it is sent, and whichever replicas do it, that is one event, unless a crash may have taken it back.
func (c *cluster) once(d bigset.Delta) {
	r := c.requests[string(d.Request)]
	switch {
	case r == nil || len(d.Items) == 0:
	case r.event == clock.Dot{}:
		r.event = dotOf(d, 0)
	case r.event != dotOf(d, 0) && r.lives == c.lives():
		c.facts.violated(convergence.TagReused, "%s is %s, and was %s before", d.Request, c.names.dot(dotOf(d, 0)), c.names.dot(r.event))
	}
}

// togetherTime is how long a door waits for more writes, in the schedules in which it does.
const togetherTime = 200 * time.Millisecond

// writeBy gives a write to a coordinator: by itself or, in each fourth schedule of members, together with those that clients send it in the same moment.
func (c *cluster) writeBy(p *process, w coord.Write) (r coord.Result, err error) {
	if !c.script.epochs() || c.script.seed%groupsOf != 2 {
		return p.Write(context.Background(), w)
	}
	answered := c.turns.NewSignal()
	p.door = append(p.door, coord.WriteCall{Context: context.Background(), Write: w, Done: func(result coord.Result, failed error) {
		r, err = result, failed
		answered.Set()
	}})
	if len(p.door) == 1 {
		c.turns.Go(func() {
			c.turns.Sleep(togetherTime)
			all := p.door
			p.door = nil
			p.WriteMany(all)
		})
	}
	if waited := answered.Wait(context.Background()); waited != nil {
		return r, waited
	}
	return r, err
}

// drop deletes the whole set.
func (c *cluster) drop(t *step) {
	c.stats.Operations++
	q, began := c.quorum(t), c.facts.loss
	p := c.coordinator(t, 0)
	r, err := p.Drop(context.Background(), coord.Drop{Set: c.set, Quorum: q})
	c.answered(t, p, r, p.answers(err), q, began)
}

// errEnded says that a coordinator has ended before it could answer.
var errEnded = errors.New("sim: the coordinator has ended")

// answers returns the error of an operation as its client sees it: a process that has ended sends no answers.
func (p *process) answers(err error) error {
	if p.dead {
		return fmt.Errorf("%w: %w", coord.ErrUnknown, errEnded)
	}
	return err
}

// answered records the answer to a change. A replica that has lost its disk since may have been one of those that have the change.
func (c *cluster) answered(t *step, p *process, r coord.Result, err error, q coord.Quorum, began loss) {
	switch {
	case err == nil:
		c.count("acknowledged")
		t.note = "acknowledged: " + c.names.describe(r.Delta)
		firm := q.DW != coord.None
		if c.facts.kept { // also in members that are wiped: they get it from the others
			c.facts.promise(r.Delta, q.W, firm)
			if firm {
				p.told = append(p.told, told{Delta: r.Delta})
			}
			return
		}
		if w := q.W - (c.facts.loss.wipes - began.wipes); w > 0 && (firm || c.facts.loss == began) {
			c.facts.promise(r.Delta, w, firm)
		}
	case errors.Is(err, coord.ErrUnknown):
		c.count("unknown")
		t.note = fmt.Sprint("may have happened: ", err)
	default:
		t.note = err.Error()
		c.failed("change", err)
	}
}

// describe says what a delta does.
func (n *names) describe(d bigset.Delta) string {
	if !d.Clear.Empty() {
		return n.clock(d.Clear) + " is dead"
	}
	text := "nothing"
	for i, it := range d.Items {
		if i == 0 {
			text = ""
		}
		text += fmt.Sprintf("[%s of %s kills %s]", n.dot(dotOf(d, i)), it.Element, n.dots(it.Context))
	}
	return text
}

// failed records an error that says that nothing was done.
func (c *cluster) failed(what string, err error) {
	for _, expected := range []error{coord.ErrNoQuorum, coord.ErrUnknown, coord.ErrClosed, coord.ErrUnsettled, bigset.ErrBehind, bigset.ErrNotFound, peer.ErrUnavailable,
		bigset.ErrNoFilter, bigset.ErrFilterOpen, door.ErrUnavailable, door.ErrUnknown} {
		if errors.Is(err, expected) {
			c.count("no " + what)
			return
		}
	}
	c.facts.violated(convergence.Failed, "%s: %v", what, err)
}

// read reads the set from a quorum.
func (c *cluster) read(t *step) {
	c.stats.Operations++
	q := c.quorum(t)
	ask := c.facts.ask(q.N, q.R)
	v := &view{elements: map[string]bigset.Context{}}
	var shown []fold.Element
	o := bigset.ReadOptions{BatchSize: t.args["batch"]}
	p := c.coordinator(t, 0)
	for part, err := range p.Read(context.Background(), coord.Read{Set: c.set, Options: o, Quorum: q}) {
		if err = p.answers(err); err != nil && !errors.Is(err, bigset.ErrNotFound) {
			t.note = err.Error()
			c.failed("read", err)
			return
		}
		shown = append(shown, part.Elements...)
		if part.Context != nil {
			v.whole = bigset.SawAll(part.Context)
		}
	}
	for _, el := range shown {
		v.elements[string(el.Name)] = bigset.Saw(el.Dots...)
	}
	c.shown(t, v, shown)
	c.count("read")
	ask.answered(shown, nil)
}

func (c *cluster) shown(t *step, v *view, shown []fold.Element) {
	c.views[t.n] = v
	t.note = "shows"
	for _, el := range shown {
		t.note += fmt.Sprintf(" %s%s", el.Name, c.names.dots(el.Dots))
	}
}

// lookup asks a quorum for elements.
func (c *cluster) lookup(t *step) {
	q := c.quorum(t)
	c.stats.Operations += len(t.ops)
	ask := c.facts.ask(q.N, q.R)
	var about []string
	l := coord.Lookup{Set: c.set, Quorum: q}
	for _, o := range t.ops {
		about = append(about, o.element)
		l.Elements = append(l.Elements, []byte(o.element))
	}
	p := c.coordinator(t, 0)
	found, err := p.Lookup(context.Background(), l)
	if err = p.answers(err); err != nil {
		t.note = err.Error()
		c.failed("lookup", err)
		return
	}
	v := &view{elements: map[string]bigset.Context{}}
	var shown []fold.Element
	for i, known := range found {
		shown = append(shown, fold.Element{Name: l.Elements[i], Dots: known.Dots})
		v.elements[about[i]] = known
	}
	c.shown(t, v, shown)
	c.count("lookup")
	ask.answered(shown, about)
}

// gossip makes two replicas exchange what they have, through links that may fail.
func (c *cluster) gossip(t *step) {
	slot, links := keyscheme.SetSlot(c.set), c.coordinator(t, 0).links
	a, b := links[t.args["at"]], links[t.args["with"]]
	if a == b {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer c.turns.After(operationLimit, cancel)()
	defer cancel()
	e, err := coord.Exchange(ctx, a, b, slot, slot)
	if e.Lost > 0 {
		c.facts.violated(convergence.Failed, "exchange of %s and %s: %+v", a.node, b.node, e)
	}
	t.note = fmt.Sprintf("%d keys and %d deaths were new", e.Keys, e.Dead)
	if err != nil {
		t.note += ", " + err.Error()
	}
}
