package server

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bigset/engine"
	"bigset/server/bloomd"
	"bigset/server/door"
	"bigset/server/resp"
)

// WriteMetrics writes figures in Prometheus' text format, version 0.0.4. Their names begin with bigset_.
func WriteMetrics(w io.Writer, figures iter.Seq[engine.Metric]) error {
	var b strings.Builder
	last := ""
	for m := range figures {
		if m.Help != last {
			last = m.Help
			fmt.Fprintf(&b, "# HELP bigset_%s %s\n# TYPE bigset_%s %s\n", m.Family(), m.Help, m.Family(), m.Kind)
		}
		label := ""
		switch {
		case m.SubLabel != "":
			label = fmt.Sprintf("{%s=%q,%s=%q}", m.Label, m.Of, m.SubLabel, m.SubOf)
		case m.Label != "":
			label = fmt.Sprintf("{%s=%q}", m.Label, m.Of)
		}
		fmt.Fprintf(&b, "bigset_%s%s %v\n", m.Name, label, m.Value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// metrics lists the figures of the store, of its filters and of the doors.
func (n *Node) metrics(s *engine.Store) (iter.Seq[engine.Metric], error) {
	filters, err := n.sums.metrics(s) // before the store's figures, which count damage met here
	if err != nil {
		return nil, err
	}
	st, err := s.Stats()
	if err != nil {
		return nil, err
	}
	return func(yield func(engine.Metric) bool) {
		for m := range st.Metrics() {
			if !yield(m) {
				return
			}
		}
		for _, list := range [][]engine.Metric{filters, n.doors.metrics(), n.ownMetrics()} {
			for _, m := range list {
				if !yield(m) {
					return
				}
			}
		}
	}, nil
}

// sumsAge is how old the sums over all filters may be.
const sumsAge = 10 * time.Second

// filterSums are sums over all filters that Stats does not contain. Each filter has to be asked for them, so the sums are made once for all
// callers within sumsAge. The zero value is ready to use.
type filterSums struct {
	mu   sync.Mutex
	made time.Time
	list []engine.Metric
}

// metrics returns the sums. It loads no filter into memory.
func (f *filterSums) metrics(s *engine.Store) ([]engine.Metric, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list != nil && time.Since(f.made) < sumsAge {
		return f.list, nil
	}
	made := time.Now()
	all, err := s.Filters().List(nil)
	if err != nil {
		return nil, err
	}
	var keys, capacity, storage uint64
	for i := range all {
		f := &all[i]
		keys += f.Size
		capacity += f.Capacity
		storage += f.Storage
	}
	f.made, f.list = made, []engine.Metric{
		gauge("filter_keys", "keys in all bloom filters", keys),
		gauge("filter_capacity", "keys that the layers of all bloom filters are made for", capacity),
		gauge("filter_storage_bytes", "bytes of all bloom filters by bloomd's formula, not those on disk", storage),
	}
	return f.list, nil
}

// bloomdMetrics are the figures of bloomd's protocol. Those of connections and bytes are older than the other doors.
func bloomdMetrics(m bloomd.Metrics) []engine.Metric {
	list := []engine.Metric{
		gauge("connections", "clients connected by bloomd's protocol", m.Connections),
		counter("connections_accepted", "clients that were connected", m.Accepted),
		counter("connections_refused", "clients that were too many", m.Refused),
		counter("keys_checked", "keys in check and multi", m.KeysChecked),
		counter("keys_set", "keys in set and bulk", m.KeysSet),
		counter("bytes_received", "bytes that clients sent", m.BytesRead),
		counter("bytes_sent", "bytes that clients were sent", m.BytesWritten),
		counter("client_errors", "answers that said that a request was wrong", m.ClientErrors),
		counter("internal_errors", "answers that said that the node failed", m.InternalErrors),
	}
	for _, name := range slices.Sorted(maps.Keys(m.Commands)) {
		c := counter("commands", "requests by command", m.Commands[name])
		c.Label, c.Of = "command", name
		list = append(list, c)
	}
	return list
}

// latency returns the figures of a latency.
func latency(name, help string, l door.Latency) (list []engine.Metric) {
	m, n := engine.Metric{Help: help, Kind: engine.Histogram}, uint64(0)
	for i, c := range l.Buckets {
		n += c
		m.Name, m.Label, m.Of, m.Value = name+"_bucket", "le", "+Inf", float64(n)
		if bound := door.LatencyBound(i); bound > 0 {
			m.Of = strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)
		}
		list = append(list, m)
	}
	m.Label, m.Of = "", ""
	m.Name, m.Value = name+"_sum", l.Seconds
	list = append(list, m)
	m.Name, m.Value = name+"_count", float64(l.Count)
	return append(list, m)
}

// respMetrics are the figures of the protocol of redis.
func respMetrics(m resp.Metrics) []engine.Metric {
	list := []engine.Metric{
		counter("resp_errors", "answers of the protocol of redis that were errors", m.Errors),
		counter("resp_failures", "of these, the errors that say that the node failed, or that the outcome is unknown", m.Failures),
		counter("resp_elements", "elements and keys that the protocol of redis was asked to add, remove or look up", m.Elements),
		gauge("resp_cursors", "positions of SSCAN and SCAN that are kept", m.Cursors),
	}
	list = append(list, latency("resp_question_seconds", "seconds that SISMEMBER and SMISMEMBER took; those that were done together took the same time", m.Questions)...)
	list = append(list, latency("resp_change_seconds", "seconds that SADD and SREM took; those that were done together took the same time", m.Changes)...)
	list = append(list, latency("resp_other_seconds", "seconds that other requests about sets and keys took by the protocol of redis, without BS.CHANGES and WAIT", m.Others)...)
	for _, name := range slices.Sorted(maps.Keys(m.Commands)) {
		if n := m.Commands[name]; n > 0 {
			c := counter("resp_commands", "requests by the protocol of redis, by command", n)
			c.Label, c.Of = "command", name
			list = append(list, c)
		}
	}
	return list
}

// ownMetrics are the node's own figures.
func (n *Node) ownMetrics() []engine.Metric {
	ready := 1
	if len(n.NotReady(false)) > 0 {
		ready = 0
	}
	return []engine.Metric{
		gauge("ready", "1 when the node can do all its work", ready),
		gauge("started_seconds", "when the node was started, in seconds since 1970", n.started.Unix()),
		counter("filter_flushes", "flushes of all filters by the timer", n.flushes.Load()),
		counter("filter_flush_errors", "of these, the flushes that failed", n.flushErrors.Load()),
		counter("filters_closed_cold", "filters that were closed because they were not used", n.coldCloses.Load()),
	}
}

func gauge[T int | int64 | uint64](name, help string, v T) engine.Metric {
	return engine.Metric{Name: name, Help: help, Kind: engine.Gauge, Value: float64(v)}
}

func counter[T int | int64 | uint64](name, help string, v T) engine.Metric {
	return engine.Metric{Name: name, Help: help, Kind: engine.Counter, Value: float64(v)}
}
