package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/door"
)

var ring = keyscheme.Keyring{Current: keyscheme.SealKey{1}, Domain: [8]byte{2}}

// copyOfSet is what a replica knows of the set.
type copyOfSet struct {
	actor      clock.Actor
	last       uint64
	seen, dead *clock.Clock
	keys       map[clock.Dot]string // live ones
	up         bool
}

func (c *copyOfSet) live(d clock.Dot) bool { return c.seen.Contains(d) && !c.dead.Contains(d) }

func (c *copyOfSet) kill(d clock.Dot) {
	c.seen.Add(d)
	c.dead.Add(d)
	delete(c.keys, d)
}

// learn has a replica learn from another: all, or one dot of it.
func (c *copyOfSet) learn(o *copyOfSet, only *clock.Dot) {
	for d := range o.seen.Dots() {
		switch {
		case only != nil && d != *only:
		case o.dead.Contains(d):
			c.kill(d)
		case c.seen.Add(d):
			c.keys[d] = o.keys[d]
		}
	}
}

// some are replicas of a set; two that are up answer each question.
type some struct {
	draw   func(n int) int
	copies []*copyOfSet
	made   int
	names  map[clock.Dot]string // all that were ever
	forget map[clock.Dot]bool   // the names that are not known any more
	busy   func()               // is called in the middle of answers, if it is not nil
}

func newSome(draw func(int) int) *some {
	s := &some{draw: draw, names: map[clock.Dot]string{}, forget: map[clock.Dot]bool{}}
	for range 3 {
		s.copies = append(s.copies, s.empty())
	}
	return s
}

func (s *some) empty() *copyOfSet {
	s.made++
	return &copyOfSet{actor: clock.Actor(fmt.Sprintf("actor%d", s.made)), seen: &clock.Clock{}, dead: &clock.Clock{}, keys: map[clock.Dot]string{}, up: true}
}

// two are those that answer.
func (s *some) two() ([]*copyOfSet, error) {
	from := s.draw(3)
	var up []*copyOfSet
	for i := range s.copies {
		if c := s.copies[(from+i)%3]; c.up {
			up = append(up, c)
		}
	}
	if len(up) < 2 {
		return nil, errDown
	}
	return up[:2], nil
}

var errDown = errors.New("too few are up")

func stateOf(copies []*copyOfSet) (st bigset.State) {
	st = bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}
	for _, c := range copies {
		st.Seen.Union(c.seen)
		st.Dead.Union(c.dead)
	}
	return st
}

func (s *some) source() Source {
	return Source{
		State: func(context.Context) (bigset.State, error) {
			copies, err := s.two()
			return stateOf(copies), err
		},
		Whole: func(context.Context) (bigset.State, bool, error) {
			var up []*copyOfSet
			for _, c := range s.copies {
				if c.up {
					up = append(up, c)
				}
			}
			return stateOf(up), len(up) == 3, nil
		},
		Locate: s.locate,
		Read:   s.read,
		Names: func(_ context.Context, dots *clock.Clock) (all []fold.Element, _ error) {
			for d := range dots.Dots() {
				if name, ok := s.names[d]; ok && !s.forget[d] {
					all = append(all, fold.Element{Name: []byte(name), Dots: []clock.Dot{d}})
				}
			}
			return all, nil
		},
		Changed: func(ctx context.Context, _ *bigset.State) error {
			if s.busy == nil {
				return ctx.Err()
			}
			s.busy()
			return nil
		},
	}
}

func (s *some) between() {
	if s.busy != nil {
		s.busy()
	}
}

func (s *some) locate(_ context.Context, dots *clock.Clock, f func(bigset.Facts) error) error {
	left := dots.Clone()
	from := s.draw(3)
	down := false
	for i := range s.copies {
		c := s.copies[(from+i)%3]
		if down = down || !c.up; !c.up {
			continue
		}
		for _, d := range slices.Collect(left.Dots()) {
			facts := bigset.Facts{}
			switch {
			case c.live(d):
				facts.Keys = []fold.Element{{Name: []byte(c.keys[d]), Dots: []clock.Dot{d}}}
			case c.dead.Contains(d):
				facts.Dead = clock.Of(d)
			default:
				continue
			}
			left.Subtract(clock.Of(d))
			if err := f(facts); err != nil {
				return err
			}
			s.between()
		}
	}
	if !left.Empty() && down {
		return errDown
	}
	return nil
}

// read merges what two replicas show, and lists it in the order of elements.
func (s *some) read(_ context.Context, after []byte, f func([]fold.Element) error) error {
	for {
		copies, err := s.two()
		if err != nil {
			return err
		}
		all := map[string][]clock.Dot{}
		for _, c := range copies {
			for d, e := range c.keys {
				fine := e > string(after) || after == nil
				for _, o := range copies {
					fine = fine && (o.live(d) || !o.seen.Contains(d))
				}
				if fine && !slices.Contains(all[e], d) {
					all[e] = append(all[e], d)
				}
			}
		}
		if len(all) == 0 {
			return nil
		}
		e := slices.Min(slices.Collect(maps.Keys(all)))
		if err := f([]fold.Element{{Name: []byte(e), Dots: all[e]}}); err != nil {
			return err
		}
		after = []byte(e)
		s.between()
	}
}

// step does something to the replicas.
func (s *some) step() {
	c := s.copies[s.draw(3)]
	switch s.draw(12) {
	case 0, 1, 2, 3, 4, 5: // an add that replaces what is seen, or nothing
		e := fmt.Sprintf("e%d", s.draw(8))
		if s.draw(3) > 0 {
			for d, name := range maps.Clone(c.keys) {
				if name == e {
					c.kill(d)
				}
			}
		}
		c.last++
		d := clock.Dot{Actor: c.actor, Counter: c.last}
		c.seen.Add(d)
		c.keys[d], s.names[d] = e, e
	case 6, 7: // a remove
		e := fmt.Sprintf("e%d", s.draw(8))
		for d, name := range maps.Clone(c.keys) {
			if name == e {
				c.kill(d)
				s.forget[d] = s.draw(2) == 0
			}
		}
	case 8: // a dot, or its death, comes to another one
		o := s.copies[s.draw(3)]
		if dots := slices.Collect(o.seen.Dots()); len(dots) > 0 {
			c.learn(o, &dots[s.draw(len(dots))])
		}
	case 9:
		c.learn(s.copies[s.draw(3)], nil)
	case 10:
		c.up = !c.up
	case 11: // a disk is lost, and filled from another one
		if s.draw(4) > 0 {
			return
		}
		i := s.draw(3)
		s.copies[i] = s.empty()
		s.copies[i].learn(s.copies[(i+1)%3], nil)
	}
}

// asker is a follower with the position of its token.
type asker struct {
	door.Followed
	k       *Kept
	s       *some
	at      *keyscheme.Position
	resets  map[string]int
	doubted int
	named   int
}

func (a *asker) position(t rapid.TB, token door.Token) *keyscheme.Position {
	c, err := ring.Unseal(token, keyscheme.Follower, []byte("set"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.At.ID) == 0 {
		return c.At
	}
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	return a.k.all[id(c.At.ID)].at
}

// ask asks once. An answer that fails is thrown away.
func (a *asker) ask(t rapid.TB, limit int) (more bool, err error) {
	var parts []door.Changed
	q := door.Changes{Set: []byte("set"), Since: a.Since(), Limit: limit}
	for c, err := range a.k.Changes(context.Background(), a.s.source(), bigset.NewTokens(ring, q.Set), q) {
		if err != nil {
			if !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			return false, err
		}
		parts = append(parts, c)
	}
	for i := range parts {
		c := &parts[i]
		if c.Reset != "" {
			a.at = nil
			a.resets[c.Reset]++
		}
		if n := len(c.Added) + len(c.Removed); limit > 0 && n > limit {
			t.Fatalf("%d changes, and a limit of %d", n, limit)
		}
		a.named += len(c.Removed)
		a.Apply(c, nil)
		if c.Unconfirmed > 0 {
			a.doubted++
		}
	}
	last := parts[len(parts)-1]
	next := a.position(t, last.Next)
	if a.at != nil && (!next.Seen.Descends(a.at.Seen) || !next.Dead.Descends(a.at.Dead)) {
		t.Fatalf("the position went backwards: %v, %v after %v, %v", next.Seen, next.Dead, a.at.Seen, a.at.Dead)
	}
	a.at = next
	return last.More, nil
}

// catchUp asks until nothing is left.
func (a *asker) catchUp(t rapid.TB, limit int) bool {
	for range 10_000 {
		if more, err := a.ask(t, limit); err != nil || !more {
			return err == nil
		}
	}
	t.Fatal("the answers do not end")
	return false
}

// exact fails unless the follower has exactly the elements of the dots of its position that are live, and no others.
func (a *asker) exact(t rapid.TB) {
	want := map[string]bool{}
	for d := range difference(a.at.Seen, a.at.Dead).Dots() {
		want[a.s.names[d]] = true
	}
	got := slices.Sorted(a.Elements())
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("the follower has %q, and its position %q", got, slices.Sorted(maps.Keys(want)))
	}
}

// TestReplicas: a follower that asks replicas, each of which knows something else, learns everything once, whichever it asks; its position never goes backwards; and
// what no replica knows any more it has to forget as soon as all answer.
func TestReplicas(t *testing.T) {
	t.Parallel()
	resets, doubted := map[string]int{}, 0
	check := func(t *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		s := newSome(draw)
		k := &Kept{Options: Options{TokenBytes: []int{0, 1}[draw(2)], LocateDots: []uint64{0, 1}[draw(2)]}}
		a := &asker{k: k, s: s, resets: resets}
		busy := draw(2) == 0
		for range 30 + draw(60) {
			if draw(3) > 0 {
				s.step()
				continue
			}
			if busy {
				s.busy = func() {
					if draw(3) == 0 {
						s.step()
					}
				}
			}
			if limit := []int{0, 1, 3}[draw(3)]; a.catchUp(t, limit) && !busy {
				a.exact(t)
			}
			s.busy = nil
		}
		for _, c := range s.copies {
			c.up = true
		}
		for range 2 {
			for i := range s.copies {
				s.copies[i].learn(s.copies[(i+1)%3], nil)
			}
		}
		a.catchUp(t, 2)
		a.exact(t)
		has := map[string]bool{}
		for _, e := range s.copies[0].keys {
			has[e] = true
		}
		if got := slices.Sorted(a.Elements()); !slices.Equal(got, slices.Sorted(maps.Keys(has))) {
			t.Fatalf("the follower has %q, and the set %q", got, slices.Sorted(maps.Keys(has)))
		}
		doubted += a.doubted
	}
	tame := func() bool { return resets[door.ResetLost] == 0 || doubted == 0 }
	for tries := 0; tries < 50 && tame(); tries++ { // a short run has few checks
		rapid.Check(t, check)
	}
	t.Log(resets, doubted)
	if tame() {
		t.Errorf("nothing was lost (%v), or nothing was in doubt (%d)", resets, doubted)
	}
}
