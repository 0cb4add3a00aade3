package follow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/door"
)

// TestShared: followers that wait and ask at the same time are answered by one asking that begins after each of them has asked. One that has gone takes none with it.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, q := &Kept{}, &door.Changes{Set: []byte("set")}
		value, release := uint64(1), make(chan struct{})
		var calls atomic.Int32
		ask := k.Share(q, func(ctx context.Context) (bigset.State, error) {
			calls.Add(1)
			s := bigset.State{Seen: clock.Of(clock.Dot{Actor: "x", Counter: value}), Dead: &clock.Clock{}}
			select {
			case <-release:
			case <-ctx.Done():
				return s, ctx.Err()
			}
			if _, ok := ctx.(late); ok {
				return s, context.DeadlineExceeded
			}
			return s, nil
		})
		_, leave, err := k.enter(q)
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			bigset.State
			err error
		}
		answers := make(chan answer, 100)
		begin := func(ctx context.Context, n int) {
			for range n {
				go func() {
					s, err := ask(ctx)
					answers <- answer{s, err}
				}()
			}
			synctest.Wait()
		}
		wants := func(n int, counter uint64) {
			t.Helper()
			for range n {
				if a := <-answers; a.err != nil || !a.Seen.Contains(clock.Dot{Actor: "x", Counter: counter}) {
					t.Errorf("%+v, want %d", a, counter)
				}
			}
		}
		begin(t.Context(), 1)
		value = 2
		begin(t.Context(), 50) // what is being asked may be older than what they are to learn
		release <- struct{}{}
		wants(1, 1)
		release <- struct{}{}
		wants(50, 2)
		if n := calls.Load(); n != 2 {
			t.Errorf("replicas were asked %d times", n)
		}
		gone, cancel := context.WithCancel(t.Context())
		begin(t.Context(), 1)
		begin(gone, 1) // asks next, also for the one after it
		value = 3
		begin(t.Context(), 1)
		release <- struct{}{}
		wants(1, 2)
		synctest.Wait()
		cancel()
		if a := <-answers; !errors.Is(a.err, context.Canceled) {
			t.Errorf("%+v", a)
		}
		release <- struct{}{}
		wants(1, 3)
		begin(t.Context(), 1)
		begin(late{t.Context()}, 1)
		value = 4
		begin(t.Context(), 1)
		release <- struct{}{}
		wants(1, 3)
		release <- struct{}{}
		if a := <-answers; !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("%+v", a)
		}
		release <- struct{}{}
		wants(1, 4)
		leave()
		if len(k.askings) != 0 {
			t.Error("nobody waits, and what was shared is kept")
		}
		calls.Store(0)
		begin(t.Context(), 2)
		close(release)
		wants(2, 4)
		if n := calls.Load(); n != 2 {
			t.Errorf("replicas were asked %d times for two that do not wait", n)
		}
	})
}

// late is a context whose time is up, and whose timer has not said so yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

// TestWaitersMemory: many followers that wait for changes of a set take the memory of one.
func TestWaitersMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, dead := &clock.Clock{}, &clock.Clock{}
		for actor := range 20 {
			a := clock.Actor(fmt.Sprint("actor", actor))
			seen.AddRange(a, 1, 100_000)
			for n := uint64(1); n < 100_000; n += 2 {
				dead.Add(clock.Dot{Actor: a, Counter: n})
			}
		}
		encoded := [2][]byte{seen.Append(nil), dead.Append(nil)}
		one := uint64(seen.HeapBytes() + dead.HeapBytes())
		decoded := func(b []byte) *clock.Clock {
			c, err := clock.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		s := newSome(func(int) int { return 0 })
		k := &Kept{Options: Options{TokenBytes: 16 << 20}}
		src := s.source()
		src.State = func(context.Context) (bigset.State, error) { // as from another node
			return bigset.State{Seen: decoded(encoded[0]), Dead: decoded(encoded[1])}, nil
		}
		src.Changed = func(ctx context.Context, _ *bigset.State) error {
			<-ctx.Done()
			return ctx.Err()
		}
		tokens := bigset.NewTokens(ring, []byte("set"))
		since, err := tokens.Follower(&keyscheme.Position{Seen: seen, Dead: dead})
		if err != nil {
			t.Fatal(err)
		}
		q := door.Changes{Set: []byte("set"), Since: since, Wait: time.Second}
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		const followers = 100
		before, ended := heap(), make(chan error, followers)
		for range followers {
			go func() {
				for part, err := range k.Changes(t.Context(), src, tokens, q) {
					if err == nil && (!part.Done || part.Reset != "" || len(part.Added)+len(part.Removed) > 0 || part.Dead != nil) {
						err = fmt.Errorf("%+v", part)
					}
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		synctest.Wait()
		if grown := heap() - before; grown > followers/4*one {
			t.Errorf("%d followers that wait take %d bytes, what replicas know of the set %d", followers, grown, one)
		}
		for range followers {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
