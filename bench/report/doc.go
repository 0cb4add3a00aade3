// Package report decides how results look on paper and on a screen: a Page becomes one self-contained HTML file, and a Chart becomes SVG
// or CSV. It knows no engine and no workload. The caller brings texts, tables and lines of numbers.
//
//	p := &report.Page{Title: "Two strategies", About: "One hour of deletes."}
//	s := report.Section{Title: "Throughput"}
//	s.Charts = append(s.Charts, report.Chart{
//		Title: "operations", Unit: "op/s", XLabel: "time", XUnit: "s",
//		Lines: []report.Line{{Name: "point deletes", X: seconds, Y: ops}},
//	})
//	p.Sections = append(p.Sections, s)
//	err := report.WriteHTML(file, p)
//
// # From numbers to pixels
//
//	Chart ── drawing (cleaned, sorted, stacked, binned) ──┬── SVG      for papers, for print, and for readers without scripts
//	                                                      └── packed   JSON, gzip, base64: what the page's script draws with uPlot
//
// Begin reading at page.go, which has all types. drawing.go cleans a chart: it is the only place that meets NaN, infinities, lines of
// different lengths and unsorted X. scale.go chooses ranges, ticks and the words for units. svg.go and html.go write. The folder assets has
// the page's style sheet and script, and uPlot with its licence.
//
// # Promises
//
// Every text is data: it is escaped, and no name, title or cell can add markup or script to a page. The page's policy
// (Content-Security-Policy) allows only the style sheet and scripts that the package wrote, by their hashes, and no request at all.
//
// Output is a function of the input: the same Page gives the same bytes with the same build.
//
// A page stays below 3 MB as long as its texts and tables allow: the more points all charts have together, the fewer bins each line gets.
// A bin keeps the mean, the least and the greatest value, so no spike gets lost; areas keep the mean alone.
//
// Nothing here changes its arguments, and every function may be called by any goroutine.
package report
