package follow

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/door"
)

// TestWaitRests: an answer that waits says so before and after, and not while it looks at what has changed; one that has something to report does not.
func TestWaitRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSome(func(int) int { return 0 })
		a := &asker{k: &Kept{}, s: s, resets: map[string]int{}}
		a.catchUp(t, 0)
		src, text, changes := s.source(), "", 1
		state := src.State
		src.State = func(ctx context.Context) (bigset.State, error) {
			text += "looks "
			return state(ctx)
		}
		src.Changed = func(ctx context.Context, _ *bigset.State) error {
			text += "waits "
			if changes--; changes == 0 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		q := door.Changes{Set: []byte("set"), Since: a.Since(), Wait: time.Second, Rest: func() func() {
			text += "rests "
			return func() { text += "resumes " }
		}}
		for range 2 {
			for _, err := range a.k.Changes(t.Context(), src, bigset.NewTokens(ring, []byte("set")), q) {
				if err != nil {
					t.Fatal(err)
				}
			}
			q.Since = nil // everything is to be reported
		}
		if text != "looks rests waits resumes looks rests waits resumes looks " {
			t.Errorf("%q", text)
		}
	})
}

// waits asks with a wait, and returns the last part.
func (a *asker) waits(t *testing.T, src Source, wait time.Duration) (last door.Changed) {
	for c, err := range a.k.Changes(t.Context(), src, bigset.NewTokens(ring, []byte("set")), door.Changes{Set: []byte("set"), Since: a.Since(), Wait: wait}) {
		if err != nil {
			t.Fatal(err)
		}
		a.Apply(&c, nil)
		last = c
	}
	return last
}

// TestWaitWithoutRounds: a follower waits in peace also if the replicas that are asked know less than it was given, and another one knows the rest.
func TestWaitWithoutRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSome(func(int) int { return 0 })
		a := &asker{k: &Kept{}, s: s, resets: map[string]int{}}
		d := clock.Dot{Actor: "x", Counter: 1}
		s.copies[2].seen.Add(d)
		s.copies[2].keys[d], s.names[d] = "e", "e"
		s.copies[0].up = false
		a.catchUp(t, 0)
		s.copies[0].up = true
		src, rounds := s.source(), 0
		src.Changed = func(ctx context.Context, was *bigset.State) error {
			rounds++
			if st := stateOf(s.copies[:2]); !st.Seen.Equal(was.Seen) || !st.Dead.Equal(was.Dead) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		if a.waits(t, src, 200*time.Millisecond); rounds != 1 {
			t.Errorf("the state was compared %d times", rounds)
		}
		rounds = 0
		src.Changed = func(context.Context, *bigset.State) error { rounds++; return nil } // as if others answered each time
		if a.waits(t, src, 500*time.Millisecond); rounds > 12 {
			t.Errorf("the state was asked for %d times", rounds)
		}
	})
}

// TestDoubtEnds: an answer that has waited reports the doubt that is left, and not that from before the wait.
func TestDoubtEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSome(func(int) int { return 0 })
		a := &asker{k: &Kept{}, s: s, resets: map[string]int{}}
		d := clock.Dot{Actor: "x", Counter: 1}
		s.copies[2].seen.Add(d)
		s.copies[2].keys[d], s.names[d] = "e", "e"
		s.copies[0].up = false
		a.catchUp(t, 0)
		s.copies[0].up, s.copies[2].up = true, false
		if last := a.waits(t, s.source(), 0); last.Unconfirmed != 1 {
			t.Fatalf("%d unconfirmed", last.Unconfirmed)
		}
		src := s.source()
		src.Changed = func(ctx context.Context, _ *bigset.State) error {
			if s.copies[2].up {
				<-ctx.Done()
				return ctx.Err()
			}
			s.copies[2].up = true
			return nil
		}
		if last := a.waits(t, src, 100*time.Millisecond); last.Unconfirmed != 0 {
			t.Errorf("%d unconfirmed", last.Unconfirmed)
		}
	})
}

// TestStop: Stop ends the waits, and those that begin later.
func TestStop(t *testing.T) {
	t.Parallel()
	s := newSome(func(int) int { return 0 })
	a := &asker{k: &Kept{}, s: s, resets: map[string]int{}}
	a.catchUp(t, 0)
	src := s.source()
	src.Changed = func(ctx context.Context, _ *bigset.State) error {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Error(ctx.Err())
		}
		return ctx.Err()
	}
	time.AfterFunc(50*time.Millisecond, a.k.Stop)
	for range 2 {
		if last := a.waits(t, src, time.Minute); !last.Done || last.Reset != "" {
			t.Errorf("%+v", last)
		}
	}
}

// TestWaiters: more followers than may wait are refused, unless there is something to report.
func TestWaiters(t *testing.T) {
	t.Parallel()
	s := newSome(func(int) int { return 0 })
	a := &asker{k: &Kept{Options: Options{WaitersMax: 1}}, s: s, resets: map[string]int{}}
	a.catchUp(t, 0)
	src, waits := s.source(), make(chan struct{})
	src.Changed = func(ctx context.Context, _ *bigset.State) error {
		close(waits)
		<-ctx.Done()
		return ctx.Err()
	}
	first := make(chan struct{})
	b := *a
	go func() {
		defer close(first)
		b.waits(t, src, time.Minute)
	}()
	<-waits
	ask := func() (last door.Changed, err error) {
		for c, e := range a.k.Changes(t.Context(), s.source(), bigset.NewTokens(ring, []byte("set")), door.Changes{Set: []byte("set"), Since: a.Since(), Wait: time.Minute}) {
			last, err = c, e
		}
		return last, err
	}
	if _, err := ask(); !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("a second one waits: %v", err)
	}
	d := clock.Dot{Actor: "x", Counter: 1}
	for _, c := range s.copies {
		c.seen.Add(d)
		c.keys[d], s.names[d] = "e", "e"
	}
	if last, err := ask(); err != nil || len(last.Added) != 1 {
		t.Errorf("%+v, %v", last, err)
	}
	a.k.Stop()
	<-first
}

// TestBadTokens: a source keeps nothing for a follower whose token is not good.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	s := newSome(func(int) int { return 0 })
	src, asked := s.source(), 0
	src.Names = func(context.Context, *clock.Clock) ([]fold.Element, error) {
		asked++
		return nil, nil
	}
	good, err := bigset.NewTokens(ring, []byte("another")).Follower(&keyscheme.Position{Seen: &clock.Clock{}, Dead: &clock.Clock{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []door.Token{good, door.Token("nonsense")} {
		for c, err := range (&Kept{}).Changes(t.Context(), src, bigset.NewTokens(ring, []byte("set")), door.Changes{Set: []byte("set"), Since: since}) {
			if !errors.Is(err, keyscheme.ErrToken) {
				t.Errorf("%+v, %v", c, err)
			}
		}
	}
	if asked > 0 {
		t.Errorf("names were asked for %d times", asked)
	}
}

// TestTokensTooLong: a position that no token can have is kept, also where tokens may be long.
func TestTokensTooLong(t *testing.T) {
	t.Parallel()
	s := newSome(func(int) int { return 0 })
	r := rand.NewChaCha8([32]byte{1})
	for range 2_500 {
		actor := make([]byte, clock.ActorBytesMax)
		r.Read(actor) // never fails
		s.copies[0].seen.Add(clock.Dot{Actor: clock.Actor(actor), Counter: 1})
	}
	s.copies[0].dead = s.copies[0].seen.Clone()
	a := &asker{k: &Kept{Options: Options{TokenBytes: math.MaxInt}}, s: s, resets: map[string]int{}}
	if last := a.waits(t, s.source(), 0); last.Expires == 0 {
		t.Errorf("a token of %d bytes", len(last.Next))
	}
	if last := a.waits(t, s.source(), 0); last.Reset != "" || last.Expires == 0 {
		t.Errorf("reset %q, expires %v", last.Reset, last.Expires)
	}
}

// TestListParts: an answer that reads the whole set says so before each chunk but the first, though it gives nothing of them.
func TestListParts(t *testing.T) {
	t.Parallel()
	dots := []clock.Dot{{Actor: "a", Counter: 1}, {Actor: "a", Counter: 2}}
	src := Source{
		State: func(context.Context) (bigset.State, error) {
			return bigset.State{Seen: clock.Of(dots...), Dead: &clock.Clock{}}, nil
		},
		Names: func(context.Context, *clock.Clock) ([]fold.Element, error) { return nil, nil },
		Read: func(_ context.Context, _ []byte, f func([]fold.Element) error) error {
			for _, chunk := range [][]fold.Element{{{Name: []byte("e"), Dots: dots}}, nil, nil} {
				if err := f(chunk); err != nil {
					return err
				}
			}
			return nil
		},
	}
	parts, given := 0, 0
	q := door.Changes{Set: []byte("set"), Limit: 10, Part: func() { parts++ }}
	for c, err := range (&Kept{Options: Options{LocateDots: 1}}).Changes(t.Context(), src, bigset.NewTokens(ring, q.Set), q) {
		if err != nil {
			t.Fatal(err)
		}
		given += len(c.Added)
	}
	if parts != 2 || given != 1 {
		t.Errorf("%d parts, %d elements", parts, given)
	}
}
