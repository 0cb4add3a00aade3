package chart

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SVGOptions says how WriteSVG draws. The zero value suits a column of a paper.
type SVGOptions struct {
	Width, Height int  // in pixels; 0 means 720 and 320, the minimum is 240 and 200; the legend comes below and adds to the height
	Dark          bool // for a dark background
	NoTitle       bool // leaves out the chart's title, for a document that contains it

	// For SVGs inside a document: classes instead of colours and size (see Inks), the range of the X axis if not that of the points, and
	// the largest number of points of a line; 0 means 720. A line never has more points than the plot has pixels.
	Classes bool
	X       *Extent
	Points  int
}

// Limits of what a plot draws.
const (
	svgWidth, svgHeight       = 720, 320
	svgPoints                 = 720
	svgWidthMin, svgHeightMin = 240, 200
	fontSize                  = 12
	legendRow, legendGap      = 18, 6
	fewPoints                 = 40 // a line with at most this many points shows each as a dot
	nameRunes                 = 60 // of a name in a legend
	markRunes                 = 28 // of a mark's text
	titleRunes                = 100
)

// svgWriter draws one chart.
type svgWriter struct {
	*bufio.Writer
	d                        *Drawing
	o                        SVGOptions
	left, top, right, bottom float64
	x, y                     scale
	legend                   []legendItem
	legendRows               int
}

type legendItem struct {
	x, row int
	text   string
}

// WriteSVG writes a chart as a standalone SVG document: axes, marks, lines, bands or areas, and a legend. It writes the same bytes for the
// same chart. Lines with more points than the plot has pixels are binned; outliers remain visible in the band.
func WriteSVG(w io.Writer, c *Chart, o SVGOptions) error {
	return Draw(c).WriteSVG(w, o)
}

// WriteSVG writes the drawing like the function WriteSVG. Use it to write one drawing several times.
func (d *Drawing) WriteSVG(w io.Writer, o SVGOptions) error {
	s := &svgWriter{Writer: bufio.NewWriter(w), o: o}
	s.draw(d)
	return s.Flush()
}

// draw writes the document.
func (s *svgWriter) draw(d *Drawing) {
	width := orDefault(s.o.Width, svgWidth, svgWidthMin)
	height := orDefault(s.o.Height, svgHeight, svgHeightMin)
	s.d = d.Bin(min(orDefault(s.o.Points, svgPoints, 1), width))
	s.x, s.y = d.scaleX(), s.d.scaleY()
	if x := s.o.X; x != nil {
		s.x.from, s.x.to = x.From, x.To
	}
	s.layout(width, height)
	total := height + s.legendRows*legendRow
	if s.legendRows > 0 {
		total += legendGap
	}
	label := s.d.Title
	if label == "" {
		label = "chart"
	}
	s.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"`, width, total)
	if !s.o.Classes {
		s.put(` width="%d" height="%d"`, width, total)
	}
	s.put(` role="img" aria-label="%s" font-family="Helvetica, Arial, sans-serif" font-size="%d">`, Escape(label), fontSize)
	s.put("\n<title>%s</title>\n", Escape(label))
	if !s.o.Classes {
		s.put("<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", width, total, s.colours().paper)
	}
	s.title()
	s.axes()
	s.marks()
	for i := range s.d.Lines {
		if s.d.Stacked {
			s.area(i)
		} else {
			s.band(&s.d.Lines[i])
		}
	}
	for i := range s.d.Lines {
		s.line(i)
	}
	s.drawLegend(height)
	s.put("</svg>\n")
}

func orDefault(v, def, least int) int {
	if v == 0 {
		return def
	}
	return max(v, least)
}

// put writes formatted text; Flush reports the error.
func (s *svgWriter) put(format string, a ...any) { _, _ = fmt.Fprintf(s, format, a...) }

func (s *svgWriter) colours() *theme { return themeOf(s.o.Dark) }

// ink returns the attributes of a colour: its class, or the colour itself.
func (s *svgWriter) ink(attribute, class, colour string) string {
	if s.o.Classes {
		return `class="` + attribute[:1] + class + `"` // f or s: fill or stroke
	}
	return attribute + `="` + colour + `"`
}

// fill and stroke return the attributes of a line's style.
func (s *svgWriter) fill(style int) string {
	n := (style - 1) % len(light.lines)
	return s.ink("fill", strconv.Itoa(n), s.colours().lines[n])
}

func (s *svgWriter) stroke(style int) string {
	n := (style - 1) % len(light.lines)
	return s.ink("stroke", strconv.Itoa(n), s.colours().lines[n])
}

// both returns the attributes for fill and stroke.
func (s *svgWriter) both(style int) string {
	n := (style - 1) % len(light.lines)
	if s.o.Classes {
		return fmt.Sprintf(`class="s%d f%d"`, n, n)
	}
	return s.stroke(style) + " " + s.fill(style)
}

// layout chooses the edges of the plot.
func (s *svgWriter) layout(width, height int) {
	s.top, s.bottom, s.right = 30, float64(height)-40, float64(width)-16
	if !s.o.NoTitle && s.d.Title != "" {
		s.top += 20
	}
	list, _ := ticks(s.y, s.d.Unit, false, ticksY)
	widest := 0.0
	for _, t := range list {
		widest = max(widest, textWidth(t.text))
	}
	s.left = math.Ceil(widest) + 18
	s.placeLegend(width)
}

func (s *svgWriter) countX() int { return max(2, int((s.right-s.left)/80)) }

// placeLegend breaks the legend into rows. A single line needs a legend only if it has a name.
func (s *svgWriter) placeLegend(width int) {
	x, row := 16, 0
	for i := range s.d.Lines {
		text := cut(s.d.Lines[i].Name, nameRunes)
		if len(s.d.Lines) == 1 && text == "" {
			return
		}
		wide := 34 + int(textWidth(text)) + 16
		if x > 16 && x+wide > width {
			x, row = 16, row+1
		}
		s.legend = append(s.legend, legendItem{x, row, text})
		x += wide
	}
	if len(s.legend) > 0 {
		s.legendRows = row + 1
	}
}

// textWidth returns about the width of a text in pixels, since fonts differ.
func textWidth(text string) float64 {
	narrow := strings.Count(text, ".") + strings.Count(text, ",") + strings.Count(text, " ") + strings.Count(text, "i") + strings.Count(text, "l")
	return fontSize * (0.58*float64(utf8.RuneCountInString(text)) - 0.28*float64(narrow))
}

func (s *svgWriter) px(v float64) float64 { return s.left + s.x.at(v)*(s.right-s.left) }
func (s *svgWriter) py(v float64) float64 { return s.bottom - s.y.at(v)*(s.bottom-s.top) }

func (s *svgWriter) text(x, y float64, anchor, more, text string) {
	s.put("<text x=\"%s\" y=\"%s\" text-anchor=\"%s\" %s>%s</text>\n", coordinate(x), coordinate(y), anchor, more, Escape(text))
}

func (s *svgWriter) title() {
	if !s.o.NoTitle && s.d.Title != "" {
		s.text(16, 20, "start", `font-size="14" font-weight="bold" `+s.ink("fill", "t", s.colours().text), cut(s.d.Title, titleRunes))
	}
}

// axes draws the grid, the ticks and the units.
func (s *svgWriter) axes() {
	grid, text := s.ink("stroke", "g", s.colours().grid), s.ink("fill", "m", s.colours().muted)
	list, unit := ticks(s.y, s.d.Unit, false, ticksY)
	for _, t := range list {
		y := s.py(t.v)
		s.put("<path d=\"M%s %sH%s\" %s/>\n", coordinate(s.left), coordinate(y), coordinate(s.right), grid)
		s.text(s.left-6, y+4, "end", text, t.text)
	}
	s.text(16, s.top-13, "start", text, cut(unit, titleRunes))
	list, unit = ticks(s.x, s.d.XUnit, s.d.Timed(), s.countX())
	for _, t := range list {
		x := s.px(t.v)
		s.put("<path d=\"M%s %sv4\" %s/>\n", coordinate(x), coordinate(s.bottom), s.ink("stroke", "a", s.colours().axis))
		s.text(x, s.bottom+17, "middle", text, t.text)
	}
	s.put("<path d=\"M%s %sH%s\" %s/>\n", coordinate(s.left), coordinate(s.bottom), coordinate(s.right), s.ink("stroke", "a", s.colours().axis))
	s.text((s.left+s.right)/2, s.bottom+33, "middle", text, axisLabel(s.d.XLabel, unit))
	if !s.any() {
		s.text((s.left+s.right)/2, (s.top+s.bottom)/2, "middle", text, "no data")
	}
}

// axisLabel joins the meaning of an axis and its unit.
func axisLabel(label, unit string) string {
	label, unit = cut(label, nameRunes), cut(unit, nameRunes)
	if label == "" || unit == "" {
		return label + unit
	}
	return label + ", " + unit
}

// any reports whether the drawing contains a value to draw.
func (s *svgWriter) any() bool {
	for i := range s.d.Lines {
		for _, v := range s.d.Lines[i].Y {
			if !math.IsNaN(v) {
				return true
			}
		}
	}
	return false
}

// marks draws a dashed line for each mark, with its text above the plot if no other text is in the way.
func (s *svgWriter) marks() {
	_, unit := ticks(s.y, s.d.Unit, false, ticksY)
	free := 16 + textWidth(cut(unit, titleRunes)) + 6
	for _, m := range s.d.Marks {
		x := s.px(m.X)
		if x < s.left-0.5 || x > s.right+0.5 {
			continue
		}
		text, top := cut(m.Text, markRunes), s.top
		wide := textWidth(text)
		if at := min(x+3, s.right+10-wide); text != "" && at > free {
			s.text(at, s.top-13, "start", s.ink("fill", "m", s.colours().muted), text)
			free = at + wide + 8
			if at == x+3 {
				top -= 24 // beside its text
			}
		}
		s.put("<path d=\"M%s %sV%s\" stroke-dasharray=\"4 4\" %s><title>%s</title></path>\n", coordinate(x), coordinate(top), coordinate(s.bottom),
			s.ink("stroke", "k", s.colours().mark), Escape(m.Text))
	}
}

// area draws a stacked line.
func (s *svgWriter) area(i int) {
	k, a := &s.d.Lines[i], &s.d.areas[i]
	s.between(k, a.base, a.height, `fill-opacity="0.75" `+s.fill(k.Style))
}

// band draws the space between the least and the greatest values.
func (s *svgWriter) band(k *Line) {
	if k.Min != nil {
		s.between(k, k.Min, k.Max, `fill-opacity="0.18" stroke-opacity="0.35" `+s.both(k.Style))
	}
}

// between draws the area between two edges, in one piece between any two gaps.
func (s *svgWriter) between(k *Line, low, high []float64, look string) {
	var p pathWriter
	for from := 0; from < len(k.X); from++ {
		to := from
		for to < len(k.X) && !math.IsNaN(low[to]) && !math.IsNaN(high[to]) {
			to++
		}
		if to == from {
			continue
		}
		for i := from; i < to; i++ {
			p.point(s.px(k.X[i]), s.py(high[i]), i == from)
		}
		for i := to - 1; i >= from; i-- {
			p.point(s.px(k.X[i]), s.py(low[i]), false)
		}
		p.WriteString("z")
		from = to
	}
	if p.Len() > 0 {
		s.put("<path d=\"%s\" %s/>\n", p.String(), look)
	}
}

// line draws a line, with dots if it has few points and for isolated points.
func (s *svgWriter) line(i int) {
	k := &s.d.Lines[i]
	y := k.Y
	if s.d.Stacked {
		y = s.d.areas[i].height
	}
	var p, dots pathWriter
	n := 0
	for i, v := range y {
		if math.IsNaN(v) {
			continue
		}
		first := i == 0 || math.IsNaN(y[i-1])
		last := i+1 == len(y) || math.IsNaN(y[i+1])
		if first && last || len(y) <= fewPoints && !s.d.Stacked {
			dots.dot(s.px(k.X[i]), s.py(v))
		}
		p.point(s.px(k.X[i]), s.py(v), first)
		n++
	}
	if n > 1 {
		s.put("<path d=\"%s\" fill=\"none\" stroke-width=\"%s\"%s stroke-linejoin=\"round\" %s/>\n", p.String(), strokeWidth(s.d), s.dashes(k.Style), s.stroke(k.Style))
	}
	if dots.Len() > 0 {
		s.put("<path d=\"%s\" fill=\"none\" stroke-width=\"5\" stroke-linecap=\"round\" %s/>\n", dots.String(), s.stroke(k.Style))
	}
}

func strokeWidth(d *Drawing) string {
	if d.Stacked {
		return "1"
	}
	return "1.8"
}

// dashes returns the attribute of a style's dashes; areas have none.
func (s *svgWriter) dashes(style int) string {
	if d := dashOf(style); d != "" && !s.d.Stacked {
		return ` stroke-dasharray="` + d + `"`
	}
	return ""
}

func (s *svgWriter) drawLegend(top int) {
	for i, item := range s.legend {
		k := &s.d.Lines[i]
		x, y := item.x, top+legendGap+item.row*legendRow+4
		if s.d.Stacked {
			s.put("<rect x=\"%d\" y=\"%d\" width=\"24\" height=\"10\" fill-opacity=\"0.75\" %s/>\n", x, y-5, s.fill(k.Style))
		} else {
			s.put("<path d=\"M%d %dh24\" stroke-width=\"2.5\"%s %s/>\n", x, y, s.dashes(k.Style), s.stroke(k.Style))
		}
		s.text(float64(x+30), float64(y+4), "start", s.ink("fill", "t", s.colours().text), item.text)
	}
}

// pathWriter collects a path with coordinates in tenths of a pixel, each relative to the one before.
type pathWriter struct {
	strings.Builder
	x, y int // tenths
}

func (p *pathWriter) point(x, y float64, begin bool) {
	nx, ny := tenths(x), tenths(y)
	switch {
	case begin:
		p.WriteString("M" + tenthsText(nx) + " " + tenthsText(ny))
	default:
		p.WriteString("l" + pair(nx-p.x, ny-p.y))
	}
	p.x, p.y = nx, ny
}

func (p *pathWriter) dot(x, y float64) {
	p.WriteString("M" + tenthsText(tenths(x)) + " " + tenthsText(tenths(y)) + "h0")
}

// pair writes two numbers; a minus sign separates them as well as a space.
func pair(x, y int) string {
	if y < 0 {
		return tenthsText(x) + tenthsText(y)
	}
	return tenthsText(x) + " " + tenthsText(y)
}

// tenths keeps coordinates in a range that every renderer can draw.
func tenths(v float64) int { return int(math.Round(max(-1e5, min(1e5, v)) * 10)) }

func tenthsText(n int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	if n%10 == 0 {
		return sign + strconv.Itoa(n/10)
	}
	return sign + strconv.Itoa(n/10) + "." + strconv.Itoa(n%10)
}

func coordinate(v float64) string { return tenthsText(tenths(v)) }
