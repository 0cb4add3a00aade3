package wire

import (
	"math"
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

// take takes some of a budget, or reports that it has no room. Must takes it beyond the budget, up to twice the bytes.
func (u *use) take(bytes int64, must bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	requests, most := u.most.Requests, u.most.Bytes
	if must {
		requests, most = math.MaxInt, 2*most
	}
	if u.requests > 0 && (u.requests >= requests || u.bytes+bytes > most) {
		return false
	}
	u.requests++
	u.bytes += bytes
	return true
}

// A connection of a client has these parts of its own budget even if others have used up that of all clients: 4 requests of
// 64 KiB by default. Without it, a few connections that flood would keep everyone else out.
const (
	littleRequests = 256
	littleBytes    = 2048
)

// little reports whether no more than that is taken.
func (u *use) little() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests <= u.most.Requests/littleRequests && u.bytes <= u.most.Bytes/littleBytes
}

// unread counts the bytes of messages that wait to be written to a connection.
type unread struct {
	mu    sync.Mutex
	bytes int
	most  int
	read  chan struct{} // closed when at most half of most bytes wait; nil unless a goroutine waits for that
}

// add adds bytes that wait, or removes them.
func (u *unread) add(bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += bytes
	if u.read != nil && u.bytes <= u.most/2 {
		close(u.read)
		u.read = nil
	}
}

// full returns nil if at most most bytes wait and no goroutine waits for less, and otherwise a channel that is closed when half of them wait.
func (u *unread) full(most int) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes <= most && u.read == nil {
		return nil
	}
	if u.read == nil {
		u.read, u.most = make(chan struct{}), most
	}
	return u.read
}

func (u *use) give(bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests--
	u.bytes -= bytes
}
