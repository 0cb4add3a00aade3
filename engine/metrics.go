package engine

import (
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"bigset/engine/internal/lsm"
)

// Metric is one figure of Stats, for export. Figures of one name follow one another.
type Metric struct {
	Name  string // as in JSON, in lower case with underscores; figures of a latency end in _bucket, _sum and _count
	Help  string // what it is, and its unit
	Kind  MetricKind
	Label string // with Of, what distinguishes figures of one name: "level" or "le"; empty if the name has one figure
	Of    string
	// SubLabel and SubOf are a second pair of this kind; they are empty if the figure has at most one.
	SubLabel, SubOf string
	Value           float64
}

// Family returns the name without the suffix of a latency's figures.
func (m Metric) Family() string {
	if m.Kind == Histogram {
		return m.Name[:strings.LastIndexByte(m.Name, '_')]
	}
	return m.Name
}

// MetricKind is how a figure changes.
type MetricKind string

const (
	// Counter only grows, from 0 when the store is opened.
	Counter MetricKind = "counter"
	// Gauge goes up and down.
	Gauge MetricKind = "gauge"
	// Histogram is a latency: _bucket counts operations that took at most Of ("le") seconds, _sum is the seconds of
	// all, _count is the number of all.
	Histogram MetricKind = "histogram"
)

// Metrics lists all figures, by the tags of Stats' fields. A string becomes a 1 with the string as label.
func (st *Stats) Metrics() iter.Seq[Metric] {
	return func(yield func(Metric) bool) {
		v := reflect.ValueOf(st).Elem()
		for i := range v.NumField() {
			m := metricOf(v.Type().Field(i))
			ok := true
			switch x := v.Field(i).Interface().(type) {
			case string:
				m.Label, m.Of, m.Value = m.Name, x, 1
				ok = yield(m)
			case uint64:
				m.Value = float64(x)
				ok = yield(m)
			case Latency:
				ok = x.metrics(m, yield)
			case []LevelStats:
				ok = levelMetrics(x, yield)
			}
			if !ok {
				return
			}
		}
	}
}

func metricOf(f reflect.StructField) Metric {
	return Metric{Name: f.Tag.Get("json"), Help: f.Tag.Get("help"), Kind: MetricKind(f.Tag.Get("metric"))}
}

func levelMetrics(levels []LevelStats, yield func(Metric) bool) bool {
	t := reflect.TypeFor[LevelStats]()
	for i := range t.NumField() {
		m := metricOf(t.Field(i))
		m.Name, m.Label = "level_"+m.Name, "level"
		for n, l := range levels {
			m.Of, m.Value = strconv.Itoa(n), float64(reflect.ValueOf(l).Field(i).Uint())
			if !yield(m) {
				return false
			}
		}
	}
	return true
}

// Latency is how long operations of one kind took.
type Latency struct {
	Count   uint64   `json:"count"`
	Seconds float64  `json:"seconds"` // of all together
	Buckets []uint64 `json:"buckets"` // how many took less than 16 µs, 64 µs, 256 µs, … 4 s, and longer
}

func (l Latency) metrics(m Metric, yield func(Metric) bool) bool {
	name, n := m.Name, uint64(0)
	for i, c := range l.Buckets {
		n += c
		m.Name, m.Label, m.Of, m.Value = name+"_bucket", "le", "+Inf", float64(n)
		if i < lsm.TimingBuckets-1 {
			m.Of = strconv.FormatFloat(lsm.TimingBound(i).Seconds(), 'g', -1, 64)
		}
		if !yield(m) {
			return false
		}
	}
	m.Label, m.Of = "", ""
	m.Name, m.Value = name+"_sum", l.Seconds
	if !yield(m) {
		return false
	}
	m.Name, m.Value = name+"_count", float64(l.Count)
	return yield(m)
}

// latencyOf returns what a timing has counted.
func latencyOf(t *lsm.Timing) (l Latency) {
	var took time.Duration
	took, l.Buckets = t.Counts()
	l.Seconds = took.Seconds()
	for _, n := range l.Buckets {
		l.Count += n
	}
	return l
}
