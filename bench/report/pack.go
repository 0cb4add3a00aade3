package report

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"strconv"
)

// The numbers of a page are JSON, compressed by gzip, and base64 for HTML. A value takes about three bytes of the page, half of what plain JSON
// takes. A fixed binary form of four bytes a value takes five after base64.
//
//	{"x": [X…],                     lists of X, shared by lines: [0, 1.5, …], or {"a": first, "s": step, "n": count}
//	 "charts": [{"t": title, "u": unit, "xl": X label, "xu": X unit, "st": stacked, "lx": log X, "ly": log Y, "tm": X is time, "g": number of its axis,
//	             "r": [from, to] of X, "rc": what Y reaches at least, "m": [[x, text]…],
//	             "l": [{"n": name, "s": style, "x": number of its list, "y": […], "lo": […], "hi": […]}…]}…],
//	 "dashes": [dashes…], "inks": {class: colour}}
//
// Gaps are null. lo and hi are left out where a line has no band.

// Digits that are kept: values are read by people, places are told apart by a program.
const (
	valueDigits = 5
	placeDigits = 12
)

// packer collects the JSON of a page's charts.
type packer struct {
	bytes.Buffer
	lists map[string]int // of X, by their text
	order []string
}

// pack returns the numbers of charts, with at most so many points a line.
func pack(charts []*drawing, spans []scale, points int) []byte {
	p := &packer{lists: map[string]int{}}
	p.WriteString(`"charts":[`)
	for i, c := range charts {
		if i > 0 {
			p.WriteByte(',')
		}
		p.chart(c.bin(points), spans[i])
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails only for a level that does not exist
	writeAll(z, `{"x":[`)
	for i, x := range p.order {
		if i > 0 {
			writeAll(z, ",")
		}
		writeAll(z, x)
	}
	writeAll(z, "],"+p.String()+`],"dashes":`+marshal(dashPatterns)+`,"inks":`+marshal(inks())+"}")
	_ = z.Close() // a Buffer takes everything
	return b.Bytes()
}

func writeAll(z *gzip.Writer, s string) { _, _ = z.Write([]byte(s)) }

// marshal returns the JSON of what always has one.
func marshal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// inks returns the light theme's colours by the classes of SVGs in a page.
func inks() map[string]string {
	m := map[string]string{"g": light.grid, "a": light.axis, "k": light.mark, "t": light.text, "m": light.muted}
	for i, c := range light.lines {
		m[strconv.Itoa(i)] = c
	}
	return m
}

func (p *packer) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p *packer) chart(d *drawing, x scale) {
	text := func(s string) string { return marshal(tidy(s)) }
	p.put(`{"t":`, text(d.Title), `,"u":`, text(d.Unit), `,"xl":`, text(d.XLabel), `,"xu":`, text(d.XUnit))
	for _, f := range []struct {
		name string
		set  bool
	}{{"st", d.Stacked}, {"lx", d.LogX}, {"ly", d.logY()}, {"tm", d.timed()}} {
		if f.set {
			p.put(`,"`, f.name, `":true`)
		}
	}
	if v := drawable(d.Reach, d.logY()); finite(v) && v != 0 {
		p.put(`,"rc":`, number(v, valueDigits))
	}
	if d.clock != 0 {
		p.put(`,"g":`, strconv.Itoa(d.clock))
	}
	p.put(`,"r":[`, number(x.from, placeDigits), ",", number(x.to, placeDigits), `],"m":[`)
	for i, m := range d.marks {
		if i > 0 {
			p.put(",")
		}
		p.put("[", number(m.X, placeDigits), ",", text(m.Text), "]")
	}
	p.put(`],"l":[`)
	for i := range d.lines {
		if i > 0 {
			p.put(",")
		}
		p.line(&d.lines[i])
	}
	p.put("]}")
}

func (p *packer) line(k *curve) {
	p.put(`{"n":`, marshal(tidy(k.name)), `,"s":`, strconv.Itoa(k.style), `,"x":`, strconv.Itoa(p.list(places(k.x))))
	p.values("y", k.y)
	if k.low != nil {
		p.values("lo", k.low)
		p.values("hi", k.high)
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

// places returns a list of X as JSON. The script needs each X once: one that comes again is moved by a part of the axis that nobody sees.
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

// nudge is the least distance between two places.
func nudge(x []float64) float64 {
	first, last := x[0], x[len(x)-1]
	return max((last-first)*1e-8, max(math.Abs(first), math.Abs(last))*1e-10, valueTiny)
}

// even returns the step of a list that has one.
func even(x []float64) (float64, bool) {
	if len(x) < 3 {
		return 0, false
	}
	step := (x[len(x)-1] - x[0]) / float64(len(x)-1)
	if step <= 0 || !finite(step) {
		return 0, false
	}
	for i, v := range x {
		if math.Abs(v-(x[0]+float64(i)*step)) > step*1e-6 {
			return 0, false
		}
	}
	return step, true
}

// number writes a number with so many digits, and null for a gap.
func number(v float64, digits int) string {
	if !finite(v) {
		return "null"
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// first and last are of the values that are not NaN, and NaN without any.
func first(values []float64) float64 {
	for _, v := range values {
		if !math.IsNaN(v) {
			return v
		}
	}
	return math.NaN()
}

func last(values []float64) float64 {
	for i := len(values) - 1; i >= 0; i-- {
		if !math.IsNaN(values[i]) {
			return values[i]
		}
	}
	return math.NaN()
}
