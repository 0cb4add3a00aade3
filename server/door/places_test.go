package door

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPlaces: while loops have requests, as many connections do a part of long work as there are places, and one that waits for long goes on without. Otherwise none waits.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const wait = 10 * time.Millisecond
	s := &Server{places: places{taken: make(chan struct{}, 1), wait: wait}}
	a, b := &Conn{s: s}, &Conn{s: s}
	if a.NextPart(); a.placed {
		t.Error("no loop has requests, and a part takes a place")
	}
	a.EndParts()
	s.places.asked.begin(time.Now(), time.Hour)
	for range 3 {
		if a.NextPart(); !a.placed {
			t.Fatal("a part takes no place though one is free")
		}
	}
	began := time.Now()
	if b.NextPart(); b.placed || time.Since(began) < wait {
		t.Errorf("a part begins after %v though all places are taken", time.Since(began))
	}
	a.EndParts()
	b.EndParts()
	if n := len(s.places.taken); n != 0 {
		t.Errorf("%d places are taken at the end", n)
	}
	for _, test := range []struct{ processors, loops, want int }{{1, 1, 1}, {2, 1, 1}, {2, -1, 2}, {8, 1, 7}, {8, 4, 4}, {8, 64, 4}} {
		if n := placesOf(test.processors, test.loops); n != test.want {
			t.Errorf("%d processors, %d loops: %d places, want %d", test.processors, test.loops, n, test.want)
		}
	}
	var wg sync.WaitGroup
	var held atomic.Int32
	for range 4 {
		wg.Go(func() {
			c := &Conn{s: s}
			defer c.EndParts()
			for range 50 {
				c.NextPart()
				if !c.placed {
					continue
				}
				if n := held.Add(1); n > 1 {
					t.Errorf("%d parts at the same time", n)
				}
				held.Add(-1)
			}
		})
	}
	wg.Wait()
}
