package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/result"
)

// The results of a run. Package result defines these types, so that the runner of workload files uses them too.
type (
	// Row is one load on one system: the medians of its rounds, each figure by itself, and the rounds.
	Row = result.Row
	// Figures are the measurements of a load. Unknown figures are nil. Sizes are in bytes.
	Figures = result.Figures
	// Unfinished is a workload some of whose rounds are done.
	Unfinished = result.Unfinished

	collector = result.Collector
)

const latencyMax = result.LatencyMax

func newHistogram() *hdrhistogram.Histogram { return result.NewHistogram() }

func micros(d time.Duration) float64 { return result.Micros(d) }
