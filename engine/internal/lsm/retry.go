package lsm

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"bigset/engine/internal/lockorder"
)

// Pebble retries a failed flush or compaction at once, forever, and each try uses up a number for a table. So a try waits:
// retryFirst after the first failure, twice as long after each further one, at most retryMost, and retryClosing while the store is
// being closed.
const (
	retryFirst   = time.Millisecond
	retryMost    = time.Second
	retryClosing = 20 * time.Millisecond
)

// retry says when failed work is tried again. The zero value has never failed. All methods may be called by any number of
// goroutines.
type retry struct {
	mu    lockorder.Mutex[lockorder.RetryMu]
	fails uint64 // since the last success
	tries uint64 // that have ended
	last  error
	space atomic.Bool   // the last one found no room
	at    time.Time     // of the last failure
	hurry chan struct{} // closed when the store is; nil is never
}

// ended records how a try has ended.
func (r *retry) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	r.last = err
	r.space.Store(errors.Is(err, syscall.ENOSPC))
	if err == nil {
		r.fails = 0
		return
	}
	r.fails++
	r.at = time.Now()
}

// pause returns how long the next try has to wait.
func (r *retry) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails == 0 {
		return 0
	}
	wait := retryMost
	if doublings := r.fails - 1; doublings < 10 {
		wait = min(retryMost, retryFirst<<doublings)
	}
	return max(0, wait-time.Since(r.at))
}

// wait waits until the next try may begin.
func (r *retry) wait() {
	pause := r.pause()
	if pause == 0 {
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.hurry:
		time.Sleep(min(pause, retryClosing))
	}
}

// failing returns how many tries have ended, and why the last one failed, or nil if it did not.
func (r *retry) failing() (tries uint64, last error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries, r.last
}

// full reports whether the last try found no room on the disk.
func (r *retry) full() bool { return r.space.Load() }
