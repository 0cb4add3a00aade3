// Package lockorder has the mutexes of the engine and the one order in which a goroutine takes them. Two goroutines that take locks in one
// order never wait for each other in a circle.
//
//	mu lockorder.Mutex[lockorder.SetMu]      the field of a struct, and its place in Order
//
// A lock may be taken while locks before it in Order are held, and not while it, or one after it, is held. Built for the race detector each
// mutex checks that: it panics, and names both locks. So a test finds an order that could deadlock even if it does not deadlock in it.
// Otherwise Mutex, RWMutex and Once are those of package sync, and a Turn is nothing.
//
//   - A read lock counts as a lock: a second one waits for a writer that waits for the first.
//   - A lock that is only tried is not checked, for nobody waits for it. It counts as held.
//   - Several locks of one place may be held together only where Order names the lock under which that is done: then one goroutine at a time
//     does it.
//   - A lock is given up by the goroutine that took it.
//
// What a goroutine that was started by another one takes is checked by itself: that the other one waits for it is not known here.
//
// The zero value of each type is ready. All methods may be called by any number of goroutines.
package lockorder
