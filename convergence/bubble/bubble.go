// Package bubble runs schedules of package convergence in bubbles of testing/synctest. It is for replicas that start goroutines of
// their own, and that communicate through channels, mutexes and timers rather than through real connections or files.
//
// In a bubble the kit knows when all goroutines of a schedule are blocked, and waits for that after each step. Time in a bubble is
// not real time: a sleep of an hour takes no time, and timers fire only when the schedule lets time pass. Failures of schedules
// with goroutines reproduce more often than in real time, and a schedule that would wait forever ends at once, with the stacks of
// its goroutines.
package bubble

import (
	"testing"
	"testing/synctest"
	"time"

	"bigset/convergence"
)

// In returns a system that runs each of its schedules in a bubble of its own, even if several run concurrently.
//
//	func TestConverges(t *testing.T) {
//		convergence.Run(t, bubble.In(t, system, 0), convergence.Options{})
//	}
//
// pass is how much of the bubble's time passes in each step: as long as a replica may take for what it was given, if it sleeps or
// waits for a timer. With 0, its timers fire only while the replica itself sleeps, as in Maintain or Ask. If a schedule fails, the kit
// also tries it with a pass of ten seconds, and says if that is accepted.
//
// A replica whose goroutines send an operation's messages must call synctest.Wait in Do, and return in Effect.Out what was sent.
// Its Close, Crash and Stop must end its goroutines: a goroutine that is left is a violation. It must make its channels and mutexes
// in Open, in System.Share, or later: a goroutine that waits for one made outside the bubble does not count as blocked.
func In(t *testing.T, sys convergence.System, pass time.Duration) convergence.System {
	sys.WithinPass = func(p time.Duration) func(schedule func(wait func())) {
		wait := func() {
			time.Sleep(p)
			synctest.Wait()
		}
		return func(schedule func(wait func())) {
			synctest.Test(t, func(*testing.T) { schedule(wait) })
		}
	}
	sys.Within = sys.WithinPass(pass)
	return sys
}
