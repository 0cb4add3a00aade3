package readcore_test

import (
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/readcore"
)

// Two replicas answer. One has not seen the second add yet, the other has seen a remove of the third.
func Example() {
	element := func(name string, n uint64) fold.Element {
		return fold.Element{Name: []byte(name), Dots: []clock.Dot{{Actor: "n", Counter: n}}}
	}
	all := &clock.Clock{}
	all.AddRange("n", 1, 3)
	some := clock.Of(clock.Dot{Actor: "n", Counter: 1}, clock.Dot{Actor: "n", Counter: 3})

	m := readcore.New(readcore.Options{Streams: 2})
	for i, c := range []*fold.Chunk{
		{Clock: some, Elements: []fold.Element{element("ada", 1), element("eve", 3)}, Done: true},
		{Clock: all, Elements: []fold.Element{element("ada", 1), element("bob", 2)}, Done: true},
	} {
		if err := m.Admit(i, c); err != nil {
			panic(err)
		}
	}
	r, _ := m.Step()
	for _, e := range r.Elements {
		fmt.Printf("%s\n", e.Name)
	}
	for _, l := range r.Lacking {
		for _, e := range l.Missing {
			fmt.Printf("stream %d misses %s\n", l.Stream, e.Name)
		}
		for _, s := range l.Suspects {
			fmt.Printf("stream %d still has %s, ask stream %d whether it is dead\n", l.Stream, s.Element.Name, s.Witness)
		}
	}
	// Output:
	// ada
	// bob
	// stream 0 misses bob
	// stream 0 still has eve, ask stream 1 whether it is dead
}

// A replica does not show what the other one has: that alone proves nothing, so both are asked what they know of the dot.
func ExampleDecide() {
	n1 := []clock.Dot{{Actor: "n", Counter: 1}}
	d := readcore.Decide([]readcore.Answer{{Live: n1}, {}})
	fmt.Println("ask about", d.Ask)
	d = readcore.Decide([]readcore.Answer{
		{Live: n1, Asked: n1, Statuses: []bigset.DotStatus{bigset.Live}},
		{Asked: n1, Statuses: []bigset.DotStatus{bigset.NotSeen}},
	})
	fmt.Println("present by", d.Dots)
	// Output:
	// ask about [6e:1]
	// present by [6e:1]
}
