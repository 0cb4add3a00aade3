package server

import (
	"log/slog"
	"sync"
	"time"

	"bigset/engine/filters"
)

// limitSettings are the names of the settings that limit filters.
var limitSettings = map[filters.Limit]string{
	filters.LimitCapacity:    "max_capacity",
	filters.LimitFilters:     "max_filters",
	filters.LimitBytes:       "max_filter_bytes",
	filters.LimitTotalBytes:  "max_total_bytes",
	filters.LimitMemoryBytes: "max_in_memory_bytes",
}

// refusalPause is the least time between two log lines about refused filters: clients may ask for them without end.
const refusalPause = 10 * time.Second

// refusalLog logs filters that were refused because they are too large, and counts the lines it skips. Its callers never wait for the log,
// which may be a full pipe. Any number of goroutines may call it.
type refusalLog struct {
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time
	writing bool // a line is being written
	skipped int
}

func (r *refusalLog) add(name []byte, limit *filters.LimitError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.writing || now.Sub(r.last) < refusalPause {
		r.skipped++
		return
	}
	go r.write(string(name), limit, r.skipped)
	r.last, r.skipped, r.writing = now, 0, true
}

func (r *refusalLog) write(name string, limit *filters.LimitError, skipped int) {
	r.log.Warn("bigset: a filter was refused, it is too large", "filter", name, "limit", string(limit.Limit), "setting", limitSettings[limit.Limit],
		"wanted", limit.Want, "most", limit.Max, "skipped", skipped)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = false
}
