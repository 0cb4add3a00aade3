package resp

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"bigset/server/door"
)

// Requests for the same whole sets share reads. A request that comes while the most reads are under way waits for the next one. A read begins
// after all requests that share it have come, so each gets an answer that a read of its own could have given:
//
//	read 1   A ├──────────────┤ A answers
//	read 2         B, C wait  ├──────────────┤ B and C answer
//	read 3                        D, A wait  ├──────────────┤ D and A answer
//
// The request that came first reads, in the goroutine of its connection, and then wakes the others. All of them send the same memory, which is kept
// until the last has sent it. So a client that takes its answer slowly holds up no other.

// sharedReads are the reads under way that requests may share. At most one read of the same sets for each processor is under way, so that a few
// clients read at the same time. While each read is for several clients, half as many are: the other processors send, and work for others.
type sharedReads struct {
	most int // of the same sets at once

	mu sync.Mutex
	of map[sharedName]*sharing
}

// sharing is the reads of the same sets.
type sharing struct {
	reads   int     // under way
	crowded bool    // the last one to begin is for several requests
	next    *shared // waits until one of them ends; nil if no request has come
}

// shared is the answer to requests that share a read.
type shared struct {
	*gathered
	loan *door.Loan // the memory of gathered
	n    int        // elements
	err  error

	users  atomic.Int32  // requests that have not sent it yet
	begins chan struct{} // closed when the read begins: no more requests join it
	done   chan struct{} // closed when the answer is complete
}

// sharedName is a digest of what is read. The names of sets may be long.
type sharedName [sha256.Size]byte

func newSharedReads() sharedReads {
	return sharedReads{most: runtime.GOMAXPROCS(0), of: map[sharedName]*sharing{}}
}

func nameShared(cmd string, keys [][]byte) (name sharedName) {
	h := sha256.New()
	h.Write([]byte(cmd))
	var size [8]byte
	for _, key := range keys {
		binary.LittleEndian.PutUint64(size[:], uint64(len(key)))
		h.Write(size[:])
		h.Write(key)
	}
	h.Sum(name[:0])
	return name
}

// share returns the answer of a read that begins after the call, or in it. The caller must release it. One of the callers that share it calls read.
func (r *sharedReads) share(name sharedName, read func(*shared)) *shared {
	a, first := r.join(name)
	if !first {
		<-a.done
		return a
	}
	<-a.begins
	defer r.end(name)
	defer close(a.done)
	read(a)
	return a
}

// join returns the next read to begin, and whether the caller is the first to join it.
func (r *sharedReads) join(name sharedName) (a *shared, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[name]
	if s == nil {
		s = new(sharing)
		r.of[name] = s
	}
	if first = s.next == nil; first {
		s.next = &shared{begins: make(chan struct{}), done: make(chan struct{})}
	}
	a = s.next
	a.users.Add(1)
	r.begin(s)
	return a, first
}

// begin begins the next read of the same sets, if there is one and it may.
func (r *sharedReads) begin(s *sharing) {
	most := r.most
	if s.crowded {
		most = max(1, most/2)
	}
	if s.next == nil || s.reads >= most {
		return
	}
	s.reads++
	s.crowded = s.next.users.Load() > 1
	close(s.next.begins)
	s.next = nil
}

// end ends a read.
func (r *sharedReads) end(name sharedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[name]
	s.reads--
	if r.begin(s); s.reads == 0 {
		delete(r.of, name)
	}
}

// release ends the use of the answer by one request.
func (a *shared) release() {
	if a.users.Add(-1) == 0 {
		a.gathered.release()
	}
}
