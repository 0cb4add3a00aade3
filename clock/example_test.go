package clock_test

import (
	"fmt"

	"bigset/clock"
)

// A gap that closes: the cloud becomes part of the base.
func ExampleClock_Add() {
	seen := new(clock.Clock)
	for _, n := range []uint64{1, 2, 4, 5} {
		seen.Add(clock.Dot{Actor: "a", Counter: n})
	}
	fmt.Println(seen, "base", seen.Base("a"), "gaps", seen.GapCount())
	seen.Add(clock.Dot{Actor: "a", Counter: 3})
	fmt.Println(seen, "base", seen.Base("a"), "gaps", seen.GapCount())
	// Output:
	// {61:1-2,4-5} base 2 gaps 1
	// {61:1-5} base 5 gaps 0
}

// Two replicas exchange their encoded clocks. What is live is what was seen and is not dead.
func ExampleClock_UnionEncoded() {
	here := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "a", Counter: 2})
	there := clock.Of(clock.Dot{Actor: "b", Counter: 1})
	if err := here.UnionEncoded(there.Append(nil)); err != nil {
		fmt.Println(err)
	}
	live := here.Clone()
	live.Subtract(clock.Of(clock.Dot{Actor: "a", Counter: 1}))
	fmt.Println("seen", here, "live", live)
	// Output:
	// seen {61:1-2 62:1} live {61:2 62:1}
}
