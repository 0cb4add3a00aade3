package door

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// longBytes is the default of LimitsOptions.LongBytes.
const longBytes = 512 << 20

// LimitsOptions say what doors may have together. Zero means the default.
type LimitsOptions struct {
	// Connections may be open at one time; 10,000. One more is closed at once. Each takes a file descriptor: ConnectionsMost says how many the
	// process can afford.
	Connections int
	// LongBytes are those of the buffers above 64 KiB, of requests that are being read and of answers that have to be whole before they begin; 512 MiB.
	// Beyond, a request is taken for too long, and such an answer is refused.
	LongBytes int64
}

// Limits are what all doors of a node share, so that a further door opens no further room. Its methods may be called by any number of
// goroutines.
type Limits struct {
	most     int // connections
	longMost int64
	long     atomic.Int64 // bytes of the buffers that are larger than those that connections keep

	mu     sync.Mutex
	kept   int // connections that doors have for themselves
	shared int // connections that are open beside those
}

// NewLimits returns limits for the doors of a node. Negative ones allow nothing.
func NewLimits(o LimitsOptions) *Limits {
	if o.Connections == 0 {
		o.Connections = 10_000
	}
	if o.LongBytes == 0 {
		o.LongBytes = longBytes
	}
	return &Limits{most: o.Connections, longMost: o.LongBytes}
}

// share is what one door has of the limits. Their lock guards it.
type share struct {
	kept int // connections for this door alone
	open int
}

// keep gives a door connections of its own. It fails where none would be left for all.
func (l *Limits) keep(sh *share, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most < 1 || l.kept+n > l.most {
		return fmt.Errorf("at most %d connections, of which %d are kept for other doors and %d are wanted", l.most, l.kept, n)
	}
	l.kept += n
	sh.kept = n
	return nil
}

// take reports whether a door may have one more connection, which counts then.
func (l *Limits) take(sh *share) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sh.open >= sh.kept {
		if l.shared >= l.most-l.kept {
			return false
		}
		l.shared++
	}
	sh.open++
	return true
}

// give gives a connection back.
func (l *Limits) give(sh *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sh.open--
	if sh.open >= sh.kept {
		l.shared--
	}
}

// release gives back what a door has for itself. It has no connections any more.
func (l *Limits) release(sh *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept -= sh.kept
	sh.kept = 0
}

// open returns how many connections a door has.
func (l *Limits) open(sh *share) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sh.open
}

// TakeLong takes bytes from what all long requests and answers of a node share, for a Link, and reports false where there are not as many left.
func (l *Limits) TakeLong(bytes int64) bool { return l.takeLong(bytes) }

// GiveLong gives back what TakeLong took.
func (l *Limits) GiveLong(bytes int64) { l.takeLong(-bytes) }

// takeLong counts more bytes of long requests, or fewer, and reports false where they would be too many.
func (l *Limits) takeLong(more int64) bool {
	if l.long.Add(more) > l.longMost && more > 0 {
		l.long.Add(-more)
		return false
	}
	return true
}
