// Package parser decides what a workload file says, and what is wrong with one.
//
//	w, err := parser.Parse("mine.yaml", text, parser.Known{})
//
// # From text to spec.Workload
//
//	text ── nodes (YAML with positions) ── reader ── checks ── Workload
//	           no aliases, one document    keys,     impossible
//	                                       values    mixes
//
// parse.go is the way through, read.go knows the keys of each object (package source reads keys, words and numbers), check.go refuses what cannot
// be run, assert.go reads assertions.
//
// # Promises
//
// A file is refused with all its problems, in the order of the text, each as FILE:LINE:COL: what is wrong: what is allowed. At most
// 20 are reported. What a Workload of Parse says can be run by a system that has the operations: the counts fit, and no phase needs
// elements that no phase before it added.
//
// Parse needs memory in proportion to the text, which is at most TextBytesMax long: a file can't use anchors and aliases.
//
// Nothing here changes its arguments. Every function may be called by any goroutine.
package parser
