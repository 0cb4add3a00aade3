package bloomd

import (
	"log/slog"
	"sync"
	"time"
)

// failurePause is the least time between two lines of the log: what one damaged filter fails at may come a hundred thousand times a second.
const failurePause = time.Second

// failureLog logs what fails, and counts what it leaves out. Nobody waits for it: a log may be a pipe that is full.
type failureLog struct {
	log   *slog.Logger
	pause time.Duration // failurePause, but in tests

	mu      sync.Mutex
	last    time.Time
	writing bool // a line is on its way
	skipped int
}

func (l *failureLog) add(what string, name []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.writing || now.Sub(l.last) < l.pause {
		l.skipped++
		return
	}
	go l.write(what, string(name), err, l.skipped)
	l.last, l.skipped, l.writing = now, 0, true
}

func (l *failureLog) write(what, name string, err error, skipped int) {
	l.log.Error("bloomd: request failed", "command", what, "filter", name, "error", err, "skipped", skipped)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = false
}
