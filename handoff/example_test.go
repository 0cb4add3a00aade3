package handoff_test

import (
	"fmt"

	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
)

// A receiver copies a set in two chunks. One key was lost on the way: the check at the end names its dot.
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	alice := handoff.Source{Node: "alice", Incarnation: "A1"}
	set := []byte("friends")
	one, two := clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "a", Counter: 2}
	seen := clock.Of(one) // by the receiver, which has got the key of one dot only

	p := handoff.New(alice, handoff.Range{First: 0, Last: keyscheme.SlotMax})
	_, _, err := p.Begin(set)
	check(err)
	check(p.Took(handoff.Chunk{From: alice, Set: set, Bound: []byte("m"), Seen: clock.Of(one, two)}))
	p, err = handoff.Decode(p.Append(nil)) // the receiver was started again
	check(err)
	after, whole, err := p.Begin(set)
	check(err)
	fmt.Printf("continues after %s: %v\n", after, !whole)

	check(p.Took(handoff.Chunk{From: alice, Set: set, Done: true}))
	missing, err := p.Finish(seen)
	check(err)
	fmt.Println("missing", missing)
	fmt.Println("missing", p.Settle(set, clock.Of(one, two)), p.Incomplete())
	// Output:
	// continues after m: true
	// missing {61:2}
	// missing {} <nil>
}
