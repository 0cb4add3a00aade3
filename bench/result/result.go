package result

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Unfinished is a workload some of whose rounds are done.
type Unfinished struct {
	Workload   string   `json:"workload"`
	Done       int      `json:"rounds_done"`
	Rows       []Row    `json:"rows"`       // with these rounds
	Histograms []string `json:"histograms"` // latencies of each row, encoded as HdrHistogram does
}

// Row is one load on one system: the medians of its rounds, each figure by itself, and the rounds.
type Row struct {
	Workload string `json:"workload"` // or a part of one: "contains/hit"
	System   string `json:"system"`   // bigset, pebble or blob
	Record   string `json:"record,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	Elements int    `json:"elements"` // of the set
	// StreamHash is a hash of the operations of the rows of a workload file: equal hashes mean equal operations. "" means unknown.
	StreamHash string `json:"stream_hash,omitempty"`
	Figures
	Rounds []Figures `json:"rounds"`
	// Ended are the times at which the rounds were measured, in milliseconds since 1970. Histogram are the latencies of all rounds, as
	// HdrHistogram encodes them. Both let a later run add rounds; rows of older builds have neither.
	Ended     []int64 `json:"rounds_ended_ms,omitempty"`
	Histogram string  `json:"histogram,omitempty"`
}

// Figures are the measurements of a load. Unknown figures are nil. Sizes are in bytes.
type Figures struct {
	Ops          uint64  `json:"ops,omitzero"`
	OpsPerSecond float64 `json:"ops_per_s,omitzero"`

	CPUMicros *float64 `json:"cpu_us_per_op,omitempty"` // of the whole process, including background work
	P50       *float64 `json:"p50_us,omitempty"`
	P99       *float64 `json:"p99_us,omitempty"`
	P999      *float64 `json:"p999_us,omitempty"`

	BytesWritten *uint64 `json:"bytes_written,omitempty"` // log, flushes, compactions and rewriter together
	BytesWAL     *uint64 `json:"bytes_wal,omitempty"`
	BytesFlush   *uint64 `json:"bytes_flush,omitempty"`
	BytesCompact *uint64 `json:"bytes_compact,omitempty"`
	BytesRewrite *uint64 `json:"bytes_rewrite,omitempty"`
	BytesRead    *uint64 `json:"bytes_read,omitempty"`    // by compactions
	BytesOnDisk  *uint64 `json:"bytes_on_disk,omitempty"` // tables in use, at the end
	BytesPeak    *uint64 `json:"bytes_peak,omitempty"`    // largest size of tables at a time, in use or not
	BytesLive    *uint64 `json:"bytes_live,omitempty"`    // tables of a fresh load of the elements that are live at the end
	BytesMoved   *uint64 `json:"bytes_moved,omitempty"`   // from replica to replica, in both directions

	// WriteAmp is how many bytes were written for each byte of the elements named in operations.
	WriteAmp  *float64 `json:"write_amp,omitempty"`
	KeysLive  *uint64  `json:"keys_live,omitempty"` // live dots
	KeysDead  *uint64  `json:"keys_dead,omitempty"` // other keys in tables
	HeapBytes *uint64  `json:"heap_bytes,omitempty"`

	MBPerSecond *float64 `json:"mb_per_s,omitempty"` // millions of bytes of keys and values

	Kept *float64 `json:"kept,omitempty"` // speed relative to that of the same load on a nearly empty store

	Allocs *float64 `json:"allocs_per_op,omitempty"` // objects on the heap
	Share  *float64 `json:"share,omitempty"`         // rate of false positives relative to the configured probability

	Errors   *uint64 `json:"errors,omitempty"`    // operations that failed during a continuous load
	RSSBytes *uint64 `json:"rss_bytes,omitempty"` // resident memory of a process

	Stalls     *uint64 `json:"stalls,omitempty"`      // times that writes waited for flushes or compactions
	KeysTabled *uint64 `json:"keys_tabled,omitempty"` // element keys written by flushes and compactions, each as often as they wrote it

	Late *uint64 `json:"late,omitempty"` // operations of clients with a rate that were due before the end but had not begun
}

// named is a figure with its name in JSON.
type named[T any] struct {
	name string
	at   **T
}

// floats and counts list the figures that may be unknown.
func (f *Figures) floats() []named[float64] {
	return []named[float64]{
		{"cpu_us_per_op", &f.CPUMicros}, {"p50_us", &f.P50}, {"p99_us", &f.P99}, {"p999_us", &f.P999}, {"write_amp", &f.WriteAmp},
		{"mb_per_s", &f.MBPerSecond}, {"kept", &f.Kept}, {"allocs_per_op", &f.Allocs}, {"share", &f.Share},
	}
}

func (f *Figures) counts() []named[uint64] {
	return []named[uint64]{
		{"bytes_written", &f.BytesWritten}, {"bytes_wal", &f.BytesWAL}, {"bytes_flush", &f.BytesFlush},
		{"bytes_compact", &f.BytesCompact}, {"bytes_rewrite", &f.BytesRewrite}, {"bytes_read", &f.BytesRead},
		{"bytes_on_disk", &f.BytesOnDisk}, {"bytes_peak", &f.BytesPeak}, {"bytes_live", &f.BytesLive},
		{"bytes_moved", &f.BytesMoved}, {"keys_live", &f.KeysLive}, {"keys_dead", &f.KeysDead}, {"heap_bytes", &f.HeapBytes},
		{"errors", &f.Errors}, {"rss_bytes", &f.RSSBytes}, {"stalls", &f.Stalls}, {"keys_tabled", &f.KeysTabled}, {"late", &f.Late},
	}
}

// Named returns a figure by its name in JSON, and whether it is known.
func (f *Figures) Named(name string) (value float64, known bool) {
	switch name {
	case "ops":
		return float64(f.Ops), f.Ops != 0
	case "ops_per_s":
		return f.OpsPerSecond, f.OpsPerSecond != 0
	}
	for _, n := range f.floats() {
		if n.name == name && *n.at != nil {
			return **n.at, true
		}
	}
	for _, n := range f.counts() {
		if n.name == name && *n.at != nil {
			return float64(**n.at), true
		}
	}
	return 0, false
}

// Medians returns the median of each figure over the rounds that have it.
func Medians(rounds []Figures) (m Figures) {
	var ops []uint64
	var speeds []float64
	for _, r := range rounds {
		ops, speeds = append(ops, r.Ops), append(speeds, r.OpsPerSecond)
	}
	m.Ops, m.OpsPerSecond = Median(ops), Median(speeds)
	for i, to := range m.floats() {
		*to.at = medianOf(rounds, func(f *Figures) *float64 { return *f.floats()[i].at })
	}
	for i, to := range m.counts() {
		*to.at = medianOf(rounds, func(f *Figures) *uint64 { return *f.counts()[i].at })
	}
	return m
}

func medianOf[T cmp.Ordered](rounds []Figures, figure func(*Figures) *T) *T {
	var have []T
	for i := range rounds {
		if v := figure(&rounds[i]); v != nil {
			have = append(have, *v)
		}
	}
	if len(have) == 0 {
		return nil
	}
	return new(Median(have))
}

// Median returns the middle value; for an even number of values, the lower one, which was measured.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// Collector gathers the figures of the rounds of one step.
type Collector struct{ list []*collected }

type collected struct {
	row  Row
	hist *hdrhistogram.Histogram // of all rounds
}

// Add adds the figures of one round. A row is identified by workload, system, record, strategy and elements.
func (c *Collector) Add(row Row, f Figures, hist *hdrhistogram.Histogram) {
	for _, g := range c.list {
		r := &g.row
		if r.Workload == row.Workload && r.System == row.System && r.Record == row.Record &&
			r.Strategy == row.Strategy && r.Elements == row.Elements {
			r.Rounds, r.Ended = append(r.Rounds, f), append(r.Ended, time.Now().UnixMilli())
			if hist != nil {
				g.hist.Merge(hist)
			}
			return
		}
	}
	row.Rounds, row.Ended = []Figures{f}, []int64{time.Now().UnixMilli()}
	if hist == nil {
		hist = NewHistogram()
	}
	c.list = append(c.list, &collected{row, hist})
}

// Unfinished returns the figures of some rounds of a workload, for Collect.
func (c *Collector) Unfinished(workload string, done int) (*Unfinished, error) {
	u := &Unfinished{Workload: workload, Done: done}
	for _, g := range c.list {
		hist, err := g.encoded()
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		u.Rows, u.Histograms = append(u.Rows, g.row), append(u.Histograms, hist)
	}
	return u, nil
}

func (g *collected) encoded() (string, error) {
	hist, err := g.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(hist), err
}

// Finished returns the finished rounds of the rows of a workload as Unfinished, so that a run can add rounds. It returns an error if a row
// has no histogram.
func Finished(workload string, rows []Row) (*Unfinished, error) {
	u := &Unfinished{Workload: workload}
	for _, r := range rows {
		if r.Histogram == "" {
			return nil, fmt.Errorf("rounds of %s were kept by an older build, without their latencies, so none can be added", r.Workload)
		}
		u.Done = max(u.Done, len(r.Rounds))
		u.Rows, u.Histograms = append(u.Rows, r), append(u.Histograms, r.Histogram)
	}
	return u, nil
}

// Collect inverts Unfinished.
func (u *Unfinished) Collect() (c Collector, err error) {
	if len(u.Rows) != len(u.Histograms) {
		return c, fmt.Errorf("bench: %d rows of %s with %d histograms", len(u.Rows), u.Workload, len(u.Histograms))
	}
	for i, row := range u.Rows {
		hist, err := hdrhistogram.Decode([]byte(u.Histograms[i]))
		if err != nil {
			return c, fmt.Errorf("bench: histogram of %s: %w", row.Workload, err)
		}
		c.list = append(c.list, &collected{row, hist})
	}
	return c, nil
}

// Take adds the rows of another collector. The collectors must not have rows in common.
func (c *Collector) Take(o *Collector) { c.list = append(c.list, o.list...) }

// Rows returns the rows. Percentiles are those of all rounds together.
func (c *Collector) Rows() []Row {
	var rows []Row
	for _, g := range c.list {
		r := g.row
		r.Figures = Medians(r.Rounds)
		r.Latencies(g.hist)
		r.Histogram, _ = g.encoded() // a compression into memory does not fail
		rows = append(rows, r)
	}
	return rows
}

// LatencyMax is the longest latency that a histogram distinguishes.
const LatencyMax = 10 * time.Minute

// NewHistogram returns a histogram of nanoseconds with three significant figures.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(LatencyMax), 3)
}

// Latencies sets the percentiles.
func (f *Figures) Latencies(h *hdrhistogram.Histogram) {
	if h.TotalCount() == 0 {
		return
	}
	at := func(percent float64) *float64 { return new(Micros(time.Duration(h.ValueAtPercentile(percent)))) }
	f.P50, f.P99, f.P999 = at(50), at(99), at(99.9)
}

// Micros returns a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
