package readcore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/readcore"
)

// source is a replica's side of a stream: a view of its clocks, an iterator that may be a little younger, chunks of any size.
type source struct {
	r          *replica
	reverse    bool
	seen, dead *clock.Clock
	keys       []key // nil until the iterator is opened
	bound      []byte
	over       bool
}

func (w *world) open(r *replica, behind []byte, reverse bool) *source {
	s := &source{r: r, bound: behind, reverse: reverse}
	s.renew()
	return s
}

// renew takes a new view; the iterator is opened with the next chunk.
func (s *source) renew() { s.seen, s.dead, s.keys = s.r.seen.Clone(), s.r.dead.Clone(), nil }

func (s *source) chunk(pick func(int) int) *fold.Chunk {
	if s.keys == nil {
		s.keys = s.r.sorted(s.reverse)
	}
	f := fold.New(s.dead, fold.Options{ElementsMax: 1 + pick(3), KeysMax: 1 + pick(5), Reverse: s.reverse})
	var c *fold.Chunk
	for _, k := range s.keys {
		element := []byte(k.element)
		if s.bound != nil && compare(s.reverse, element, s.bound) <= 0 {
			continue
		}
		if f.Starts(element) {
			c = f.Chunk(false)
			break
		}
		if err := f.Step(element, []byte(k.dot.Actor), k.dot.Counter, keyscheme.OpAdd, keyscheme.ResolvedValue); err != nil {
			panic(err)
		}
	}
	if c == nil {
		c = f.Chunk(true)
	}
	c.Clock, s.over = s.seen, c.Done
	if !c.Done {
		s.bound = c.Bound
	}
	return c
}

func compare(reverse bool, a, b []byte) int {
	if reverse {
		a, b = b, a
	}
	return bytes.Compare(a, b)
}

// reading is a read in progress, and what its client was given.
type reading struct {
	*guarantee
	broken   string
	opt      readcore.Options
	merge    *readcore.Merge
	sources  []*source // nil where the stream has failed
	moved    []bool    // resumed at another replica
	ghost    *clock.Clock
	failedAt []byte
	out      []fold.Element
	contexts []context
	bound    []byte
	done     bool
	fails    int
}

// context is one that the client was given, for the elements behind after.
type context struct {
	after []byte
	clock *clock.Clock
}

func (w *world) read(broken string) *reading {
	rd := &reading{guarantee: w.begin(), broken: broken, opt: readcore.Options{Streams: w.r, Reverse: w.chance(30)}}
	if w.chance(20) {
		rd.opt.Limit = 1 + w.pick(4)
	}
	rd.merge = readcore.New(rd.opt)
	rd.sources, rd.moved = make([]*source, w.r), make([]bool, w.r)
	for i := range rd.sources {
		rd.start(i, nil)
	}
	return rd
}

// start opens stream i on a replica that no other stream reads.
func (rd *reading) start(i int, behind []byte) {
	free := slices.DeleteFunc(slices.Clone(rd.w.replicas), func(r *replica) bool {
		return slices.ContainsFunc(rd.sources, func(s *source) bool { return s != nil && s.r == r })
	})
	r := free[rd.w.pick(len(free))]
	if rd.broken == "newest wins" && rd.sources[0] != nil {
		r = rd.sources[0].r
	}
	rd.sources[i] = rd.w.open(r, behind, rd.opt.Reverse)
}

// step continues the read: a chunk comes, an iterator is renewed, a stream fails or is replaced.
func (rd *reading) step() error {
	w := rd.w
	i := w.pick(len(rd.sources))
	switch {
	case rd.sources[i] == nil:
		rd.replace(i)
	case w.chance(4):
		rd.fail(i)
	case w.chance(15):
		rd.sources[i].renew()
	case w.chance(10):
		rd.resume(i)
	}
	wants := rd.merge.Wants(nil)
	if len(wants) > 0 {
		k := wants[w.pick(len(wants))]
		err := rd.deliver(k)
		switch {
		case rd.moved[k] && errors.Is(err, readcore.ErrChunk): // this replica has not seen what the stream had seen
			rd.fail(k)
		case err != nil:
			return err
		}
		rd.moved[k] = false
	}
	if err := rd.refuses(i, wants); err != nil {
		return err
	}
	return rd.take()
}

// resume begins a stream again, at its replica or at another one that takes its place: the merge must find out whether that one has
// seen enough.
func (rd *reading) resume(i int) {
	after, ok := rd.merge.Resume(i)
	if !ok {
		return
	}
	if rd.w.chance(40) {
		rd.moved[i] = true
		rd.start(i, after)
		return
	}
	rd.sources[i] = rd.w.open(rd.sources[i].r, after, rd.opt.Reverse)
}

func (rd *reading) fail(i int) {
	rd.ghost, rd.failedAt = rd.sources[i].seen, rd.sources[i].bound
	rd.sources[i], rd.moved[i] = nil, false
	rd.merge.Fail(i)
	rd.fails++
	if rd.broken == "fail-over restarts" {
		rd.merge, rd.done = readcore.New(rd.opt), false
		for k := range rd.sources {
			rd.sources[k] = nil
			rd.merge.Fail(k)
		}
	}
}

func (rd *reading) replace(i int) {
	after := rd.merge.Replace(i)
	if rd.broken == "fail-over skips" {
		after = rd.failedAt
	}
	rd.start(i, after)
}

// spoil overwrites the last chunk of a stream if the merge gives it back: whatever shares memory with it is wrong then.
func (rd *reading) spoil(i int) {
	c := rd.merge.Scrap(i)
	if c == nil {
		return
	}
	for _, e := range c.Elements {
		for k := range e.Name {
			e.Name[k] = 0xff
		}
		clear(e.Dots)
	}
}

// deliver passes the next chunk of a stream to the merge, changed if the test breaks chunks.
func (rd *reading) deliver(i int) error {
	s := rd.sources[i]
	if len(s.r.keys) == 0 && s.r.seen.Empty() && s.bound == nil && rd.merge.NotFound(i) == nil {
		s.over = true
		return nil
	}
	if rd.w.chance(5) { // its clock alone
		return rd.merge.Admit(i, &fold.Chunk{Clock: s.seen})
	}
	rd.spoil(i)
	c := s.chunk(rd.w.pick)
	switch rd.broken {
	case "union":
		c.Clock = &clock.Clock{}
	case "clock newer":
		c.Clock = s.r.seen.Clone()
	case "past least-last":
		for _, o := range rd.sources {
			if o != nil && o.bound != nil && !c.Done && compare(s.reverse, o.bound, c.Bound) > 0 {
				c.Bound, s.bound = o.bound, o.bound
			}
		}
	case "fail-over keeps clock":
		if rd.ghost != nil {
			_ = rd.merge.Admit(i, &fold.Chunk{Clock: c.Clock}) // the context is right
			c.Clock = c.Clock.Clone()
			c.Clock.Union(rd.ghost)
		}
	}
	return rd.merge.Admit(i, c)
}

// refuses checks that a stream that is not wanted can't deliver.
func (rd *reading) refuses(i int, wants []int) error {
	if slices.Contains(wants, i) {
		return nil
	}
	if err := rd.merge.Admit(i, &fold.Chunk{Clock: &clock.Clock{}, Done: true}); !errors.Is(err, readcore.ErrUnwanted) {
		return fmt.Errorf("stream %d is not wanted, and its chunk got %v", i, err)
	}
	return nil
}

// take gives the client what has become certain, and does the repairs.
func (rd *reading) take() error {
	res, ok := rd.merge.Step()
	if !ok {
		return nil
	}
	if _, again := rd.merge.Step(); again {
		return errors.New("a second step in a row has something new")
	}
	if res.Context != nil && (rd.broken != "context of first clocks" || len(rd.contexts) == 0) {
		c := context{rd.bound, res.Context}
		if rd.broken == "context of renewed clock" && len(rd.contexts) > 0 {
			c.clock = &clock.Clock{}
			for _, s := range rd.sources {
				c.clock.Union(s.seen)
			}
		}
		rd.contexts = append(rd.contexts, c)
	}
	if len(rd.contexts) == 0 {
		return errors.New("elements before a context")
	}
	rd.out = append(rd.out, res.Elements...)
	rd.bound, rd.done = res.Bound, res.Done
	if err := rd.certain(); err != nil {
		return err
	}
	if rd.broken == "" && rd.w.chance(50) {
		return rd.repair(res.Lacking)
	}
	return nil
}

// certain checks that everything that can be merged was merged: up to the least of the bounds.
func (rd *reading) certain() error {
	if rd.done || len(rd.merge.Wants(nil)) == 0 {
		return nil
	}
	var least []byte
	for _, s := range rd.sources {
		if s.over {
			continue
		}
		if s.bound == nil {
			least = nil
			break
		}
		if least == nil || compare(rd.opt.Reverse, s.bound, least) < 0 {
			least = s.bound
		}
	}
	if !bytes.Equal(least, rd.bound) {
		return fmt.Errorf("merged up to %q, it could be %q", rd.bound, least)
	}
	return nil
}

// repair does the repairs that a result asks for.
func (rd *reading) repair(lacking []readcore.Lack) error {
	for _, l := range lacking {
		r := rd.sources[l.Stream].r
		for _, e := range l.Missing {
			for _, d := range e.Dots {
				r.put(d, string(e.Name))
			}
		}
		for _, s := range l.Suspects {
			dead := rd.sources[s.Witness].r.dead
			for _, d := range s.Element.Dots {
				if !dead.Contains(d) {
					return fmt.Errorf("%v of %q is said to be dead at %s", d, s.Element.Name, rd.sources[s.Witness].r.actor)
				}
				r.kill(clock.Of(d))
			}
		}
	}
	return rd.w.check()
}

// verify compares what the client was given with what it must and may see.
func (rd *reading) verify() error {
	shown := map[clock.Dot]bool{}
	present := map[string]bool{}
	for i, e := range rd.out {
		if i > 0 && compare(rd.opt.Reverse, rd.out[i-1].Name, e.Name) >= 0 {
			return fmt.Errorf("%q comes after %q", e.Name, rd.out[i-1].Name)
		}
		present[string(e.Name)] = true
		for _, d := range e.Dots {
			shown[d] = true
		}
	}
	if n := rd.opt.Limit; n > 0 && len(rd.out) > n {
		return fmt.Errorf("%d elements, the limit is %d", len(rd.out), n)
	}
	for _, name := range elements {
		e := string(name)
		if !present[e] && rd.reached([]byte(e)) && rd.must(e) {
			return fmt.Errorf("%q is lost", e)
		}
		if present[e] && !rd.may(e) {
			return fmt.Errorf("%q is back", e)
		}
	}
	return rd.verifyContexts(shown)
}

// verifyContexts: no context covers an element that the client was not shown, unless a remove of it was done.
func (rd *reading) verifyContexts(shown map[clock.Dot]bool) error {
	whole := rd.merge.Whole()
	if rd.broken == "whole set by the last context" {
		whole = rd.contexts[len(rd.contexts)-1].clock
	}
	for _, o := range rd.w.adds {
		if shown[o.dot] || !rd.reached([]byte(o.element)) || !rd.w.unkilled(o) {
			continue
		}
		var own *clock.Clock
		for _, c := range rd.contexts {
			if c.after == nil || compare(rd.opt.Reverse, []byte(o.element), c.after) > 0 {
				own = c.clock
			}
		}
		if own.Contains(o.dot) {
			return fmt.Errorf("the context of %q covers %v, which was not shown", o.element, o.dot)
		}
		if whole.Contains(o.dot) {
			return fmt.Errorf("the context of the whole set covers %v of %q, which was not shown", o.dot, o.element)
		}
	}
	return nil
}

// reached reports whether the read has passed an element.
func (rd *reading) reached(element []byte) bool {
	return rd.bound == nil || compare(rd.opt.Reverse, element, rd.bound) <= 0
}

// schedule is one run: a history, and reads in the middle of it.
func schedule(pick func(int) int, broken string) error {
	w := newWorld(pick)
	for range w.pick(30) {
		w.step()
	}
	for range 2 {
		rd := w.read(broken)
		for n := 0; !rd.done; n++ {
			if n < 100 && w.chance(50) {
				w.step()
			}
			if n > 2000 {
				return errors.New("the read does not end")
			}
			if err := rd.step(); err != nil {
				return fmt.Errorf("%w, after %d fail-overs", err, rd.fails)
			}
		}
		if err := rd.verify(); err != nil {
			return fmt.Errorf("%w, after %d fail-overs, R=%d", err, rd.fails, w.r)
		}
	}
	return w.check()
}

func seeded(seed uint64) func(int) int {
	return rand.New(rand.NewPCG(seed, 0)).IntN
}

// TestReads: whatever happens to the replicas, their streams and their iterators, a read shows all that must be seen and nothing
// that may not, in order, nothing twice, and its contexts cover nothing that it did not show.
func TestReads(t *testing.T) {
	n := uint64(6000)
	if testing.Short() {
		n = 1000
	}
	for seed := range n {
		if err := schedule(seeded(seed), ""); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestReadsDrawn is the same with schedules that shrink.
func TestReadsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		err := schedule(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }, "")
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestBroken: reads that are broken in ways that are easily overlooked are all caught.
func TestBroken(t *testing.T) {
	for _, broken := range []string{
		"union",                         // clocks are not asked
		"newest wins",                   // one replica is believed
		"clock newer",                   // the status of a dot comes from a clock that is newer than the chunk's keys
		"past least-last",               // merged after a stream's bound
		"fail-over keeps clock",         // the clock of the failed stream still counts
		"fail-over restarts",            // the read begins again
		"fail-over skips",               // the replacement begins where the failed stream was, not where the merge is
		"context of first clocks",       // the first context is kept after a replacement
		"context of renewed clock",      // the second context is made of the latest clocks
		"whole set by the last context", // and is taken for the whole set
	} {
		t.Run(broken, func(t *testing.T) {
			const most = 20_000
			for seed := range uint64(most) {
				if err := schedule(seeded(seed), broken); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d schedules", most)
		})
	}
}

// TestRepairs: after a read of all replicas at rest, and the repairs that it asks for, all have the same elements by the
// same dots.
func TestRepairs(t *testing.T) {
	lacked := 0
	for seed := range uint64(3000) {
		w := newWorld(seeded(seed))
		for range w.pick(30) {
			w.step()
		}
		w.r = len(w.replicas)
		rd := &reading{guarantee: w.begin(), opt: readcore.Options{Streams: w.r}, sources: make([]*source, w.r), moved: make([]bool, w.r)}
		rd.merge = readcore.New(rd.opt)
		for i := range rd.sources {
			rd.start(i, nil)
		}
		unknown := slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.seen.Empty() })
		for done := false; !done; {
			for _, i := range rd.merge.Wants(nil) {
				if err := rd.deliver(i); err != nil {
					t.Fatal(err)
				}
			}
			res, ok := rd.merge.Step()
			if !ok {
				continue
			}
			lacked += len(res.Lacking)
			if err := rd.repair(res.Lacking); err != nil {
				t.Fatal(err)
			}
			done = res.Done
		}
		for _, e := range elements {
			want := w.replicas[0].visible(string(e))
			for _, r := range w.replicas[1:] {
				if got := r.visible(string(e)); !unknown && !slices.Equal(got, want) {
					t.Fatalf("seed %d: %q by %v at %s, by %v at %s", seed, e, got, r.actor, want, w.replicas[0].actor)
				}
			}
		}
	}
	if lacked == 0 {
		t.Error("nothing was lacking anywhere")
	}
}
