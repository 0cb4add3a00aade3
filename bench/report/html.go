package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's style sheet and scripts
	"encoding/base64"
	"io"
	"slices"
	"strconv"
	"strings"

	"bigset/bench/chart"
)

//go:embed assets/report.css
var styleOwn string

//go:embed assets/uplot.min.css
var stylePlot string

//go:embed assets/report.js
var scriptOwn string

//go:embed assets/uplot.min.js
var scriptPlot string

//go:embed assets/uplot.LICENSE
var licencePlot string

// pageBytes bounds the numbers and the SVGs of a page together, so that the page stays below 3 MB.
const pageBytes = 2_600_000

// details are the largest numbers of points of a line, in the packed numbers and in the SVGs. The first detail that fits the page is used.
var details = []detail{{1200, 360}, {800, 240}, {600, 180}, {400, 120}, {300, 90}, {200, 60}, {120, 40}, {60, 30}}

type detail struct{ points, svg int }

// drawing is a chart of a page. Charts over time with the same clock share one axis.
type drawing struct {
	*chart.Drawing
	clock int
}

// htmlWriter writes one page.
type htmlWriter struct {
	*bufio.Writer
	charts []drawing
	stills []string // SVGs of the charts
	next   int      // the chart to write next
}

// WriteHTML writes a page as one self-contained file. It needs no network, no other file and, except for zooming and the values under the
// pointer, no script. The only error is the writer's.
func WriteHTML(w io.Writer, p *Page) error {
	h := &htmlWriter{Writer: bufio.NewWriter(w)}
	for i := range p.Sections {
		for j := range p.Sections[i].Charts {
			d := drawing{Drawing: chart.Draw(&p.Sections[i].Charts[j])}
			if p.Sections[i].OwnTime {
				d.clock = i + 1
			}
			h.charts = append(h.charts, d)
		}
	}
	spans := spansX(h.charts)
	packed := h.prepare(spans)
	h.head(p)
	for i := range p.Sections {
		h.section(&p.Sections[i], i)
	}
	h.put("</main>\n<div id=\"heard\" class=\"hear\" aria-live=\"polite\"></div>\n</div>\n")
	h.put(`<script type="application/json" id="data">`, packed, "</script>\n")
	h.put("<script>", scriptPlot, "</script>\n<script>", scriptOwn, "</script>\n</body>\n</html>\n")
	return h.Flush()
}

// prepare draws the SVGs and packs the numbers in the greatest detail that fits the page.
func (h *htmlWriter) prepare(spans []chart.Extent) string {
	var packed string
	for _, d := range details {
		packed = base64.StdEncoding.EncodeToString(pack(h.charts, spans, d.points))
		h.stills = h.stills[:0]
		size := len(packed)
		for i, c := range h.charts {
			h.stills = append(h.stills, still(c.Drawing, spans[i], d.svg))
			size += len(h.stills[i])
		}
		if size <= pageBytes {
			break
		}
	}
	return packed
}

// still returns the SVG of a chart in a page.
func still(d *chart.Drawing, x chart.Extent, points int) string {
	var b strings.Builder
	_ = d.WriteSVG(&b, chart.SVGOptions{Height: 290, NoTitle: true, Classes: true, X: &x, Points: points}) // a Builder accepts everything
	return b.String()
}

// spansX returns the range of each chart's X axis. Charts with the same time share one range.
func spansX(charts []drawing) []chart.Extent {
	spans := make([]chart.Extent, len(charts))
	all := map[int]chart.Extent{}
	for i, c := range charts {
		spans[i] = c.ExtentX()
		if c.Timed() && c.hasPoints() {
			e, ok := all[c.clock]
			if !ok {
				e = spans[i]
			}
			all[c.clock] = chart.Extent{From: min(e.From, spans[i].From), To: max(e.To, spans[i].To)}
		}
	}
	for i, c := range charts {
		if e, ok := all[c.clock]; ok && c.Timed() {
			spans[i] = e
		}
	}
	return spans
}

func (d *drawing) hasPoints() bool {
	return slices.ContainsFunc(d.Lines, func(l chart.Line) bool { return len(l.X) > 0 })
}

// put writes parts unchanged; Flush reports the error.
func (h *htmlWriter) put(parts ...string) {
	for _, p := range parts {
		_, _ = h.WriteString(p)
	}
}

// style returns the page's style sheet: both themes, uPlot's rules and the page's own. Paper uses the light theme.
func style() string {
	return ":root{" + chart.Variables(false) + "}\n" +
		"@media screen{:root[data-theme=dark]{color-scheme:dark;" + chart.Variables(true) + "}:root[data-theme=light]{color-scheme:light}}\n" +
		"@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){" + chart.Variables(true) + "}}\n" +
		strings.TrimSpace(stylePlot) + "\n" + styleOwn
}

// policy returns the page's Content-Security-Policy: it allows only the page's own style sheet and scripts.
func policy() string {
	return "default-src 'none'; img-src data:; style-src " + hash(style()) + "; script-src " + hash(scriptPlot) + " " + hash(scriptOwn) +
		"; base-uri 'none'; form-action 'none'"
}

// hash names a text in a policy.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (h *htmlWriter) head(p *Page) {
	h.put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	h.put(`<meta http-equiv="Content-Security-Policy" content="`, policy(), "\">\n")
	h.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n")
	h.put("<title>", chart.Escape(title(p)), "</title>\n<!--\nThe plots are drawn by uPlot.\n\n", licencePlot, "-->\n<style>", style(), "</style>\n</head>\n")
	h.put("<body>\n<div class=\"page\">\n<header>\n<h1>", chart.Escape(title(p)), "</h1>\n")
	h.put("<button type=\"button\" id=\"theme\" title=\"Change between the light and the dark theme\" hidden>Dark</button>\n</header>\n")
	h.paragraphs(p.About)
	if len(p.Sections) > 2 {
		h.contents(p)
	}
	if len(h.charts) > 0 {
		h.put("<p class=\"hint\" id=\"hint\" hidden>Drag over a plot to zoom, double click to reset. Plots over time zoom together. ",
			"A click in a legend hides a line, with Shift it shows that line alone. On a touch screen two fingers zoom.</p>\n")
	}
	h.put("<main>\n")
}

func title(p *Page) string {
	if p.Title == "" {
		return "Report"
	}
	return p.Title
}

func (h *htmlWriter) contents(p *Page) {
	h.put("<nav aria-label=\"Contents\"><ul>\n")
	for i := range p.Sections {
		if t := p.Sections[i].Title; t != "" {
			h.put(`<li><a href="#s`, strconv.Itoa(i+1), `">`, chart.Escape(t), "</a></li>\n")
		}
	}
	h.put("</ul></nav>\n")
}

func (h *htmlWriter) paragraphs(text string) {
	for _, p := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			h.put("<p>", chart.Escape(p), "</p>\n")
		}
	}
}

func (h *htmlWriter) section(s *Section, i int) {
	h.put(`<section id="s`, strconv.Itoa(i+1), "\">\n")
	if s.Title != "" {
		h.put("<h2>", chart.Escape(s.Title), "</h2>\n")
	}
	h.paragraphs(s.Text)
	h.verdicts(s.Verdicts)
	h.facts(s.Facts)
	for j := range s.Tables {
		h.table(&s.Tables[j])
	}
	if len(s.Charts) > 0 {
		h.put("<div class=\"charts\">\n")
		for range s.Charts {
			h.figure()
		}
		h.put("</div>\n")
	}
	if s.Code != "" {
		h.put("<pre tabindex=\"0\"><code>", chart.Escape(s.Code), "</code></pre>\n")
	}
	h.put("</section>\n")
}

func (h *htmlWriter) verdicts(list []Verdict) {
	if len(list) == 0 {
		return
	}
	h.put("<ul class=\"verdicts\">\n")
	for _, v := range list {
		sign, class := v.Word.look()
		h.put(`<li><span class="word`, class, `"><span aria-hidden="true">`, sign, `</span> `, chart.Escape(string(v.Word)), `</span> <span class="what">`, chart.Escape(v.What))
		if v.Detail != "" {
			h.put("\u2002<span class=\"detail\">", chart.Escape(v.Detail), `</span>`)
		}
		h.put("</span></li>\n")
	}
	h.put("</ul>\n")
}

// look returns the sign and the class of a word.
func (w Word) look() (sign, class string) {
	switch w {
	case Pass:
		return "✓", " good"
	case Fail:
		return "✗", " bad"
	case Steady:
		return "≈", " good"
	case Noisy:
		return "~", " doubt"
	}
	return "·", ""
}

func (h *htmlWriter) facts(list []Fact) {
	if len(list) == 0 {
		return
	}
	h.put("<dl>\n")
	for _, f := range list {
		h.put("<div><dt>", chart.Escape(f.Name), "</dt><dd>", chart.Escape(f.Value), "</dd></div>\n")
	}
	h.put("</dl>\n")
}

// table writes a table in a box of its own, which scrolls if the table is wider than the page.
func (h *htmlWriter) table(t *Table) {
	columns := len(t.Head)
	for _, r := range t.Rows {
		columns = max(columns, len(r))
	}
	h.put(`<div class="scroll" tabindex="0" role="region" aria-label="`, chart.Escape(orElse(t.Title, "Table")), "\"><table>\n")
	if t.Title != "" {
		h.put("<caption>", chart.Escape(t.Title), "</caption>\n")
	}
	classes := make([]string, columns)
	for i := range classes {
		if t.numeric(i) {
			classes[i] = ` class="number"`
		}
	}
	if len(t.Head) > 0 {
		h.put("<thead><tr>")
		for i, class := range classes {
			h.put(`<th scope="col"`, class, ">", chart.Escape(at(t.Head, i)), "</th>")
		}
		h.put("</tr></thead>\n")
	}
	h.put("<tbody>\n")
	for _, r := range t.Rows {
		h.row(r, classes)
	}
	h.put("</tbody></table></div>\n")
	if t.Note != "" {
		h.put("<p class=\"hint\">", chart.Escape(t.Note), "</p>\n")
	}
}

// row writes a row; its first cell names it.
func (h *htmlWriter) row(r []string, classes []string) {
	h.put("<tr>")
	for i, class := range classes {
		if i == 0 {
			h.put(`<th scope="row"`, class, ">", chart.Escape(at(r, i)), "</th>")
		} else {
			h.put("<td", class, ">", chart.Escape(at(r, i)), "</td>")
		}
	}
	h.put("</tr>\n")
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// numeric reports whether all non-empty cells of a column are numbers, possibly with a unit after them.
func (t *Table) numeric(column int) bool {
	found := false
	for _, r := range t.Rows {
		c := strings.TrimLeft(strings.TrimSpace(at(r, column)), "+-−<>≤≥~±")
		switch {
		case c == "" || c == "–":
		case c[0] < '0' || c[0] > '9':
			return false
		default:
			found = true
		}
	}
	return found
}

// figure writes the next chart: its SVG, which the script replaces on the screen, and a table of its lines.
func (h *htmlWriter) figure() {
	i := h.next
	h.next++
	c := h.charts[i]
	h.put("<figure>\n<figcaption><h3>", chart.Escape(c.Title), "</h3></figcaption>\n")
	h.put(`<div class="plot" data-chart="`, strconv.Itoa(i), `"><div class="still">`, h.stills[i], "</div></div>\n")
	h.put("<details><summary>Figures</summary>\n")
	head, rows := c.Summary()
	h.table(&Table{Head: head, Rows: rows})
	h.put("</details>\n</figure>\n")
}
