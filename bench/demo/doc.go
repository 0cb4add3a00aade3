// Package demo decides what a newcomer is shown in a minute: it is the library behind `bigset demo`.
//
//	Run ─┬─ race    bench.Race: set-tombstones and point deletes on the same work, in turns
//	     ├─ drill   internal/sim: three replicas over real engines, and faults
//	     └─ Result  figures with their ratios, what the checks found, pass or fail
//
// While it runs, a Config's Show is given States, which View draws in place on a terminal and Lines writes as plain lines. When it has
// ended, WriteText prints the verdict, and WritePage the report. Nothing here measures or checks by itself: the figures are those of
// package bench, the checks those of the simulation.
//
// Begin reading at demo.go. Run may be called by one goroutine at a time in a process.
package demo
