package door

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"bigset"
)

// longBytes is the default of LimitsOptions.LongBytes.
const longBytes = 512 << 20

// LimitsOptions bound what all doors use together. Zero means the default.
type LimitsOptions struct {
	// Connections may be open at one time; default 10,000. One more is closed at once. Each takes a file descriptor: ConnectionsMost
	// returns how many the process can afford.
	Connections int
	// LongBytes bounds the buffers above 64 KiB, of requests being read and of answers that must be complete before they begin; default 512
	// MiB. Above that, a request counts as too long, and such an answer is refused.
	LongBytes int64
}

// Limits are shared by all doors of a node, so that another door does not add room. The methods may be called by any number of goroutines.
type Limits struct {
	most     int // connections
	longMost int64
	long     atomic.Int64 // bytes of buffers larger than those that connections keep

	mu     sync.Mutex
	kept   int // connections reserved for single doors
	shared int // open connections other than those
}

// NewLimits returns limits for the doors of a node. Negative limits allow nothing.
func NewLimits(o LimitsOptions) *Limits {
	if o.Connections == 0 {
		o.Connections = 10_000
	}
	if o.LongBytes == 0 {
		o.LongBytes = longBytes
	}
	return &Limits{most: o.Connections, longMost: o.LongBytes}
}

// share is one door's share of the limits. The lock of Limits guards it.
type share struct {
	kept int // connections reserved for this door
	open int
}

// keep reserves connections for a door. It fails if none would be left for all doors.
func (l *Limits) keep(sh *share, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most < 1 || l.kept+n > l.most {
		return fmt.Errorf("at most %d connections: %d are kept for other doors and %d are requested", l.most, l.kept, n)
	}
	l.kept += n
	sh.kept = n
	return nil
}

// take counts one more connection for a door, or reports false if the door may not have one.
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

// give returns a connection.
func (l *Limits) give(sh *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sh.open--
	if sh.open >= sh.kept {
		l.shared--
	}
}

// release returns the connections reserved for a door, which has no open connections any more.
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

// TakeLong takes bytes for a Link from those that all long requests and answers of a node share. It reports false if too few are left.
func (l *Limits) TakeLong(bytes int64) bool { return l.takeLong(bytes) }

// GiveLong returns bytes taken by TakeLong.
func (l *Limits) GiveLong(bytes int64) { l.takeLong(-bytes) }

// TakeBatch takes memory for the batch of a write, in which each operation has the name of the set again. It returns how much GiveLong must return
// after the write: 0 if the names have at most 64 KiB, because the request then bounds the batch. The error wraps ErrNoRoom if too little is left.
// Nil limits have room for every batch.
func (l *Limits) TakeBatch(w *Write) (taken int64, err error) {
	n := len(w.Ops) * len(w.Set)
	if l == nil || n <= bufferBytesKept {
		return 0, nil
	}
	n += len(w.Ops) * bigset.BatchKeyBytes
	for i := range w.Ops {
		n += len(w.Ops[i].Element)
	}
	if n > bigset.BatchKeysBytesMax {
		return 0, nil // the write will be refused
	}
	taken = 1 << bits.Len(uint(n-1)) // the buffer of a batch is doubled until it is large enough
	if !l.takeLong(taken) {
		return 0, Retried(w.Retry, ErrNoRoom)
	}
	return taken, nil
}

// Loan is memory for an answer, from the bytes that all long requests and answers of a node share. One goroutine at a time uses it.
type Loan struct {
	limits *Limits
	taken  int64
}

// Loan returns a loan of no bytes, for an answer that several connections send.
func (s *Server) Loan() *Loan { return &Loan{limits: s.opt.Limits} }

// Take takes more bytes. It reports false if too few are left.
func (l *Loan) Take(bytes int) bool {
	if !l.limits.takeLong(int64(bytes)) {
		return false
	}
	l.taken += int64(bytes)
	return true
}

// Give returns all bytes that were taken.
func (l *Loan) Give() {
	if l.taken > 0 {
		l.limits.takeLong(-l.taken)
		l.taken = 0
	}
}

// takeLong counts more bytes of long requests, or fewer if more is negative. It reports false if they would be too many.
func (l *Limits) takeLong(more int64) bool {
	if l.long.Add(more) > l.longMost && more > 0 {
		l.long.Add(-more)
		return false
	}
	return true
}
