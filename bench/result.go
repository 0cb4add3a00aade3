package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/result"
)

// What a run has measured: package result has these types, and has the runner of workload files use them, too.
type (
	// Row is one load on one system: the medians of its rounds, each figure by itself, and the rounds.
	Row = result.Row
	// Figures are what is measured of a load. Those that it has no figure for are nil. Sizes are bytes.
	Figures = result.Figures
	// Unfinished is a workload of which some rounds are done.
	Unfinished = result.Unfinished

	collector = result.Collector
)

const latencyMax = result.LatencyMax

func newHistogram() *hdrhistogram.Histogram { return result.NewHistogram() }

func micros(d time.Duration) float64 { return result.Micros(d) }
