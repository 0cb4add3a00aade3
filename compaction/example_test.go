package compaction_test

import (
	"errors"
	"fmt"

	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

// A registry is a value: the drop filter asks the published one while With makes the next.
func ExampleRegistry() {
	prefix := keyscheme.NewPrefix([]byte("friends"))
	dead := clock.Of(clock.Dot{Actor: "n", Counter: 7})

	empty := new(compaction.Registry)
	next := empty.With(map[string]*clock.Clock{string(prefix): dead})
	for _, r := range []*compaction.Registry{empty, next} {
		fmt.Println(r.Len(), r.Droppable(prefix, []byte("n"), 7), r.Droppable(prefix, []byte("n"), 8))
	}
	// Output:
	// 0 false false
	// 1 true false
}

// The densest span comes first; of two that are equally dense, the cheaper one.
func ExampleIndex() {
	index := compaction.NewIndex()
	index.Put(compaction.Span{Lower: []byte("a"), Keys: 64, Dead: 16, Bytes: 1 << 20})
	index.Put(compaction.Span{Lower: []byte("m"), Keys: 64, Dead: 48, Bytes: 8 << 20})
	index.Put(compaction.Span{Lower: []byte("t"), Keys: 64, Dead: 48, Bytes: 2 << 20})
	for span, ok := index.Densest(); ok; span, ok = index.Densest() {
		fmt.Printf("%s: %.2f dead, %d MiB\n", span.Lower, span.Density(), span.Bytes>>20)
		index.Remove(span.Lower)
	}
	// Output:
	// t: 0.75 dead, 2 MiB
	// m: 0.75 dead, 8 MiB
	// a: 0.25 dead, 1 MiB
}

// A custom policy: the drop filter, and a rewriter that waits until half of what is in tables is garbage.
func ExamplePolicy() {
	lazy := compaction.Policy{Label: "lazy", Record: compaction.Merge, Filter: true, Rewrite: true, Excess: 1, Idle: 1}
	fmt.Println("default", compaction.Default().Wants(compaction.Load{Keys: 150_000, Live: 100_000}))
	fmt.Println("lazy   ", lazy.Wants(compaction.Load{Keys: 150_000, Live: 100_000}))
	fmt.Println("lazy   ", lazy.Wants(compaction.Load{Keys: 250_000, Live: 100_000}))
	fmt.Println("on set records:", errors.Is(lazy.WorksOn(compaction.Set), compaction.ErrStrategy))
	// Output:
	// default true
	// lazy    false
	// lazy    true
	// on set records: true
}

func ExampleByName() {
	for _, s := range compaction.Strategies() {
		fmt.Printf("%-13s merge %-5v set %v\n", s.Name(), s.WorksOn(compaction.Merge) == nil, s.WorksOn(compaction.Set) == nil)
	}
	_, err := compaction.ByName("magic")
	fmt.Println(errors.Is(err, compaction.ErrStrategy))
	// Output:
	// default       merge true  set false
	// filter        merge true  set false
	// rewriter      merge true  set true
	// point-deletes merge false set true
	// none          merge true  set true
	// true
}
