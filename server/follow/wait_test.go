package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/server/door"
)

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
}

// TestDoubtEnds: an answer that has waited reports the doubt that is left, and not that from before the wait.
func TestDoubtEnds(t *testing.T) {
	t.Parallel()
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
