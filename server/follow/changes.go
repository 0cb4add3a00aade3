package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/door"
)

// Source is what replicas know of one set. What a function returns or yields may be kept, and must not change afterwards.
type Source struct {
	// State returns what R replicas know together; nothing of a set that they have never heard of.
	State func(ctx context.Context) (bigset.State, error)
	// Whole returns what all replicas that answer know together, and whether all have answered.
	Whole func(ctx context.Context) (s bigset.State, all bool, err error)
	// Locate calls f with keys and deaths of dots, in portions, by as many replicas as it takes. It need not find all. An error of f ends it.
	Locate func(ctx context.Context, dots *clock.Clock, f func(bigset.Facts) error) error
	// Read calls f with elements in order, those after one or, with nil, all. An error of f ends it.
	Read func(ctx context.Context, after []byte, f func([]fold.Element) error) error
	// Names returns elements that dead dots had, as far as they are known. Its first call, which is for no dots, comes after the token was
	// found good: the source begins to keep names then, and whatever else costs something.
	Names func(ctx context.Context, dots *clock.Clock) ([]fold.Element, error)
	// Changed waits until State may return something else than it did, or ctx ends. s is what it returned last.
	Changed func(ctx context.Context, s *bigset.State) error
}

// Bounds of one part of an answer, and of one that has a limit.
const (
	partElements = 1000
	partBytes    = 1 << 20
	partRuns     = 10_000
	limitedBytes = 8 << 20
	// WaitMax is the longest Changes.Wait.
	WaitMax = time.Minute
	// roundPause is how long a follower that waits pauses after a change that brought nothing for it.
	roundPause = 50 * time.Millisecond
)

// Changes answers what has happened since a token. The last part, and only that, is Done.
func (k *Kept) Changes(ctx context.Context, src Source, tokens *bigset.Tokens, q door.Changes) iter.Seq2[door.Changed, error] {
	return func(yield func(door.Changed, error) bool) {
		r := &run{ctx: ctx, kept: k, src: src, tokens: tokens, q: q, yield: yield, left: q.Limit, bytes: limitedBytes, unseen: &clock.Clock{}}
		if err := r.answer(); err != nil && !errors.Is(err, errStopped) {
			yield(door.Changed{}, err)
		}
	}
}

var (
	errStopped = errors.New("follow: the follower takes no more")
	errFull    = errors.New("follow: the answer is full")
)

// run is one answer.
type run struct {
	ctx    context.Context
	kept   *Kept
	src    Source
	tokens *bigset.Tokens
	q      door.Changes
	yield  func(door.Changed, error) bool

	seen, dead  *clock.Clock // of the position
	after       []byte       // where a listing continues
	listed      bool         // there is one
	id          []byte       // of the position with which the answer began, if it is kept
	asked       bigset.State // what R replicas know
	state       bigset.State // and, where the position has more, the others
	unconfirmed uint64
	unseen      *clock.Clock // dots that died before they could be given

	reset string
	part  door.Changed
	size  int // bytes of the part
	begun bool
	left  int // items that the answer may still have, if it is limited
	bytes int // and bytes
}

// answer reports what has happened.
func (r *run) answer() error {
	if r.q.Limit < 0 || r.q.Wait < 0 || r.q.Wait > WaitMax {
		return fmt.Errorf("%w: limit %d, wait %v (0 to %v)", bigset.ErrRequest, r.q.Limit, r.q.Wait, WaitMax)
	}
	if err := bigset.CheckName(r.q.Set); err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	if _, err := r.src.Names(r.ctx, &clock.Clock{}); err != nil { // the token is good: from now on names are kept
		return err
	}
	if err := r.look(); err != nil {
		return err
	}
	if err := r.wait(); err != nil {
		return err
	}
	switch err := r.report(); {
	case errors.Is(err, errFull):
		r.part.More = true
	case err != nil:
		return err
	}
	return r.last()
}

// open takes the token.
func (r *run) open() error {
	r.seen, r.dead = &clock.Clock{}, &clock.Clock{}
	if len(r.q.Since) == 0 {
		r.reset = door.ResetBegin
		return nil
	}
	at, err := r.tokens.Position(r.q.Since)
	if err != nil {
		return err
	}
	if len(at.ID) > 0 {
		id, here := at.ID, false
		if at, here = r.kept.find(r.ctx, r.q.Set, id); at == nil {
			r.reset = door.ResetExpired
			return nil
		}
		if here {
			r.id = id
		}
	}
	r.seen, r.dead = at.Seen.Clone(), at.Dead.Clone()
	r.listed, r.after = at.Listed, bytes.Clone(at.After)
	return nil
}

// look asks for the state, and judges the position by it.
func (r *run) look() (err error) {
	r.unconfirmed = 0
	r.asked, err = r.src.State(r.ctx)
	if r.state = r.asked; err != nil || r.covered() {
		return err
	}
	whole, all, err := r.src.Whole(r.ctx)
	if err != nil {
		return err
	}
	r.state = bigset.State{Seen: union(r.state.Seen, whole.Seen), Dead: union(r.state.Dead, whole.Dead)}
	switch {
	case r.covered():
	case all:
		r.reset, r.id = door.ResetLost, nil
		r.seen, r.dead, r.listed, r.after = &clock.Clock{}, &clock.Clock{}, false, nil
	default:
		r.unconfirmed = difference(r.seen, r.state.Seen).Len() + difference(r.dead, r.state.Dead).Len()
	}
	return nil
}

// covered reports whether the replicas know all that the follower was given.
func (r *run) covered() bool {
	return r.state.Seen.Descends(r.seen) && r.state.Dead.Descends(r.dead)
}

// lacking returns the dots that are live and that the follower was not given. Dots that were dead once stay dead.
func (r *run) lacking() *clock.Clock {
	dots := difference(r.state.Seen, r.state.Dead)
	dots.Subtract(r.seen)
	dots.Subtract(r.dead)
	return dots
}

// wait waits for something to report.
func (r *run) wait() error {
	if r.q.Wait == 0 || r.reset != "" || !r.idle() {
		return nil // a reset is something to report
	}
	shared, leave, err := r.kept.enter(&r.q)
	if err != nil {
		return err
	}
	defer leave()
	defer r.resume()
	ctx, cancel := context.WithTimeout(r.ctx, r.q.Wait)
	defer cancel()
	defer context.AfterFunc(r.kept.untilStop(), cancel)()
	if r.q.Until != nil {
		defer context.AfterFunc(r.q.Until, cancel)()
	}
	for round := 0; r.idle(); round++ {
		r.rest(shared)
		if err := r.news(ctx, round); err != nil {
			if ctx.Err() != nil && r.ctx.Err() == nil { // nothing has happened, or the node stops
				return nil
			}
			return err
		}
		if err := r.look(); err != nil || r.reset != "" {
			return err
		}
	}
	return nil
}

// rest makes the position that of the state, which all that wait share, if the follower has nothing to learn from it. So many that wait take the memory of one.
func (r *run) rest(shared *asking) {
	r.asked = shared.same(r.asked)
	if !r.asked.Seen.Descends(r.seen) || !r.asked.Dead.Descends(r.dead) {
		return // others know more: that is a state and a position of its own
	}
	r.state = r.asked
	r.seen, r.dead = r.asked.Seen, r.asked.Dead
}

// resume makes the position the follower's own again.
func (r *run) resume() { r.seen, r.dead = r.seen.Clone(), r.dead.Clone() }

// news rests until the state may have changed.
func (r *run) news(ctx context.Context, round int) error {
	if r.q.Rest != nil {
		defer r.q.Rest()() // to look costs something, also when many wait for the same change
	}
	err := r.src.Changed(ctx, &r.asked)
	if err == nil && round > 0 { // replicas that answer by turns may differ each time
		err = sleep(ctx, roundPause)
	}
	return err
}

// idle reports whether there is nothing to report.
func (r *run) idle() bool { return !r.listed && r.lacking().Empty() && r.died().Empty() }

// sleep waits for a while, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// report gives what was added, then what is dead, and takes all of the state into the position.
func (r *run) report() error {
	want := r.lacking()
	if r.listed || want.Len() > r.kept.locateDots() && (r.q.Limit > 0 || want.Len()*4 >= difference(r.state.Seen, r.state.Dead).Len()) {
		if err := r.list(); err != nil {
			return err
		}
		want = r.lacking()
	}
	if err := r.locate(want); err != nil {
		return err
	}
	return r.reportDead()
}

// list gives the elements of the set in order, from where the listing was, without dots that the follower was given before.
func (r *run) list() error {
	r.listed = true
	first := true
	err := r.src.Read(r.ctx, r.after, func(elements []fold.Element) error {
		if !first && r.q.Part != nil {
			r.q.Part()
		}
		first = false
		for i := range elements {
			if err := r.add(&elements[i], nil); err != nil {
				return err
			}
			r.after = elements[i].Name
		}
		return nil
	})
	if errors.Is(err, bigset.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	r.listed, r.after = false, nil
	return nil
}

// locate gives the elements of dots. All of them have to be found, or to have died.
func (r *run) locate(want *clock.Clock) error {
	if want.Empty() {
		return nil
	}
	open := want.Clone()
	err := r.src.Locate(r.ctx, want, func(f bigset.Facts) error {
		for i := range f.Keys {
			if err := r.add(&f.Keys[i], want); err != nil {
				return err
			}
		}
		r.diedUnseen(f.Dead, open)
		return nil
	})
	if err != nil {
		return err
	}
	if open.Subtract(r.seen); open.Empty() {
		return nil
	}
	return r.unfound(open)
}

// unfound judges dots that should have been found. Those that no replica has seen any more, because a disk was lost since the state was asked for, are taken out of it.
func (r *run) unfound(dots *clock.Clock) error {
	now, all, err := r.src.Whole(r.ctx)
	if err != nil {
		return err
	}
	r.state.Seen = difference(r.state.Seen, difference(dots, now.Seen))
	dots.Intersect(now.Seen)
	r.diedUnseen(now.Dead, dots)
	switch {
	case dots.Empty():
		return nil
	case all:
		return fmt.Errorf("%w: %d elements of %.64q that were added cannot be read: `bigset verify` says more", bigset.ErrCorrupt, dots.Len(), r.q.Set)
	}
	return fmt.Errorf("%w: %d elements of %.64q that were added are at replicas that do not answer", door.ErrUnavailable, dots.Len(), r.q.Set)
}

// add gives an element with those dots that the follower was not given before; if want is not nil, only those that it holds.
func (r *run) add(e *fold.Element, want *clock.Clock) error {
	var fresh []clock.Dot
	for _, d := range e.Dots {
		if !r.seen.Contains(d) && !r.dead.Contains(d) && (want == nil || want.Contains(d)) {
			fresh = append(fresh, d)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := r.room(1, len(e.Name)); err != nil {
		return err
	}
	r.part.Added = append(r.part.Added, door.Dotted{Name: bytes.Clone(e.Name), Dots: fresh})
	for _, d := range fresh {
		r.seen.Add(d)
	}
	return r.grew(len(e.Name) + bigset.BatchDotBytes*len(fresh))
}

// room takes room for some items and bytes of the answer; errFull where there is none. An answer has one item at least.
func (r *run) room(items, bytes int) error {
	if r.q.Limit == 0 {
		return nil
	}
	if r.left < items || r.left < r.q.Limit && r.bytes < bytes {
		return errFull
	}
	r.left -= items
	r.bytes -= bytes
	return nil
}

// grew counts what was put into the part, and gives the part away when it is large.
func (r *run) grew(bytes int) error {
	if r.size += bytes; len(r.part.Added)+len(r.part.Removed) < partElements && r.size < partBytes {
		return nil
	}
	return r.give()
}

// give gives the follower what was gathered.
func (r *run) give() error {
	if !r.begun {
		r.part.Reset = r.reset
	}
	r.begun = true
	if !r.yield(r.part, nil) {
		return errStopped
	}
	r.part, r.size = door.Changed{}, 0
	return nil
}

// last gives the last part, with the token of what was given.
func (r *run) last() error {
	at := &keyscheme.Position{Seen: r.seen, Dead: r.dead, Listed: r.listed, After: bytes.Clone(r.after)}
	if len(at.Append(nil)) > r.kept.tokenBytes() {
		at = r.keep(at)
	}
	next, err := r.tokens.Follower(at)
	if errors.Is(err, keyscheme.ErrTokenTooLarge) {
		next, err = r.tokens.Follower(r.keep(at))
	}
	if err != nil {
		return err
	}
	r.part.Next, r.part.Done, r.part.Unconfirmed = next, true, r.unconfirmed
	return r.give()
}

// keep keeps a position at this node, and returns the one that stands for it.
func (r *run) keep(at *keyscheme.Position) *keyscheme.Position {
	r.part.Expires = keptTime
	return r.kept.put(r.q.Set, at, r.id)
}

// union and difference leave their arguments alone.
func union(a, b *clock.Clock) *clock.Clock {
	c := a.Clone()
	c.Union(b)
	return c
}

func difference(a, b *clock.Clock) *clock.Clock {
	c := a.Clone()
	c.Subtract(b)
	return c
}
