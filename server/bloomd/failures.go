package bloomd

import (
	"log/slog"
	"sync"
	"time"
)

// failurePause is the least time between two lines of the log: what one damaged filter fails at may come a hundred thousand times a second.
const failurePause = time.Second

// failureLog logs what fails, and counts what it leaves out.
type failureLog struct {
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (l *failureLog) add(what string, name []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) < failurePause {
		l.skipped++
		return
	}
	l.log.Error("bloomd: request failed", "command", what, "filter", string(name), "error", err, "skipped", l.skipped)
	l.last, l.skipped = now, 0
}
