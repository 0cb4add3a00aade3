package chart

// Chart is a plot of lines over one X axis.
//
// The units "us" (microseconds), "B" and "B/s" are written as people do: 1500 us is 1.5 ms, 2048 B is 2 KiB. "s", "1" (a ratio) and "cpu"
// (cores) are written unchanged. Values in any other unit, or without one, get k, M, G or T. X is time if XUnit is "s" and LogX is not set.
type Chart struct {
	Title  string
	Unit   string // of Y
	XLabel string // the meaning of X: "time", "load"
	XUnit  string
	Lines  []Line

	// Stacked draws the lines as areas, the first at the bottom. A line counts as 0 before its first value, after its last one, and at NaN
	// values. Stacked charts ignore LogY, Min and Max.
	Stacked bool

	// LogX and LogY make an axis logarithmic. Values that are not above 0 can't be drawn on it and are left out.
	LogX, LogY bool

	// Reach is a value that the Y axis includes whatever the lines contain, as long as no line is hidden. Set it equal in charts that are
	// compared by eye. 0 and NaN mean no such value.
	Reach float64

	Marks []Mark
}

// Line is a named series of points. X and Y should have the same length; otherwise the shorter length counts. NaN and infinite values of Y
// are gaps. Points without a finite X are left out. Points are drawn in the order of X.
type Line struct {
	Name string
	X, Y []float64

	// Min and Max are the least and the greatest of the values that each Y stands for, drawn as a band. Either may be nil.
	Min, Max []float64

	// Style selects colour and dashes, from 1. 0 means the line's position in its chart. Set it if a run should look the same in several
	// charts, although not all contain it.
	Style int
}

// Mark is a vertical line with a text, such as the beginning of a phase or a fault.
type Mark struct {
	X    float64
	Text string
}
