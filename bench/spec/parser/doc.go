// Package parser decides what a workload file means, and what is wrong with one.
//
//	w, err := parser.Parse("mine.yaml", text, parser.Known{})
//
// # From text to spec.Workload
//
//	text ── nodes (YAML with positions) ── reader ── checks ── Workload
//	           no aliases, one document    keys,     impossible
//	                                       values    mixes
//
// parse.go contains the steps, read.go the keys of each object (package source reads keys, words and numbers), check.go refuses what cannot
// be run, and assert.go reads assertions.
//
// # Promises
//
// A file is refused with all its problems, in the order of the text, each as FILE:LINE:COL: what is wrong: what is allowed. At most 20 are
// reported. A system that has the operations can run every Workload of Parse: the counts fit, and no phase needs elements that no phase
// before it added.
//
// Parse needs memory in proportion to the text, whose length is at most TextBytesMax: a file can't use anchors and aliases.
//
// No function changes its arguments. Every function may be called by any goroutine.
package parser
