// Package spec decides what a workload is: stores, sets, phases of operations, and assertions about the figures that come of them. It knows no
// engine and runs nothing.
//
// A workload is written as a file, which package parser reads; package workloads has the ready ones.
//
//	name: churn
//	about: one turnover of a set with uniform victims
//	size: 16k
//	phases:
//	  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 1000}
//	  - {name: main, ops: 200%, mix: {exchange: 1}, batch: 50, settle: true}
//	assert:
//	  - that: write_amp(main) <= 60
//
// Begin reading at spec.go, which has all types. figures.go has the names that assertions may use, options.go those of options of Pebble, and
// schema.json is for editors. docs/workloads.md is the reference for those who write files.
//
// Nothing here changes its arguments. A Workload belongs to the caller; every function may be called by any goroutine.
package spec
