package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset/bloomslice"
	"bigset/server/coord"
)

// TestBatches: of requests beside one another the first is done by itself and the others together. Each gets the answers about its own keys, and an error where a slice of these has
// failed, in another's none.
func TestBatches(t *testing.T) {
	const requests, each = 20, 6
	c := newFilterCluster(t, newSched(5), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder)})
	f := filterOf(32, 1)
	marks, checks := co.MarkBatches(f), co.CheckBatches(f)
	keys := func(request, shift int) (list [][]byte) {
		for i := range each {
			list = append(list, fmt.Appendf(nil, "key %d of %d", i+shift, request))
		}
		return list
	}
	for _, step := range []struct {
		what  string
		b     *coord.FilterBatches
		shift int
		bad   uint32 // slices that fail at all replicas
		want  bool
	}{{"marked", marks, 0, 0, true}, {"marked again", marks, 0, 0, false}, {"there", checks, 0, 0, true}, {"half there", checks, each / 2, 0, true},
		{"spoilt marks", marks, each, 0x00f00300, true}, {"spoilt", checks, 0, 0x00f00300, true}} {
		for _, l := range c.links {
			l.frames = 0
			l.sick = func(slice uint32) error {
				if step.bad>>slice&1 == 1 {
					return errSpoilt
				}
				return nil
			}
		}
		all(t, c, requests, func(i int) {
			list := keys(i, step.shift)
			answers, err := step.b.Do(ctx, list)
			var fe *coord.FilterError
			if err != nil && !errors.As(err, &fe) {
				t.Errorf("%s: %v", step.what, err)
			}
			for k, key := range list {
				h := bloomslice.Sum(key)
				lost := step.bad>>h.Slice(32)&1 == 1
				if named := fe != nil && slices.Contains(fe.Keys, k); named != lost {
					t.Errorf("%s: request %d, key %d: without an answer: %v, want %v", step.what, i, k, named, lost)
				}
				if want := step.want && !(step.what == "half there" && k >= each/2); !lost && answers[k] != want {
					t.Errorf("%s: request %d, key %d: %v", step.what, i, k, answers[k])
				}
			}
			if fe != nil && len(fe.Keys) == 0 {
				t.Errorf("%s: an error of no key: %v", step.what, err)
			}
			if unknown := fe != nil && step.b == marks; errors.Is(err, coord.ErrUnknown) != unknown || fe != nil && fe.Of != each {
				t.Errorf("%s: %v", step.what, err)
			}
		})
		for _, l := range c.links {
			if step.bad == 0 && l.frames != 2 {
				t.Errorf("%s: %d requests are %d frames at %s, want 2", step.what, requests, l.frames, l.node)
			}
		}
	}
}

// all does things beside one another, and waits for all.
func all(t *testing.T, c *filterCluster, n int, do func(i int)) {
	t.Helper()
	c.s.run(t, minute, func() {
		over, left := c.s.NewSignal(), n
		for i := range n {
			c.s.Go(func() {
				do(i)
				if left--; left == 0 {
					over.Set()
				}
			})
		}
		if err := over.Wait(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowBatch: requests that wait for one that hangs begin by themselves, and so do those that come after.
func TestSlowBatch(t *testing.T) {
	c := newFilterCluster(t, newSched(6), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), HedgeTime: time.Second, Timeout: 10 * time.Second})
	b := co.CheckBatches(filterOf(32, 1))
	c.links[1].fault = mute
	began := c.s.Now()
	all(t, c, 12, func(i int) {
		if i >= 10 { // while the first one hangs still
			c.s.Sleep(150 * time.Millisecond)
		}
		if _, err := b.Do(ctx, [][]byte{[]byte("a"), fmt.Append(nil, i)}); err != nil {
			t.Error(err)
		}
		if took := c.s.Now().Sub(began); took > 1200*time.Millisecond { // 100 ms, and then each its own second
			t.Errorf("request %d took %v", i, took)
		}
	})
}

// TestLeaveBatch: a request that ends while it waits has not happened; of one that a batch has begun with nobody knows.
func TestLeaveBatch(t *testing.T) {
	c := newFilterCluster(t, newSched(7), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Timeout: 10 * time.Second, SendTimeout: 10 * time.Second})
	f := filterOf(1, 1)
	b := co.MarkBatches(f)
	for _, l := range c.links {
		l.fault = func() string { return "lost" }
	}
	for i, left := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} { // the batch before is slow after 100 ms
		ended, end := context.WithCancel(ctx)
		all(t, c, 2, func(k int) {
			if k == 0 {
				c.s.After(left, end)
				_, err := b.Do(ctx, [][]byte{fmt.Appendf(nil, "first %d", i)})
				if err == nil {
					t.Error("replicas that hang have marked a key")
				}
				return
			}
			c.s.Sleep(time.Millisecond)
			_, err := b.Do(ended, [][]byte{fmt.Appendf(nil, "second %d", i)})
			if unknown := i == 1; err == nil || errors.Is(err, coord.ErrUnknown) != unknown || !errors.Is(err, context.Canceled) {
				t.Errorf("left after %v: %v", left, err)
			}
		})
		c.s.run(t, 30*minute, func() { c.s.Sleep(20 * time.Minute) })
		calls := c.links[0].calls
		if want := []int{1, 3}[i]; calls != want {
			t.Errorf("left after %v: the first replica was asked %d times, want %d", left, calls, want)
		}
	}
}
