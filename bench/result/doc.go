// Package result decides what a benchmark's figures are called and how those of several rounds become a row: the JSON of reports.
//
// A Row is one load on one system, with the Figures of each of its rounds and their medians. A Collector gathers rounds into rows. Nothing in
// this package measures; values belong to the caller, and one goroutine uses a Collector.
package result
