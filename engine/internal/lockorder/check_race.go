//go:build race

package lockorder

import (
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
)

// goroutine is the set of locks that a goroutine holds. Only that goroutine uses it.
type goroutine struct {
	id   uintptr // 0 if unused
	used int
	held [heldMax]hold
}

// hold is one place that is held.
type hold struct {
	place  int
	shared bool // as far as it is known: from the lock that was taken first
	times  int  // how many locks of the place
}

const (
	heldMax       = 16      // places whose locks a goroutine may hold at the same time
	goroutinesMax = 1 << 14 // the number of goroutines that are checked at the same time; more are not checked
)

// goroutines is a hash table by id with open addressing. An id is never removed: the runtime gives the id of a goroutine that has
// ended to a later one, so the table never has more ids than there were goroutines at the same time. A lock that is held when its
// goroutine ends passes to the later one.
var goroutines [goroutinesMax]goroutine

// places has the index of each rank in Order.
var places = func() map[reflect.Type]int {
	m := map[reflect.Type]int{}
	for i, l := range Order {
		m[reflect.TypeOf(l.Rank)] = i
	}
	return m
}()

// placeOf returns the index of a rank in Order.
func placeOf[R Rank]() int {
	i, ok := places[reflect.TypeFor[R]()]
	if !ok {
		panic(fmt.Sprintf("lockorder: %v is not in Order", reflect.TypeFor[R]()))
	}
	return i
}

// self returns the calling goroutine, or nil if the table is full. Nothing here may order goroutines for the race detector, because
// it would then miss races that these mutexes do not prevent.
//
//go:norace
func self() *goroutine {
	id := selfID()
	if id == 0 {
		return nil
	}
	at := id >> 6 * hashFactor >> hashShift
	for range goroutinesMax {
		g := &goroutines[at%goroutinesMax]
		if g.id == id || g.id == 0 && g.claim(id) {
			return g
		}
		at++
	}
	return nil
}

// Fibonacci hashing: the upper bits of the product are the hash.
const (
	hashFactor = 0x9e3779b97f4a7c15
	hashShift  = 64 - 14
)

func (g *goroutine) claim(id uintptr) bool {
	runtime.RaceDisable()
	defer runtime.RaceEnable()
	return atomic.CompareAndSwapUintptr(&g.id, 0, id)
}

// take records that the goroutine is about to take a lock, and panics if that is out of order.
//
//go:norace
func take(place int, shared bool) {
	g := self()
	if g == nil {
		return
	}
	for i := range g.used {
		if h := &g.held[i]; h.place > place || h.place == place && !Order[place].Again && !g.mayTakeSeveral(place) {
			panic(outOfOrder(place, h.place))
		}
	}
	g.add(place, shared)
}

// mayTakeSeveral reports whether the goroutine holds the lock under which several locks of a place may be taken.
//
//go:norace
func (g *goroutine) mayTakeSeveral(place int) bool {
	under := Order[place].Under
	if under == nil {
		return false
	}
	for i := range g.used {
		if h := &g.held[i]; Order[h.place].Rank == under && !h.shared {
			return true
		}
	}
	return false
}

func outOfOrder(place, held int) string {
	if place == held {
		return fmt.Sprintf("lockorder: %s is taken while it is held", Order[place].Name)
	}
	return fmt.Sprintf("lockorder: %s is taken while %s is held, which comes after it", Order[place].Name, Order[held].Name)
}

// add records a lock that the goroutine has taken.
//
//go:norace
func (g *goroutine) add(place int, shared bool) {
	if g == nil {
		return
	}
	for i := range g.used {
		if h := &g.held[i]; h.place == place {
			h.times++
			return
		}
	}
	if g.used == heldMax {
		panic("lockorder: too many locks are held at the same time")
	}
	g.held[g.used] = hold{place, shared, 1}
	g.used++
}

// leave records that the goroutine releases a lock.
//
//go:norace
func leave(place int) {
	g := self()
	if g == nil {
		return
	}
	for i := range g.used {
		h := &g.held[i]
		if h.place != place {
			continue
		}
		if h.times--; h.times == 0 {
			copy(g.held[i:g.used], g.held[i+1:g.used])
			g.used--
		}
		return
	}
	panic(fmt.Sprintf("lockorder: %s is released by a goroutine that did not take it", Order[place].Name))
}
