package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
)

const (
	// setsListed is how many sets are listed at a time.
	setsListed = 512
	// factsKeysMax is the largest number of keys for which a chunk is applied as facts, which are synced later, for many sets at once.
	factsKeysMax = 1000
	// stepsUnnoted is how many small sets are done between two notes of the progress.
	stepsUnnoted = 64
	// roundsMax is how often, at the end of a set, the sender is asked for keys that were live a moment ago. If some of them die in each
	// round, the deaths are taken without the keys that replaced them: those arrive by deltas.
	roundsMax = 8
)

// Copy is a copy of a range from one sender in progress.
type Copy struct {
	m        *Mover
	from     Sender
	node     string
	self     peer.Member
	progress *handoff.Progress
	resumed  bool
	sets     [][]byte      // the next listed sets
	moment   *bigset.State // the sender's, for the set whose chunks have all arrived
	round    int
	unnoted  int
	slices   slicing
	ahead    *export
	began    time.Time
	report   Report
}

// Start begins a copy, or continues one that the receiver has a note of. It does not ask the sender yet.
func (m *Mover) Start(ctx context.Context, from Sender, slots handoff.Range) (*Copy, error) {
	sender := from.Member()
	c := &Copy{m: m, from: from, node: sender.Node, self: m.to.Member(), began: m.opt.Now()}
	noted, err := m.to.Note(ctx, c.note(slots))
	if err != nil {
		return nil, err
	}
	if noted = c.ofEpoch(noted); noted != nil {
		if c.progress, err = handoff.Decode(noted); err != nil { // damaged: start again
			c.progress = nil
		}
	}
	was := c.progress
	c.progress = was.Resume(source(sender), slots)
	c.resumed = was != nil && c.progress == was
	c.report.From, c.report.Slots = sender, slots
	return c, nil
}

// Resumed reports whether the copy continues an earlier one.
func (c *Copy) Resumed() bool { return c.resumed }

// Stop discards a chunk read ahead.
func (c *Copy) Stop() { c.dropAhead() }

func (c *Copy) note(slots handoff.Range) string {
	return fmt.Sprintf("copy %08x-%08x %s", uint32(slots.First), uint32(slots.Last), c.node)
}

// ofEpoch returns the progress in a note, or nil if the note is of another epoch.
func (c *Copy) ofEpoch(note []byte) []byte {
	if c.m.opt.Epoch == 0 {
		return note
	}
	if rest, ok := bytes.CutPrefix(note, c.epoch()); ok {
		return rest
	}
	return nil
}

// epoch is the prefix of a note: empty without a map.
func (c *Copy) epoch() []byte {
	if c.m.opt.Epoch == 0 {
		return nil
	}
	return fmt.Appendf(nil, "epoch %d\n", c.m.opt.Epoch)
}

func source(m peer.Member) handoff.Source {
	return handoff.Source{Node: m.Node, Incarnation: m.Incarnation}
}

// Report returns how far the copy has come.
func (c *Copy) Report() Report {
	c.report.Elapsed = c.m.opt.Now().Sub(c.began)
	return c.report
}

// Step does a part of the copy: it lists sets, takes a chunk, or asks for what is missing; or it does the same for slices of filters. It
// reports true when nothing is left to do. After an error other than ErrReceiver the step may be tried again. If a node other than the one
// asked answers, the error is peer.ErrSender and nothing has changed.
func (c *Copy) Step(ctx context.Context) (done bool, err error) {
	if !c.m.to.Member().Is(c.self) {
		return false, fmt.Errorf("%w: now %v", ErrReceiver, c.m.to.Member())
	}
	done, err = c.step(ctx)
	if errors.Is(err, errRestart) {
		c.dropAhead()
		member := c.from.Member()
		c.progress = c.progress.Resume(source(member), c.progress.Slots())
		c.sets, c.moment, c.round, c.slices = nil, nil, 0, slicing{}
		c.report.From = member
		c.report.Restarts++
		done, err = false, nil
	}
	c.report.Owed = len(c.progress.Owed())
	if c.m.opt.Report != nil && err == nil {
		c.m.opt.Report(c.Report())
	}
	return done, err
}

// errRestart reports that the sender answers in another incarnation.
var errRestart = errors.New("transfer: the sender is in another incarnation")

// is checks which member has answered.
func (c *Copy) is(m peer.Member) error {
	return answers(m, c.progress.From(), c.from.Member())
}

func (c *Copy) step(ctx context.Context) (done bool, err error) {
	sender := c.from.Member()
	if err := c.is(sender); err != nil {
		return false, err
	}
	if sender.State != peer.Normal { // its Seen may be incomplete
		return false, fmt.Errorf("%w: %v", peer.ErrJoining, sender)
	}
	if len(c.sets) == 0 && !c.slices.begun {
		if c.sets, err = c.list(ctx); err != nil {
			return false, err
		}
		if len(c.sets) == 0 {
			c.slices.begin(c.progress.Slots())
		}
	}
	if c.slices.begun {
		if done, err := c.sliceStep(ctx); !done || err != nil {
			return false, err
		}
		return c.end(ctx)
	}
	set := c.sets[0]
	after, whole, err := c.progress.Begin(set)
	if err != nil {
		return false, err
	}
	c.report.Set, c.report.Slot = set, keyscheme.SetSlot(set)
	if whole {
		err = c.finish(ctx, set)
	} else if after != nil || c.isAhead(set) {
		err = c.chunk(ctx, set, after)
	} else if known, err2 := c.known(ctx, set); err2 != nil {
		err = err2
	} else if !known {
		err = c.chunk(ctx, set, after)
	}
	if errors.Is(err, bigset.ErrNotFound) { // it was listed, and has gone since
		c.dropAhead()
		c.sets, c.moment = c.sets[1:], nil
		return false, nil
	}
	return false, err
}

// list returns the next sets of the sender that are not done.
func (c *Copy) list(ctx context.Context) (sets [][]byte, err error) {
	for d, err := range c.from.Digests(ctx, c.progress.Next(), c.progress.Slots().Last) {
		if err != nil {
			return nil, err
		}
		if c.progress.Wants(d.Name) {
			sets = append(sets, d.Name)
		}
		if len(sets) == setsListed {
			break
		}
	}
	return sets, nil
}

// known finishes a set that needs no copy.
func (c *Copy) known(ctx context.Context, set []byte) (bool, error) {
	here, _, err := c.m.to.State(ctx, set)
	if errors.Is(err, bigset.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	there, m, err := c.from.State(ctx, set)
	if err := errors.Join(err, c.is(m)); err != nil {
		return false, err
	}
	if !handoff.Due(there.Seen, there.Dead, here.Seen).Empty() {
		return false, nil
	}
	if err := c.progress.Took(handoff.Chunk{From: source(m), Set: set, Done: true, Seen: there.Seen}); err != nil {
		return false, err
	}
	c.moment, c.round = &there, 0
	return true, nil
}

// chunk takes one chunk.
func (c *Copy) chunk(ctx context.Context, set, after []byte) error {
	portion, m, err := c.export(ctx, set, after)
	if err := errors.Join(err, c.is(m)); err != nil {
		return err
	}
	ch := handoff.Chunk{From: source(m), Set: portion.Set, Bound: portion.Bound, Done: portion.Done, Seen: portion.Seen}
	if err := c.progress.Check(ch); err != nil {
		return err
	}
	if portion.Done && (portion.Seen == nil || portion.Dead == nil) {
		return fmt.Errorf("%w: the last chunk of %.64q has no clocks", handoff.ErrOrder, set)
	}
	n := len(portion.Keys)
	for _, clk := range []*clock.Clock{portion.Seen, portion.Dead} {
		if clk != nil {
			n += len(clk.Append(nil))
		}
	}
	moment := &bigset.State{Seen: portion.Seen, Dead: portion.Dead}
	if after != nil || !portion.Done { // otherwise keys and deaths are of one moment and are taken together
		portion.Dead = nil
	}
	switch {
	case !c.m.opt.Ahead:
	case !portion.Done:
		c.readAhead(ctx, set, portion.Bound)
	case len(c.sets) > 1:
		if err := c.readNext(ctx, c.sets[1]); err != nil {
			return err
		}
	}
	if err := c.take(ctx, portion, n); err != nil {
		return err
	}
	c.report.Bytes += uint64(n)
	c.report.Elements += uint64(portion.Count)
	if err := c.progress.Took(ch); err != nil {
		return err
	}
	if portion.Done {
		c.moment, c.round = moment, 0
		return nil
	}
	return c.save(ctx, bigset.NoSync)
}

// take brings a chunk of n bytes into the receiver.
func (c *Copy) take(ctx context.Context, portion *bigset.Portion, n int) error {
	if portion.Count <= factsKeysMax {
		f, err := portion.Facts()
		if err == nil {
			err = c.m.pace.take(ctx, n)
		}
		if err != nil {
			return err
		}
		return c.apply(ctx, f)
	}
	taken := 0
	r, _, err := c.m.to.Ingest(ctx, portion, func(ctx context.Context, part float64) error {
		was := taken
		taken = int(part * float64(n))
		return c.m.pace.take(ctx, taken-was)
	})
	if err == nil {
		err = c.m.pace.take(ctx, n-taken) // what was not written part by part
	}
	return c.applied(r, err)
}

func (c *Copy) apply(ctx context.Context, f bigset.Facts) error {
	if f.Empty() {
		return nil
	}
	r, _, err := c.m.to.ApplyFacts(ctx, f, bigset.NoSync)
	return c.applied(r, err)
}

func (c *Copy) applied(r bigset.FactsResult, err error) error {
	c.report.Keys += r.Keys
	c.report.Dead += r.Dead
	return err
}

// seen returns what the receiver has seen of a set.
func (c *Copy) seen(ctx context.Context, set []byte) (*clock.Clock, error) {
	s, _, err := c.m.to.State(ctx, set)
	if errors.Is(err, bigset.ErrNotFound) {
		return &clock.Clock{}, nil
	}
	return s.Seen, err
}

// finish does a round at the end of a set. It fetches by dot what was live at the sender at a moment and has not been seen here. When
// nothing is due any more, it applies the deaths of that moment, and the set is done.
func (c *Copy) finish(ctx context.Context, set []byte) error {
	if c.moment == nil {
		there, m, err := c.from.State(ctx, set)
		if err := errors.Join(err, c.is(m)); err != nil {
			return err
		}
		c.moment = &there
	}
	seen, err := c.seen(ctx, set)
	if err != nil {
		return err
	}
	due := handoff.Due(c.moment.Seen, c.moment.Dead, seen)
	if !due.Empty() {
		if _, err := c.fetch(ctx, set, due); err != nil {
			return err
		}
		if seen, err = c.seen(ctx, set); err != nil {
			return err
		}
		if due.Subtract(seen); !due.Empty() && c.round < roundsMax {
			c.round++
			c.moment = nil
			return nil
		}
	}
	if err := c.apply(ctx, bigset.Facts{Set: set, Dead: c.moment.Dead}); err != nil {
		return err
	}
	if seen, err = c.seen(ctx, set); err != nil {
		return err
	}
	if _, err := c.progress.Finish(seen); err != nil {
		return err
	}
	c.sets, c.moment, c.round = c.sets[1:], nil, 0
	c.report.Sets++
	if c.unnoted++; c.unnoted < stepsUnnoted {
		return nil
	}
	return c.save(ctx, bigset.NoSync)
}

// fetch asks the sender for the keys of dots. It returns the deaths that the sender reported instead of keys.
func (c *Copy) fetch(ctx context.Context, set []byte, dots *clock.Clock) (dead *clock.Clock, err error) {
	dead = &clock.Clock{}
	for f, err := range c.from.Locate(ctx, set, dots) {
		if err != nil {
			return nil, err
		}
		if f.Dead != nil {
			dead.Union(f.Dead)
		}
		f.Dead = nil
		if err := c.apply(ctx, f); err != nil {
			return nil, err
		}
	}
	return dead, c.is(c.from.Member())
}

// end asks once more for what is owed, copies the sender's records of requests, and makes everything durable.
func (c *Copy) end(ctx context.Context) (bool, error) {
	for _, o := range c.progress.Owed() {
		if err := c.settle(ctx, o.Set); err != nil && !errors.Is(err, bigset.ErrNotFound) {
			return false, err
		}
	}
	if err := c.requests(ctx); err != nil {
		return false, err
	}
	if err := c.save(ctx, bigset.Sync); err != nil {
		return false, err
	}
	left := errors.Join(c.slices.left...)
	c.slices = slicing{}
	if err := c.progress.Incomplete(); err != nil {
		return true, errors.Join(err, left)
	}
	slots := c.progress.Slots()
	return true, errors.Join(c.m.to.SetNote(ctx, c.note(slots), slots.First, slots.Last, nil, bigset.NoSync), left)
}

// settle fetches what is missing of a set that is owed. Another sender may have brought it since.
func (c *Copy) settle(ctx context.Context, set []byte) error {
	seen, err := c.seen(ctx, set)
	if err != nil {
		return err
	}
	missing := c.progress.Settle(set, seen)
	if missing.Empty() {
		return nil
	}
	dead, err := c.fetch(ctx, set, missing)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, bigset.Facts{Set: set, Dead: dead}); err != nil {
		return err
	}
	if seen, err = c.seen(ctx, set); err == nil {
		c.progress.Settle(set, seen)
	}
	return err
}

// save notes the progress. Everything that the note describes was written before, so it is durable when the note is.
func (c *Copy) save(ctx context.Context, d bigset.Durability) error {
	c.unnoted = 0
	slots := c.progress.Slots()
	return c.m.to.SetNote(ctx, c.note(slots), slots.First, slots.Last, c.progress.Append(c.epoch()), d)
}
