package bench_test

import (
	"context"
	"fmt"
	"os"

	"bigset/bench"
)

func ExampleRun() {
	report, err := bench.Run(context.Background(), bench.Config{Workloads: []string{"insert"}, Elements: 200, Rounds: 1, MemTableBytes: 1 << 20})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, row := range report.Results {
		fmt.Println(row.Workload, row.System, row.Elements, row.Ops)
	}
	// Output:
	// insert bigset 200 200
	// insert pebble 200 200
	// insert blob 200 200
}
