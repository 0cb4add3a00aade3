package cluster

import (
	"log/slog"
	"sync"
	"time"

	"bigset/server/coord"
)

// eventLog logs events of the background work. About events of one kind at one member it writes at most linesMost lines in linesTime: while a
// member is away or a disk is full, each write is an event. Its methods may be called by any number of goroutines.
type eventLog struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	lines map[eventSource]*eventLines
}

const (
	linesMost = 10
	linesTime = 10 * time.Second
)

// eventSource is what lines are counted for.
type eventSource struct {
	kind coord.EventKind
	node string
}

// eventLines are the lines about one source.
type eventLines struct {
	since   time.Time // when the first of them was written
	written int       // since then
	skipped int       // events without a line, since the last line
}

// add logs an event, or counts it for a later line.
func (l *eventLog) add(e *coord.Event) {
	skipped, ok := l.line(eventSource{e.Kind, e.Node})
	if !ok {
		return
	}
	l.log.Warn("cluster: "+string(e.Kind), "node", e.Node, "peer", e.Peer, "name", string(e.Set), "count", e.Count, "cause", e.Err, "skipped", skipped)
}

// line reports whether a line may be written now, and how many events had none since the last one.
func (l *eventLog) line(of eventSource) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[eventSource]*eventLines{}
	}
	s, now := l.lines[of], l.now()
	if s == nil {
		s = &eventLines{since: now}
		l.lines[of] = s
	}
	if now.Sub(s.since).Abs() >= linesTime { // the clock may jump
		s.since, s.written = now, 0
	}
	if s.written == linesMost {
		s.skipped++
		return 0, false
	}
	skipped = s.skipped
	s.written++
	s.skipped = 0
	return skipped, true
}
