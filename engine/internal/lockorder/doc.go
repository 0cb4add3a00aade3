// Package lockorder has the mutexes of the engine and the one order in which a goroutine takes them. Goroutines that take locks in
// one order never wait for each other in a circle.
//
//	mu lockorder.Mutex[lockorder.SetMu]      the field of a struct, and its place in Order
//
// A lock may be taken while locks before it in Order are held, but not while it, or one after it, is held. When built for the race
// detector, each mutex checks this: it panics, and names both locks. So a test finds an order that could deadlock even if the test
// itself does not deadlock. Otherwise Mutex, RWMutex and Once are those of package sync, and a Turn does nothing.
//
//   - A read lock counts as a lock: a second one would wait for a writer that waits for the first.
//   - A TryLock is not checked, because it does not wait. If it succeeds, the lock counts as held.
//   - Several locks of one place may be held at the same time only if Order names the lock under which this is done: then only one
//     goroutine at a time does it.
//   - A lock must be released by the goroutine that took it.
//
// A goroutine that was started by another is checked separately: the check does not know that the other one waits for it.
//
// The zero value of each type is ready. All methods may be called by any number of goroutines.
package lockorder
