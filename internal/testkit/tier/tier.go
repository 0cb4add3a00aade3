// Package tier says how much of its work a test does. There are three tiers:
//
//   - a short run, which is go test -short: the race pass;
//   - a push, which is a plain go test ./...: tests that repeat one check at thousands of places do a share of them, which changes
//     from run to run;
//   - a full run, with BIGSET_TESTS=full in the environment: everything.
//
// Tests with goroutines run for seconds, or with -engine.long for minutes; -engine.seed repeats the numbers that they draw. Both flags
// exist in each test binary that imports this package.
//
// A share is chosen by the turn, a number. BIGSET_TURN sets it; without it each process draws one. Runs with consecutive turns
// together cover every place. A test that fails prints the command that repeats it with its turn.
//
// Two shares of one test must not be nested, as in a loop over i in one share and j in another. Both have the same turn, so i and j
// would never be the first place of one and the second of the other. Such a test numbers the pairs of i and j, and takes one share
// of these.
//
// The package imports nothing of the module, so that the tests of every package can use it.
package tier

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The environment variables that choose a tier and a turn.
const (
	testsVariable = "BIGSET_TESTS"
	turnVariable  = "BIGSET_TURN"
)

// Full reports whether this is a full run.
func Full() bool { return os.Getenv(testsVariable) == "full" && !testing.Short() }

// Pick returns the first value in a short run, the second at a push, and the third in a full run.
func Pick[T any](short, push, full T) T {
	switch {
	case testing.Short():
		return short
	case Full():
		return full
	}
	return push
}

// Long makes tests with goroutines run for minutes instead of seconds: go test ./engine -engine.long -run Readers.
var Long = flag.Bool("engine.long", false, "run the concurrent tests for minutes instead of seconds")

var seed = flag.Uint64("engine.seed", 0, "the seed of the concurrent tests; 0 draws one")

// Random returns a generator that prints its seed when the test fails: -engine.seed repeats its numbers. A seed repeats the
// operations of a run, but not their interleaving.
func Random(t testing.TB) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat: -engine.seed=%d", s)
		}
	})
	return rand.New(rand.NewPCG(s, 0))
}

// Times returns n in a full run, a part of it in a short run and at a push, and a multiple with -engine.long.
func Times(n int) int {
	if *Long {
		return 40 * n
	}
	return max(1, Pick(n/8, n/2, n))
}

// Breathe is for loops that run as often as they can, beside what is tested: after each eighth round it pauses for a millisecond in a
// short run and at a push, so that other tests get the processors. Nothing pauses in a full run. round counts the rounds of the loop.
func Breathe(round int) {
	if round%8 == 7 && !Full() && !*Long {
		time.Sleep(time.Millisecond)
	}
}

// Share is the part of many places at which a test does its check: each place whose number modulo Every is First.
type Share struct {
	Every int // 1 is all places
	First int // below Every
}

// ShareOf returns the share for this run: one place in short in a short run, one in push at a push, all of them in a full run. If
// the test fails, it prints how to repeat the same share.
func ShareOf(t testing.TB, short, push int) Share {
	t.Helper()
	every := max(1, Pick(short, push, 1))
	s := Share{Every: every, First: turn(t) % every}
	if every > 1 {
		t.Cleanup(func() {
			if t.Failed() {
				test, _, _ := strings.Cut(t.Name(), "/")
				t.Logf("one place in %d was checked, beginning with place %d; to repeat it: %s=%d go test%s -run '^%s$'",
					s.Every, s.First, turnVariable, s.First, map[bool]string{true: " -short"}[testing.Short()], test)
			}
		})
	}
	return s
}

// Turn returns the turn of this run, for a test that draws other cases at each turn. It is 0 in a full run. If the test fails, it
// prints how to repeat the same turn.
func Turn(t testing.TB) int {
	t.Helper()
	if Full() {
		return 0
	}
	n := turn(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d repeats what was drawn", turnVariable, n)
		}
	})
	return n
}

// Has reports whether a place, counted from 0, belongs to the share.
func (s Share) Has(place int) bool { return place%s.Every == s.First }

// Count reports how much a test did, such as the number of crashes that it survived: go test -v prints it as an attribute of the
// test. The counts of one test with the same name add up.
func Count(t testing.TB, what string, n int) {
	t.Helper()
	t.Attr(what, strconv.Itoa(n))
}

var drawTurn = sync.OnceValue(func() int { return rand.IntN(1 << 20) })

func turn(t testing.TB) int {
	text := os.Getenv(turnVariable)
	if text == "" {
		return drawTurn()
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, want a number from 0 on", turnVariable, text)
	}
	return n
}
