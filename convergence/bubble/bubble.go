// Package bubble runs schedules of package convergence in bubbles of testing/synctest, for replicas that have goroutines of their own and
// talk through channels, mutexes and timers, not through real connections or files.
//
// In a bubble the kit knows when all goroutines of a schedule have come to rest, and waits for that after each step. Time there is not
// the real one: a sleep of an hour takes no time, and timers go off only when the schedule lets time pass. Schedules with goroutines fail
// again more often than by the real clock, and one that waits for ever ends at once, with the stacks of its goroutines.
package bubble

import (
	"testing"
	"testing/synctest"
	"time"

	"bigset/convergence"
)

// In returns the system with each of its schedules in a bubble of its own, also where several run at once.
//
//	func TestConverges(t *testing.T) {
//		convergence.Run(t, bubble.In(t, system, 0), convergence.Options{})
//	}
//
// So much of the bubble's time passes in each step: as long as a replica may take with what it was given, if it sleeps or waits for a
// timer. 0 is none: then its timers go off only where the replica itself sleeps, as in Maintain or Ask.
//
// A replica whose goroutines send what an operation tells calls synctest.Wait in Do, and returns in Effect.Out what was sent. Its Close,
// Crash and Stop end its goroutines: one that is left is a violation. Its channels and mutexes are made in Open, in System.Share, or later:
// what was made outside the bubble does not count as waiting.
func In(t *testing.T, sys convergence.System, pass time.Duration) convergence.System {
	wait := func() {
		time.Sleep(pass)
		synctest.Wait()
	}
	sys.Within = func(schedule func(wait func())) {
		synctest.Test(t, func(*testing.T) { schedule(wait) })
	}
	return sys
}
