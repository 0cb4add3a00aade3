// Package chart decides how lines of numbers look. A Chart becomes SVG, for papers and pages, or CSV. The package knows no page, no engine
// and no workload; package report puts charts on pages.
//
//	c := &chart.Chart{
//		Title: "operations", Unit: "op/s", XLabel: "time", XUnit: "s",
//		Lines: []chart.Line{{Name: "point deletes", X: seconds, Y: ops}},
//	}
//	err := chart.WriteSVG(file, c, chart.SVGOptions{})
//
// # From numbers to pixels
//
//	          Draw               Bin                   ┌── WriteSVG   axes, lines, bands, areas, legend
//	Chart ──────────> Drawing ──────────> Drawing ─────┼── Summary    a table for readers who can't see it
//	as it came        clean               few points   └── the page's own plots (package report)
//	   └── WriteCSV: clean, with all points
//
// Begin reading at chart.go, which contains what a caller fills in. drawing.go cleans it: it is the only place that meets NaN, infinities,
// lines of different lengths and unsorted X. scale.go chooses ranges, ticks and the words for units; theme.go contains the colours, and
// text.go makes texts safe. svg.go, csv.go and summary.go write.
//
// # Promises
//
// A Drawing can be drawn without further checks: its type states what holds. Every number in an SVG is finite.
//
// Every text is data. It is escaped, so no title or name adds markup to an SVG, and none is a formula in a spreadsheet.
//
// A bin keeps the mean, the least and the greatest value of its points, so no spike is lost. Areas keep the mean only.
//
// Lines differ from paper and from one another by hue, lightness or dashes, also for people who see only two primary colours.
//
// Output is a function of the input. No function changes its arguments, and any goroutine may call every function.
package chart
