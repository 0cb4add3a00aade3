package wire

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// refusalLog logs the connections that are refused: of one host for one cause once a minute, because a node with a bad certificate tries again
// every second, and ten lines in ten seconds, because anybody may connect. Its methods may be called by any number of goroutines.
type refusalLog struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	said    map[string]time.Time // when there was a line, by host and cause; at most refusalsKept
	since   time.Time            // when the first of the last lines was written
	written int                  // lines since then
	skipped int                  // connections without a line since the last line
}

const (
	refusalAgain = time.Minute
	refusalsKept = 256
	refusalsMost = 10
	refusalsTime = 10 * time.Second
)

// add logs a connection that was refused, or counts it for a later line.
func (l *refusalLog) add(from string, cause error) {
	if skipped, ok := l.line(from, cause); ok {
		l.log.Warn("wire: connection refused", "from", from, "cause", cause, "skipped", skipped)
	}
}

// line reports whether a line may be written now, and how many connections had none since the last one.
func (l *refusalLog) line(from string, cause error) (skipped int, ok bool) {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		host = from
	}
	key := host + " " + causeText(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.since).Abs() >= refusalsTime { // the clock may jump
		l.since, l.written = now, 0
	}
	at, said := l.said[key]
	if said && now.Sub(at).Abs() < refusalAgain || l.written == refusalsMost {
		l.skipped++
		return 0, false
	}
	if l.said == nil || len(l.said) >= refusalsKept {
		l.said = map[string]time.Time{}
	}
	l.said[key] = now
	skipped = l.skipped
	l.written++
	l.skipped = 0
	return skipped, true
}

// causeText returns the text of a cause without the ports of its connection, which are others each time.
func causeText(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}
