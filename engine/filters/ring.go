package filters

import "bigset/engine/internal/lockorder"

// ring holds the open slices that may have pages that can leave memory, in a ring. Its hand stays where the last trim ended, so
// that the cost of trim depends on the slices that it looks at, not on all that are open. Every call takes constant time. Any
// number of goroutines may call it.
type ring struct {
	mu    lockorder.Mutex[lockorder.RingMu]
	parts []*filterSlice // each knows its place
	hand  int            // the place of what next returns
	looks uint64         // calls of next
}

// add puts an open slice into the ring, if it is not in it. Pages of a filter that is only in memory never leave it, so its slices
// stay outside.
func (r *ring) add(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.place > 0 || f.slice.Load() == nil || f.opt.Load().InMemory {
		return
	}
	r.parts = append(r.parts, f)
	f.place = int32(len(r.parts))
}

// remove removes a slice that was just closed.
func (r *ring) remove(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(f)
}

// rest removes an open slice without pages until it is used again. A slice that was used since trim looked at it stays.
func (r *ring) rest(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if used := f.used.Load(); used&usedSinceTrim == 0 && f.used.CompareAndSwap(used, used&^usedInRing) {
		r.take(f)
	}
}

// take removes a slice, if it is in the ring. The last one moves to its place. The lock is held.
func (r *ring) take(f *filterSlice) {
	if f.place == 0 {
		return
	}
	end := len(r.parts) - 1
	last := r.parts[end]
	r.parts[f.place-1], last.place = last, f.place
	r.parts[end], f.place = nil, 0
	r.parts = r.parts[:end]
}

// next returns the slice at the hand, and advances the hand. It returns nil if no slice is open.
func (r *ring) next() *filterSlice {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.parts) == 0 {
		return nil
	}
	r.looks++
	r.hand = r.hand % len(r.parts)
	f := r.parts[r.hand]
	r.hand++
	return f
}

func (r *ring) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parts)
}
