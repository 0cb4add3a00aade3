package chart_test

import (
	"fmt"
	"math"
	"os"

	"bigset/bench/chart"
)

func ExampleWriteCSV() {
	c := &chart.Chart{Unit: "op/s", XLabel: "time", XUnit: "s", Lines: []chart.Line{
		{Name: "a", X: []float64{0, 1, 2}, Y: []float64{10, math.NaN(), 12}},
		{Name: "b", X: []float64{1, 2, 3}, Y: []float64{7, 8, 9}},
	}}
	if err := chart.WriteCSV(os.Stdout, c); err != nil {
		fmt.Println(err)
	}
	// Output:
	// time [s],a [op/s],b [op/s]
	// 0,10,
	// 1,,7
	// 2,12,8
	// 3,,9
}
