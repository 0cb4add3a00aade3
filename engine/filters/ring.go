package filters

import "bigset/engine/internal/lockorder"

// ring holds the open slices that may have pages which can leave memory, in a ring. Its hand stays where the last trim ended, so that
// trim pays for the slices that it looks at, and not for all that are open. Every call takes constant time. Any number of goroutines may call
// it.
type ring struct {
	mu    lockorder.Mutex[lockorder.RingMu]
	parts []*filterSlice // each knows its place
	hand  int            // the place of what next returns
	looks uint64         // calls of next
}

// add puts an open slice into the ring, if it is not there. Pages of one that is in memory only never leave it, so it stays outside.
func (r *ring) add(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.place > 0 || f.slice.Load() == nil || f.opt.Load().InMemory {
		return
	}
	r.parts = append(r.parts, f)
	f.place = int32(len(r.parts))
}

// remove takes a slice out that was closed just now.
func (r *ring) remove(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(f)
}

// rest takes an open slice out that has no pages, until it is used again. One that was used since trim looked at it stays.
func (r *ring) rest(f *filterSlice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if used := f.used.Load(); used&usedSinceTrim == 0 && f.used.CompareAndSwap(used, used&^usedInRing) {
		r.take(f)
	}
}

// take takes a slice out, if it is in the ring. The last one moves to its place. The lock is held.
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

// next returns the slice at the hand, and moves the hand on. It returns nil where no slice is open.
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
