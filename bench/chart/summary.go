package chart

import (
	"math"
	"strconv"
)

// Summary returns the drawing as a table for readers who can't see the plot: a row for each line.
func (d *Drawing) Summary() (head []string, rows [][]string) {
	head = []string{"line", "points", "first", "least", "mean", "greatest", "last"}
	for i := range d.Lines {
		k := &d.Lines[i]
		row := []string{cut(k.Name, titleRunes), strconv.Itoa(len(k.Y))}
		for _, v := range []float64{first(k.Y), least(k.edge(k.Min)), mean(k.Y), greatest(k.edge(k.Max)), last(k.Y)} {
			row = append(row, valueText(v, d.Unit))
		}
		rows = append(rows, row)
	}
	return head, rows
}

// first and last ignore NaN values, and return NaN if no other value exists.
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
