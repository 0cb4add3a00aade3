// Package report decides how results look on a screen: a Page becomes one self-contained HTML file. The package knows no engine and no
// workload. The caller provides texts, tables and charts (package chart).
//
//	p := &report.Page{Title: "Two strategies", About: "One hour of deletes."}
//	s := report.Section{Title: "Throughput"}
//	s.Charts = append(s.Charts, chart.Chart{
//		Title: "operations", Unit: "op/s", XLabel: "time", XUnit: "s",
//		Lines: []chart.Line{{Name: "point deletes", X: seconds, Y: ops}},
//	})
//	p.Sections = append(p.Sections, s)
//	err := report.WriteHTML(file, p)
//
// # From numbers to pixels
//
//	chart.Chart ── chart.Drawing (cleaned, binned) ──┬── SVG      for print, and for readers without scripts
//	                                                 └── packed   JSON, gzip, base64: drawn by the page's script with uPlot
//
// Begin reading at page.go, which contains all types. html.go writes a page, pack.go its numbers. The folder assets contains the page's
// style sheet and script, and uPlot with its licence.
//
// # Promises
//
// Every text is data: it is escaped, and no name, title or cell can add markup or script to a page. The page's policy
// (Content-Security-Policy) allows only the style sheet and scripts that the package wrote, by their hashes, and no requests at all.
//
// Output is a function of the input: the same Page gives the same bytes with the same build.
//
// A page stays below 3 MB as far as its texts and tables allow: the more points all charts have together, the fewer bins each line gets.
//
// No function changes its arguments, and every function may be called by any goroutine.
package report
