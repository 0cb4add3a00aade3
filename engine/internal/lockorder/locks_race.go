//go:build race

package lockorder

import "sync"

// known is the place of a lock, once it was looked up.
type known[R Rank] struct{ placeAnd1 int }

//go:norace
func (k *known[R]) place() int {
	if k.placeAnd1 == 0 {
		k.placeAnd1 = placeOf[R]() + 1
	}
	return k.placeAnd1 - 1
}

// Mutex is a sync.Mutex of a place in Order.
type Mutex[R Rank] struct {
	known[R]
	mu sync.Mutex
}

// Lock locks the mutex. It panics if the goroutine holds the lock or one that comes after it.
func (m *Mutex[R]) Lock() {
	take(m.place(), false)
	m.mu.Lock()
}

// TryLock tries to lock the mutex.
func (m *Mutex[R]) TryLock() bool {
	got := m.mu.TryLock()
	if got {
		self().add(m.place(), false)
	}
	return got
}

// Unlock unlocks the mutex. It panics if another goroutine has locked it.
func (m *Mutex[R]) Unlock() {
	leave(m.place())
	m.mu.Unlock()
}

// RWMutex is a sync.RWMutex of a place in Order.
type RWMutex[R Rank] struct {
	known[R]
	mu sync.RWMutex
}

// Lock is Mutex.Lock.
func (m *RWMutex[R]) Lock() {
	take(m.place(), false)
	m.mu.Lock()
}

// TryLock is Mutex.TryLock.
func (m *RWMutex[R]) TryLock() bool {
	got := m.mu.TryLock()
	if got {
		self().add(m.place(), false)
	}
	return got
}

// Unlock is Mutex.Unlock.
func (m *RWMutex[R]) Unlock() {
	leave(m.place())
	m.mu.Unlock()
}

// RLock locks for reading. It panics when Lock does.
func (m *RWMutex[R]) RLock() {
	take(m.place(), true)
	m.mu.RLock()
}

// TryRLock tries to lock for reading. It waits for nobody, so it is allowed in any order.
func (m *RWMutex[R]) TryRLock() bool {
	got := m.mu.TryRLock()
	if got {
		self().add(m.place(), true)
	}
	return got
}

// RUnlock undoes RLock.
func (m *RWMutex[R]) RUnlock() {
	leave(m.place())
	m.mu.RUnlock()
}

// Once is a sync.Once of a place in Order: waiting for the one call counts as a lock.
type Once[R Rank] struct{ once sync.Once }

// Do calls f if no call of Do has begun before. It returns when the one call has ended.
func (o *Once[R]) Do(f func()) {
	take(placeOf[R](), false)
	defer leave(placeOf[R]())
	o.once.Do(f)
}

// Turn stands for something that is held between two calls but is not a mutex: a place in a queue, a channel that others wait for,
// another package's locks. It excludes no other goroutine, and exists only for the check.
type Turn[R Rank] struct{}

// Take begins the turn. It panics when Mutex.Lock does.
func (*Turn[R]) Take() { take(placeOf[R](), false) }

// Leave ends the turn.
func (*Turn[R]) Leave() { leave(placeOf[R]()) }
