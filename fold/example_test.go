package fold_test

import (
	"fmt"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// The keys of a set go by, two of their four dots are dead: one element is absent, one is present by its newer dot.
func Example() {
	dot := func(n uint64) clock.Dot { return clock.Dot{Actor: "n", Counter: n} }
	dead := clock.Of(dot(1), dot(3))

	f := fold.New(dead, fold.Options{})
	for _, key := range []struct {
		element string
		counter uint64
	}{{"ada", 1}, {"ada", 2}, {"bob", 3}, {"eve", 4}} {
		if err := f.Step([]byte(key.element), []byte("n"), key.counter, keyscheme.OpAdd, keyscheme.ResolvedValue); err != nil {
			panic(err)
		}
	}
	chunk := f.Chunk(true)
	for _, e := range chunk.Elements {
		fmt.Printf("%s by %d\n", e.Name, e.Dots[0].Counter)
	}
	fmt.Println(chunk.Scanned, "keys,", chunk.Dead, "dead")
	// Output:
	// ada by 2
	// eve by 4
	// 4 keys, 2 dead
}

// A chunk that is full ends between two elements. Its bound says up to where it is complete.
func ExampleFolder_Starts() {
	f := fold.New(new(clock.Clock), fold.Options{ElementsMax: 2})
	for n, element := range []string{"ada", "bob", "eve"} {
		if f.Starts([]byte(element)) {
			chunk := f.Chunk(false)
			fmt.Printf("%d elements up to %s\n", chunk.Count, chunk.Bound)
		}
		if err := f.Step([]byte(element), []byte("n"), uint64(n+1), keyscheme.OpAdd, keyscheme.ResolvedValue); err != nil {
			panic(err)
		}
	}
	fmt.Println(f.Chunk(true).Count, "more")
	// Output:
	// 2 elements up to bob
	// 1 more
}
