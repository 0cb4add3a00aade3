package report

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"strconv"

	"bigset/bench/chart"
)

// The numbers of a page are JSON, compressed by gzip, in base64 for HTML. A value takes about three bytes of the page, half as much as in
// plain JSON. A fixed binary form of four bytes a value would take five after base64.
//
//	{"x": [X…],                     lists of X, shared by lines: [0, 1.5, …], or {"a": first, "s": step, "n": count}
//	 "charts": [{"t": title, "u": unit, "xl": X label, "xu": X unit, "st": stacked, "lx": log X, "ly": log Y, "tm": X is time, "g": number of its axis,
//	             "r": [from, to] of X, "rc": what Y reaches at least, "m": [[x, text]…],
//	             "l": [{"n": name, "s": style, "x": number of its list, "y": […], "lo": […], "hi": […]}…]}…],
//	 "dashes": [dashes…], "inks": {class: colour}}
//
// Gaps are null. A line without a band has no lo and hi.

// The digits that are kept. People read values; a program distinguishes places, which must be at least placeTiny apart.
const (
	valueDigits = 5
	placeDigits = 12
	placeTiny   = 1e-300
)

// packer collects the JSON of a page's charts.
type packer struct {
	bytes.Buffer
	lists map[string]int // of X, by their text
	order []string
}

// pack returns the numbers of charts, with at most points points for each line.
func pack(charts []drawing, spans []chart.Extent, points int) []byte {
	p := &packer{lists: map[string]int{}}
	p.WriteString(`"charts":[`)
	for i, c := range charts {
		if i > 0 {
			p.WriteByte(',')
		}
		p.chart(c.Bin(points), spans[i], c.clock)
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails only for an invalid level
	writeAll(z, `{"x":[`)
	for i, x := range p.order {
		if i > 0 {
			writeAll(z, ",")
		}
		writeAll(z, x)
	}
	writeAll(z, "],"+p.String()+`],"dashes":`+marshal(chart.Dashes())+`,"inks":`+marshal(chart.Inks())+"}")
	_ = z.Close() // a Buffer accepts everything
	return b.Bytes()
}

func writeAll(z *gzip.Writer, s string) { _, _ = z.Write([]byte(s)) }

// marshal returns the JSON of a value that always has one.
func marshal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (p *packer) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p *packer) chart(d *chart.Drawing, x chart.Extent, clock int) {
	p.put(`{"t":`, marshal(d.Title), `,"u":`, marshal(d.Unit), `,"xl":`, marshal(d.XLabel), `,"xu":`, marshal(d.XUnit))
	for _, f := range []struct {
		name string
		set  bool
	}{{"st", d.Stacked}, {"lx", d.LogX}, {"ly", d.LogY}, {"tm", d.Timed()}} {
		if f.set {
			p.put(`,"`, f.name, `":true`)
		}
	}
	if d.Reach != 0 {
		p.put(`,"rc":`, number(d.Reach, valueDigits))
	}
	if clock != 0 {
		p.put(`,"g":`, strconv.Itoa(clock))
	}
	p.put(`,"r":[`, number(x.From, placeDigits), ",", number(x.To, placeDigits), `],"m":[`)
	for i, m := range d.Marks {
		if i > 0 {
			p.put(",")
		}
		p.put("[", number(m.X, placeDigits), ",", marshal(m.Text), "]")
	}
	p.put(`],"l":[`)
	for i := range d.Lines {
		if i > 0 {
			p.put(",")
		}
		p.line(&d.Lines[i])
	}
	p.put("]}")
}

func (p *packer) line(l *chart.Line) {
	p.put(`{"n":`, marshal(l.Name), `,"s":`, strconv.Itoa(l.Style-1), `,"x":`, strconv.Itoa(p.list(places(l.X))))
	p.values("y", l.Y)
	if l.Min != nil {
		p.values("lo", l.Min)
		p.values("hi", l.Max)
	}
	p.put("}")
}

func (p *packer) values(name string, values []float64) {
	p.put(`,"`, name, `":[`)
	for i, v := range values {
		if i > 0 {
			p.put(",")
		}
		p.put(number(v, valueDigits))
	}
	p.put("]")
}

// list returns the number of a list of X.
func (p *packer) list(text string) int {
	n, ok := p.lists[text]
	if !ok {
		n = len(p.order)
		p.lists[text] = n
		p.order = append(p.order, text)
	}
	return n
}

// places returns a list of X as JSON. The script needs distinct X: a repeated one is moved by an invisibly small part of the axis.
func places(x []float64) string {
	if step, ok := even(x); ok {
		return `{"a":` + number(x[0], placeDigits) + `,"s":` + number(step, placeDigits) + `,"n":` + strconv.Itoa(len(x)) + "}"
	}
	b := []byte{'['}
	var before float64
	for i, v := range x {
		if i > 0 {
			v = max(v, before+nudge(x))
			b = append(b, ',')
		}
		b = append(b, number(v, placeDigits)...)
		before = v
	}
	return string(append(b, ']'))
}

// nudge returns the least distance between two places.
func nudge(x []float64) float64 {
	first, last := x[0], x[len(x)-1]
	return max((last-first)*1e-8, max(math.Abs(first), math.Abs(last))*1e-10, placeTiny)
}

// even returns the step of a list with equal steps.
func even(x []float64) (float64, bool) {
	if len(x) < 3 {
		return 0, false
	}
	step := (x[len(x)-1] - x[0]) / float64(len(x)-1)
	if step <= 0 || math.IsNaN(step) || math.IsInf(step, 0) {
		return 0, false
	}
	for i, v := range x {
		if math.Abs(v-(x[0]+float64(i)*step)) > step*1e-6 {
			return 0, false
		}
	}
	return step, true
}

// number writes a number with the given digits, and null for a gap.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "null"
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}
