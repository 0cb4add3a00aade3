//go:build !race

package lockorder

import "sync"

// Mutex is a sync.Mutex of a place in Order.
type Mutex[R Rank] = sync.Mutex

// RWMutex is a sync.RWMutex of a place in Order.
type RWMutex[R Rank] = sync.RWMutex

// Once is a sync.Once of a place in Order: waiting for the one call counts as a lock.
type Once[R Rank] = sync.Once

// Turn stands for something that is held between two calls but is not a mutex: a place in a queue, a channel that others wait for,
// another package's locks. It excludes no other goroutine, and exists only for the check.
type Turn[R Rank] struct{}

// Take begins the turn. Leave ends it.
func (*Turn[R]) Take() {}

// Leave ends the turn.
func (*Turn[R]) Leave() {}
