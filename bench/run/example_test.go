package run_test

import (
	"context"
	"fmt"
	"log"

	"bigset/bench/run"
	"bigset/bench/spec/parser"
)

// A workload is run beside raw Pebble, and its assertions are judged.
func Example() {
	const file = `
name: tiny
about: adds beside raw Pebble
size: 1000
systems: [bigset, pebble]
phases:
  - {name: main, ops: 100%, mix: {add: 1}, batch: 50, settle: true}
assert:
  - that: ops(main, bigset) / ops(main, pebble) >= 1
    means: as many operations
`
	w, err := parser.Parse("tiny.yaml", []byte(file), parser.Known{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := run.Run(context.Background(), w, run.Options{Rounds: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		fmt.Println(r.Workload, r.System, r.Ops, len(r.Rounds), r.StreamHash == rows[0].StreamHash)
	}
	for _, v := range run.Judge(w, rows, "") {
		fmt.Println(v)
	}
	// Output:
	// tiny bigset 1000 2 true
	// tiny pebble 1000 2 true
	// as many operations: 1 (1..1), wanted >= 1: met
}
