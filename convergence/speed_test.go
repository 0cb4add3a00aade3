package convergence_test

import (
	"testing"

	"bigset/convergence"
	"bigset/convergence/internal/textbook"
)

// BenchmarkSchedules runs schedules over an observed-remove set in memory, with one worker and with two.
func BenchmarkSchedules(b *testing.B) {
	for name, workers := range map[string]int{"workers=1": 1, "workers=2": 2} {
		b.Run(name, func(b *testing.B) {
			r, err := convergence.Explore(b.Context(), textbook.Correct()[0], convergence.Options{Seed: 1, Schedules: b.N, Workers: workers})
			if err != nil || r.Failure != nil {
				b.Fatal(err, r.Failure)
			}
			b.ReportMetric(float64(b.N)/r.Elapsed.Seconds(), "schedules/s")
		})
	}
}
