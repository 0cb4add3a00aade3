package wire

import (
	"sync"
)

// Budget bounds requests in progress. A single request is never too large.
type Budget struct {
	Requests int
	Bytes    int64 // of their bodies
}

func (b Budget) or(d Budget) Budget {
	if b.Requests == 0 {
		b.Requests = d.Requests
	}
	if b.Bytes == 0 {
		b.Bytes = d.Bytes
	}
	return b
}

// use is the part of a budget that is taken.
type use struct {
	most Budget

	mu       sync.Mutex
	requests int
	bytes    int64
}

func (u *use) take(bytes int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests > 0 && (u.requests >= u.most.Requests || u.bytes+bytes > u.most.Bytes) {
		return false
	}
	u.requests++
	u.bytes += bytes
	return true
}

func (u *use) give(bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests--
	u.bytes -= bytes
}
