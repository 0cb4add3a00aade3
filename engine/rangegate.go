package engine

import (
	"time"

	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// rangeGate lets the rewriter hold the writers of many sets at once, including sets that do not exist yet. A
// goroutine that loads a set or leads its writers is inside the gate. A set that is written while a sweep covers it
// is logged. While the sweep swaps, the gate keeps out loads and writes of the sets that it covers: a load in the
// middle of a swap would find no clock.
type rangeGate struct {
	mu    lockorder.RWMutex[lockorder.GateMu] // read-locked by those inside
	holds lockorder.Turn[lockorder.GateHeld]  // of the goroutine for which others wait
	sweep *sweep                              // the current one; may be nil
	held  chan struct{}                       // closed when waiting goroutines may continue; nil while none has to wait

	waited lsm.Timing // how long goroutines waited at the gate
}

// enter waits until the caller may load or write a set. The caller must call leave afterwards. Calls must not nest.
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

// begin runs f while nobody is inside. From then on the sweep logs the sets that are written.
func (g *rangeGate) begin(w *sweep, f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := f()
	if err == nil {
		g.sweep = w
	}
	return err
}

// alone runs f while nobody is inside.
func (g *rangeGate) alone(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f()
}

// end ends the sweep.
func (g *rangeGate) end() {
	g.mu.Lock()
	g.sweep = nil
	g.mu.Unlock()
}

// holding runs f while nobody writes or loads a set below upper that the sweep covers. From upper on, the sweep
// covers no set.
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

// lateSetsLogged bounds the sets that are logged: a sweep that has not found its end yet covers all sets after its
// start.
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
