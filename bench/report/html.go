package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's style sheet and scripts
	"encoding/base64"
	"io"
	"strconv"
	"strings"
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

// pageBytes is what the numbers and the SVGs of a page may take together, so that it stays below 3 MB.
const pageBytes = 2_600_000

// detail says how many points a line has at most: in the packed numbers and in the SVGs. The first that fits the page is taken.
var details = []detail{{1200, 360}, {800, 240}, {600, 180}, {400, 120}, {300, 90}, {200, 60}, {120, 40}, {60, 30}}

type detail struct{ points, svg int }

// htmlWriter writes one page.
type htmlWriter struct {
	*bufio.Writer
	charts []*drawing
	stills []string // their SVGs
	next   int      // the chart that is written next
}

// WriteHTML writes a page as one file that needs nothing else: no network, no other file, and, for all but zooming and the values under the
// pointer, no script. The only error is the writer's.
func WriteHTML(w io.Writer, p *Page) error {
	h := &htmlWriter{Writer: bufio.NewWriter(w)}
	for i := range p.Sections {
		for j := range p.Sections[i].Charts {
			d := draw(&p.Sections[i].Charts[j])
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

// prepare draws the SVGs and packs the numbers, in the most detail that fits the page.
func (h *htmlWriter) prepare(spans []scale) string {
	var packed string
	for _, d := range details {
		packed = base64.StdEncoding.EncodeToString(pack(h.charts, spans, d.points))
		h.stills = h.stills[:0]
		size := len(packed)
		for i, c := range h.charts {
			h.stills = append(h.stills, still(c, spans[i], d.svg))
			size += len(h.stills[i])
		}
		if size <= pageBytes {
			break
		}
	}
	return packed
}

// still returns the SVG of a chart in a page.
func still(d *drawing, x scale, points int) string {
	var b strings.Builder
	s := &svgWriter{Writer: bufio.NewWriter(&b), inPage: true, span: &x, o: SVGOptions{NoTitle: true, Height: 290}}
	s.draw(d, points)
	_ = s.Flush() // a Builder takes everything
	return b.String()
}

// spansX returns the X axis of each chart. Those that show the same time have one in common.
func spansX(charts []*drawing) []scale {
	spans := make([]scale, len(charts))
	all := map[int]extent{}
	for i, c := range charts {
		spans[i] = c.scaleX()
		if c.timed() && c.points() > 0 {
			e, ok := all[c.clock]
			if !ok {
				e = nothing()
			}
			e.add(spans[i].from, spans[i].to)
			all[c.clock] = e
		}
	}
	for i, c := range charts {
		if e, ok := all[c.clock]; ok && c.timed() {
			spans[i].from, spans[i].to = e.from, e.to
		}
	}
	return spans
}

// points counts the points of all lines.
func (d *drawing) points() int {
	n := 0
	for i := range d.lines {
		n += len(d.lines[i].x)
	}
	return n
}

// put writes parts as they are; Flush reports the error.
func (h *htmlWriter) put(parts ...string) {
	for _, p := range parts {
		_, _ = h.WriteString(p)
	}
}

// style returns the page's style sheet: both themes, uPlot's rules and the page's own. Paper has the light theme.
func style() string {
	return ":root{" + light.variables() + "}\n" +
		"@media screen{:root[data-theme=dark]{color-scheme:dark;" + dark.variables() + "}:root[data-theme=light]{color-scheme:light}}\n" +
		"@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){" + dark.variables() + "}}\n" +
		strings.TrimSpace(stylePlot) + "\n" + styleOwn
}

// policy returns what the page may do: nothing but its own style sheet and scripts.
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
	h.put("<title>", esc(title(p)), "</title>\n<!--\nThe plots are drawn by uPlot.\n\n", licencePlot, "-->\n<style>", style(), "</style>\n</head>\n")
	h.put("<body>\n<div class=\"page\">\n<header>\n<h1>", esc(title(p)), "</h1>\n")
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
			h.put(`<li><a href="#s`, strconv.Itoa(i+1), `">`, esc(t), "</a></li>\n")
		}
	}
	h.put("</ul></nav>\n")
}

func (h *htmlWriter) paragraphs(text string) {
	for _, p := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			h.put("<p>", esc(p), "</p>\n")
		}
	}
}

func (h *htmlWriter) section(s *Section, i int) {
	h.put(`<section id="s`, strconv.Itoa(i+1), "\">\n")
	if s.Title != "" {
		h.put("<h2>", esc(s.Title), "</h2>\n")
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
		h.put("<pre tabindex=\"0\"><code>", esc(s.Code), "</code></pre>\n")
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
		h.put(`<li><span class="word`, class, `"><span aria-hidden="true">`, sign, `</span> `, esc(string(v.Word)), `</span> <span class="what">`, esc(v.What))
		if v.Detail != "" {
			h.put("\u2002<span class=\"detail\">", esc(v.Detail), `</span>`)
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
		h.put("<div><dt>", esc(f.Name), "</dt><dd>", esc(f.Value), "</dd></div>\n")
	}
	h.put("</dl>\n")
}

// table writes a table in a box of its own, which scrolls where the table is wider than the page.
func (h *htmlWriter) table(t *Table) {
	columns := len(t.Head)
	for _, r := range t.Rows {
		columns = max(columns, len(r))
	}
	h.put(`<div class="scroll" tabindex="0" role="region" aria-label="`, esc(orElse(t.Title, "Table")), "\"><table>\n")
	if t.Title != "" {
		h.put("<caption>", esc(t.Title), "</caption>\n")
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
			h.put(`<th scope="col"`, class, ">", esc(at(t.Head, i)), "</th>")
		}
		h.put("</tr></thead>\n")
	}
	h.put("<tbody>\n")
	for _, r := range t.Rows {
		h.row(r, classes)
	}
	h.put("</tbody></table></div>\n")
	if t.Note != "" {
		h.put("<p class=\"hint\">", esc(t.Note), "</p>\n")
	}
}

// row writes a row; its first cell names it.
func (h *htmlWriter) row(r []string, classes []string) {
	h.put("<tr>")
	for i, class := range classes {
		if i == 0 {
			h.put(`<th scope="row"`, class, ">", esc(at(r, i)), "</th>")
		} else {
			h.put("<td", class, ">", esc(at(r, i)), "</td>")
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

// numeric reports whether all cells of a column that are not empty are numbers, perhaps with a unit after them.
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

// figure writes the next chart: its SVG, which the script covers, and a table of its lines.
func (h *htmlWriter) figure() {
	i := h.next
	h.next++
	c := h.charts[i]
	h.put("<figure>\n<figcaption><h3>", esc(c.Title), "</h3></figcaption>\n")
	h.put(`<div class="plot" data-chart="`, strconv.Itoa(i), `"><div class="still">`, h.stills[i], "</div></div>\n")
	h.put("<details><summary>Figures</summary>\n")
	h.table(summary(c))
	h.put("</details>\n</figure>\n")
}

// summary returns a chart as a table for readers who can't see it.
func summary(d *drawing) *Table {
	t := &Table{Head: []string{"line", "points", "first", "least", "mean", "greatest", "last"}}
	for i := range d.lines {
		k := &d.lines[i]
		row := []string{cut(k.name, titleRunes), strconv.Itoa(len(k.y))}
		for _, v := range []float64{first(k.y), least(k.edge(k.low)), mean(k.y), greatest(k.edge(k.high)), last(k.y)} {
			row = append(row, valueText(v, d.Unit))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
