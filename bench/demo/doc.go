// Package demo decides what a newcomer sees in a minute: it is the library of `bigset demo`.
//
//	Run ─┬─ race    bench.Race: set-tombstones and point deletes on the same work, in turns
//	     ├─ drill   internal/sim: three replicas over real engines, and faults
//	     └─ Result  figures with their ratios, what the checks found, pass or fail
//
// While Run works, it calls Config.Show with States, which View draws in place on a terminal and Lines writes as plain lines.
// Afterwards WriteText prints the verdict, and WritePage the report. The package itself measures and checks nothing: the figures are those
// of package bench, the checks those of the simulation.
//
// Begin reading at demo.go. Only one goroutine of a process may call Run at a time.
package demo
