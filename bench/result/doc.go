// Package result decides how the figures of a benchmark are named and how the figures of several rounds become a row: the JSON of reports.
//
// A Row is one load on one system, with the Figures of each of its rounds and their medians. A Collector gathers rounds into rows. Nothing
// in this package measures. Values belong to the caller, and only one goroutine may use a Collector.
package result
