package chart

// Chart is a plot of lines over one X axis.
//
// The units "us" (microseconds), "B" and "B/s" are written as people do: 1500 us is 1.5 ms, 2048 B is 2 KiB. "s", "1" (a ratio) and "cpu" (cores) are
// written as they are. Values in any other unit, or without one, get k, M, G or T. X is time if XUnit is "s", and LogX is not set.
type Chart struct {
	Title  string
	Unit   string // of Y
	XLabel string // what X is: "time", "load"
	XUnit  string
	Lines  []Line

	// Stacked draws the lines as areas, the first at the bottom. A line counts as 0 before its first value and after its last one, and where its
	// value is NaN. Stacked charts ignore LogY, Min and Max.
	Stacked bool

	// LogX and LogY make an axis logarithmic. What is not above 0 can't be drawn on it, and is left out.
	LogX, LogY bool

	// Reach is a value that the Y axis shows whatever the lines have, as long as no line is hidden. Charts that are compared by eye have the same.
	// 0 and NaN mean nothing.
	Reach float64

	Marks []Mark
}

// Line is a named row of points. X and Y have the same length; of unequal lengths the shorter one counts. NaN and infinite values of
// Y are gaps. Points without a finite X are left out. Points are drawn in the order of X.
type Line struct {
	Name string
	X, Y []float64

	// Min and Max are the least and the greatest value behind each Y, drawn as a band. Either may be nil.
	Min, Max []float64

	// Style chooses colour and dashes, from 1. 0 means the line's place in its chart. Set it where a run should look the same in all charts although
	// not all have it.
	Style int
}

// Mark is a vertical line with a text: the beginning of a phase, or a fault.
type Mark struct {
	X    float64
	Text string
}
