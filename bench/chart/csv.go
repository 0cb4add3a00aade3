package chart

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
)

// WriteCSV writes a chart with all its points: a row for each X, and a column for each line, with two more for a line with Min or Max. A
// header row names the columns and their units. Gaps are empty cells. Points that a plot can't show are left out, as in WriteSVG.
//
// A name that a spreadsheet would interpret as a formula gets an apostrophe before it.
func WriteCSV(w io.Writer, c *Chart) error {
	raw := *c
	raw.Stacked, raw.LogX, raw.LogY = false, false, false
	d := Draw(&raw)
	out := csv.NewWriter(w)
	_ = out.Write(csvHead(d)) // Flush keeps the error
	var all []float64
	for i := range d.Lines {
		all = append(all, d.Lines[i].X...)
	}
	slices.Sort(all)
	next := make([]int, len(d.Lines))
	for _, x := range slices.Compact(all) {
		// A line with two points at one X has two rows there.
		for more := true; more; {
			row := []string{cell(x)}
			more = false
			for i := range d.Lines {
				row, more = appendCells(row, &d.Lines[i], &next[i], x, more)
			}
			_ = out.Write(row)
		}
	}
	out.Flush()
	return out.Error()
}

// appendCells appends the cells of a line at x, and reports whether this or an earlier line has another point there.
func appendCells(row []string, k *Line, next *int, x float64, more bool) ([]string, bool) {
	j := *next
	here := j < len(k.X) && k.X[j] == x
	if here {
		*next = j + 1
		more = more || j+1 < len(k.X) && k.X[j+1] == x
	}
	columns := [][]float64{k.Y}
	if k.Min != nil {
		columns = append(columns, k.Min, k.Max)
	}
	for _, c := range columns {
		if here {
			row = append(row, cell(c[j]))
		} else {
			row = append(row, "")
		}
	}
	return row, more
}

// cell writes a number so that it reads back equal; a gap is empty.
func cell(v float64) string {
	if !finite(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func csvHead(d *Drawing) []string {
	label := d.XLabel
	if label == "" {
		label = "x"
	}
	head := []string{csvName(label, d.XUnit)}
	for i := range d.Lines {
		k := &d.Lines[i]
		head = append(head, csvName(k.Name, d.Unit))
		if k.Min != nil {
			head = append(head, csvName(k.Name+" least", d.Unit), csvName(k.Name+" greatest", d.Unit))
		}
	}
	return head
}

func csvName(name, unit string) string {
	if unit != "" {
		name += " [" + unit + "]"
	}
	if name != "" {
		switch name[0] {
		case '=', '+', '-', '@', '\t', '\r':
			return "'" + name
		}
	}
	return name
}
