// Package spec decides what a workload file says. A file becomes a Workload: stores, sets, phases of operations, and assertions about the
// figures that come of them. It knows no engine and runs nothing.
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
// # From text to Workload
//
//	text ── nodes (YAML with positions) ── reader ── checks ── Workload
//	           no aliases, one document    keys,     impossible
//	                                       values    mixes
//
// Begin reading at spec.go, which has all types. parse.go is the way through, read.go knows the keys of each object
// (package source reads keys, words and numbers), check.go refuses what cannot be run, assert.go reads assertions. The folder workloads has the ready files.
// docs/workloads.md is the reference for those who write files.
//
// # Promises
//
// A file is refused with all its problems, in the order of the text, each as FILE:LINE:COL: what is wrong: what is allowed. At most
// 20 are reported. What a Workload of Parse says can be run by a system that has the operations: the counts fit, and no phase needs
// elements that no phase before it added.
//
// Parse needs memory in proportion to the text, which is at most TextBytesMax long: a file can't use anchors and aliases.
//
// Nothing here changes its arguments. A Workload belongs to the caller; every function may be called by any goroutine.
package spec
