package door

import (
	"log/slog"
	"sync"
	"time"
)

// failurePause is the least time between two log lines: operations on one damaged filter may fail a hundred thousand times a second.
const failurePause = time.Second

// Failures logs failures, at most one line a second, and counts those it skips. Its callers never wait for the log, which may be a full
// pipe. The methods may be called by any number of goroutines.
type Failures struct {
	log      *slog.Logger
	text     string
	what, of string // names of the values of a line
	pause    time.Duration

	mu      sync.Mutex
	last    time.Time
	writing bool // a line is being written
	skipped int
}

// NewFailures returns a log of failures. Each line contains text, the failed operation and its object, under the names what and of. A nil
// log means slog.Default().
func NewFailures(log *slog.Logger, text, what, of string) *Failures {
	if log == nil {
		log = slog.Default()
	}
	return &Failures{log: log, text: text, what: what, of: of, pause: failurePause}
}

// SetPause changes the least time between two lines. It must be called before the first failure.
func (l *Failures) SetPause(d time.Duration) { l.pause = d }

// Add logs a failure, or counts it as skipped.
func (l *Failures) Add(what string, of []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.writing || now.Sub(l.last) < l.pause {
		l.skipped++
		return
	}
	go l.write(what, string(of), err, l.skipped)
	l.last, l.skipped, l.writing = now, 0, true
}

func (l *Failures) write(what, of string, err error, skipped int) {
	l.log.Error(l.text, l.what, what, l.of, of, "error", err, "skipped", skipped)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = false
}
