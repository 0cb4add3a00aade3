// Package spec decides what a workload is: stores, sets, phases of operations, and assertions about the resulting figures. It knows no
// engine and runs nothing.
//
// A workload is written as a file, which package parser reads. Package workloads contains the ready ones.
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
// Begin reading at spec.go, which contains all types. figures.go contains the names that assertions may use, options.go those of options of
// Pebble, and schema.json is for editors. docs/workloads.md is the reference for authors of files.
//
// No function changes its arguments. A Workload belongs to the caller; every function may be called by any goroutine.
package spec
