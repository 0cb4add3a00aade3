package engine

import (
	"time"

	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// rangeGate lets the rewriter hold the writers of many sets at once, also of sets that do not exist yet. Who loads a set or leads
// it is inside for that time. A set that is written while a sweep covers it is logged; while the sweep swaps, nobody gets in
// who would write or load one that it covers: a load in the middle of a swap would find no clock.
type rangeGate struct {
	mu    lockorder.RWMutex[lockorder.GateMu] // read-locked by those inside
	holds lockorder.Turn[lockorder.GateHeld]  // of the goroutine for which others wait
	sweep *sweep                              // the one under way; nil when none is
	held  chan struct{}                       // closed when those who wait may go on; nil while nobody has to wait

	waited lsm.Timing // how long those waited who had to
}

// enter lets somebody in who is going to load a set, or to write it. leave undoes it. It is not to be nested.
func (g *rangeGate) enter(prefix keyscheme.Prefix, writes bool) {
	for {
		g.mu.RLock()
		if g.sweep == nil || !g.sweep.covers(prefix) {
			return
		}
		if g.held == nil {
			if writes {
				g.sweep.late.log(prefix)
			}
			return
		}
		held := g.held
		g.mu.RUnlock()
		began := time.Now()
		<-held
		g.waited.Observe(began)
	}
}

func (g *rangeGate) leave() { g.mu.RUnlock() }

// begin runs f while nobody is inside; from then on the sets that are written are logged by the sweep.
func (g *rangeGate) begin(w *sweep, f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := f()
	if err == nil {
		g.sweep = w
	}
	return err
}

// end ends the sweep.
func (g *rangeGate) end() {
	g.mu.Lock()
	g.sweep = nil
	g.mu.Unlock()
}

// holding runs f while nobody writes or loads a set below upper that the sweep covers; from there on it covers none.
func (g *rangeGate) holding(upper []byte, f func() error) error {
	held := make(chan struct{})
	g.mu.Lock()
	g.sweep.bounds.Upper, g.held = upper, held
	g.mu.Unlock()
	g.holds.Take()
	defer func() {
		g.holds.Leave()
		g.mu.Lock()
		g.held = nil
		g.mu.Unlock()
		close(held)
	}()
	return f()
}

// lateSetsLogged bounds the sets that are logged: a sweep that has not found its end yet covers all that follow.
const lateSetsLogged = 1 << 18

// lateSets logs which sets are written while a sweep copies.
type lateSets struct {
	mu       lockorder.Mutex[lockorder.LateSets]
	prefixes map[string]struct{}
	over     bool // too many
}

func (l *lateSets) log(prefix keyscheme.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, logged := l.prefixes[string(prefix)]; logged || l.over {
		return
	}
	if l.over = len(l.prefixes) == lateSetsLogged; l.over {
		return
	}
	if l.prefixes == nil {
		l.prefixes = map[string]struct{}{}
	}
	l.prefixes[string(prefix)] = struct{}{}
}
