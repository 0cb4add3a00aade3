package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// setCache keeps the sets that are used in memory. When they cost too much, it forgets those that were unused for
// longest. A pinned set stays.
type setCache struct {
	s *Store

	mu     lockorder.Mutex[lockorder.CacheMu]
	byName map[string]*set
	lru    set // the ring's head: lru.later is the one unused for longest, lru.prev the one used last
	bytes  int64
	gone   uint64 // sets that were loaded and forgotten
	keysAt int64  // the latest lastKeys of a set that was forgotten: one that is loaded may be that set

	live, deadBytes atomic.Int64 // of all sets in memory: live dots, and bytes of tombstones

	full chan struct{} // receives when there may be something to forget

	trimmed func() // called when trim has taken a set out of memory but not yet out of the registry; nil except in tests
}

func (c *setCache) init(s *Store) {
	c.s, c.byName, c.full = s, map[string]*set{}, make(chan struct{}, 1)
	c.lru.prev, c.lru.later = &c.lru, &c.lru
}

// acquire pins a set, loading it if need be. Every acquired set must be released.
func (c *setCache) acquire(name []byte) (*set, error) {
	c.mu.Lock()
	st, ok := c.byName[string(name)]
	if !ok {
		st = &set{prefix: keyscheme.NewPrefix(name)}
		st.name = st.prefix.Set()
		st.lastKeys.Store(c.keysAt)
		c.byName[string(name)] = st
		c.push(st)
	}
	if st.pins++; st.pins == 1 {
		c.unlink(st)
	}
	c.mu.Unlock()
	st.loadOnce.Do(func() {
		if st.loadErr = c.s.load(st); st.loadErr == nil {
			c.account(st)
			st.mu.RLock()
			killed := !st.dead.Empty()
			st.mu.RUnlock()
			if killed {
				c.s.publisher.grew(st)
			}
		}
	})
	if st.loadErr != nil {
		defer c.release(st)
		return nil, st.loadErr
	}
	return st, nil
}

// load reads a set's clock and tombstone from disk. It waits while a swap covers the set.
func (s *Store) load(st *set) error {
	s.gate.enter(st.prefix, false)
	defer s.gate.leave()
	return st.load(s.db)
}

// holds reports whether the set with that key prefix is in memory.
func (c *setCache) holds(prefix string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byName[string(keyscheme.Prefix(prefix).Set())]
	return ok
}

// pin pins a set that is in use already.
func (c *setCache) pin(st *set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.pins++; st.pins == 1 {
		c.unlink(st)
	}
}

// release unpins a set.
func (c *setCache) release(st *set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.pins--; st.pins > 0 {
		return
	}
	c.push(st)
	if st.loadErr != nil {
		c.forget(st)
	}
	if c.bytes > c.s.opt.SetCacheBytes {
		select {
		case c.full <- struct{}{}:
		default: // a trim is already due
		}
	}
}

// account measures the set's size again.
func (c *setCache) account(st *set) {
	st.mu.RLock()
	n := st.heapBytes()
	c.count(st, true)
	st.mu.RUnlock()
	c.mu.Lock()
	c.bytes += n - st.bytes
	st.bytes = n
	c.mu.Unlock()
}

// count counts the set's live dots again, which is an addition for each actor. With bytes it also counts those of its
// tombstone, which is an addition for each page. The caller holds st.mu.
func (c *setCache) count(st *set, bytes bool) {
	live := int64(liveDots(st.seen, st.dead))
	c.live.Add(live - st.counted.live.Swap(live))
	if bytes {
		dead := int64(st.dead.HeapBytes())
		c.deadBytes.Add(dead - st.counted.dead.Swap(dead))
	}
}

func (c *setCache) push(st *set) {
	st.prev, st.later = c.lru.prev, &c.lru
	st.prev.later, st.later.prev = st, st
}

func (c *setCache) unlink(st *set) {
	st.prev.later, st.later.prev = st.later, st.prev
	st.prev, st.later = nil, nil
}

// forget drops an unpinned set from memory.
func (c *setCache) forget(st *set) {
	c.unlink(st)
	delete(c.byName, string(st.prefix.Set()))
	c.bytes -= st.bytes
	st.bytes = 0
	c.keysAt = max(c.keysAt, st.lastKeys.Load())
	c.live.Add(-st.counted.live.Swap(0))
	c.deadBytes.Add(-st.counted.dead.Swap(0))
	if st.loadErr == nil {
		c.gone++
	}
}

// trimming trims whenever the cache is full, until ctx is done. It has a goroutine of its own, because many small
// sets may be used during one pass of the rewriter.
func (c *setCache) trimming(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.full:
		}
		if c.s.db.HasFailed() {
			continue
		}
		if err := c.trim(); err != nil {
			c.s.db.Counters.BackgroundErrors.Add(1)
			c.s.event(Event{Kind: EventBackground, Err: err})
			select {
			case <-ctx.Done():
			case <-time.After(c.s.opt.BackgroundInterval): // the cache is still full
			}
		}
	}
}

// trimShare: a full cache is trimmed until one part in trimShare is free, so that it is not trimmed for each set that
// is loaded.
const trimShare = 16

// trim forgets sets until the cache is a little below its bound. It folds operands that have accumulated first. It
// runs in the background.
func (c *setCache) trim() error {
	enough := c.s.opt.SetCacheBytes - c.s.opt.SetCacheBytes/trimShare
	for {
		c.mu.Lock()
		st := c.lru.later
		if c.bytes <= enough || st == &c.lru {
			c.mu.Unlock()
			return nil
		}
		if st.dead.Empty() { // nothing to fold, and the drop filter does not know the set
			c.forget(st)
			c.mu.Unlock()
			continue
		}
		st.pins++ // so that nobody else forgets it before it is evicted
		c.unlink(st)
		c.mu.Unlock()
		err := c.s.holding(st, func() error { return c.s.foldRecords(st) })
		if err != nil {
			c.release(st)
			return err
		}
		c.s.publisher.evict(st)
	}
}

// releaseAndForget unpins a set and forgets it, unless another goroutine has pinned it.
func (c *setCache) releaseAndForget(st *set) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.pins--; st.pins > 0 {
		return false
	}
	c.push(st)
	c.forget(st)
	return true
}

// flush folds the records of all sets in memory at a clean close, so that the next open reads them fast.
func (c *setCache) flush() error {
	c.mu.Lock()
	all := make([]*set, 0, len(c.byName))
	for _, st := range c.byName {
		all = append(all, st)
	}
	c.mu.Unlock()
	var errs []error
	for _, st := range all {
		if st.loadErr == nil && st.seen != nil {
			errs = append(errs, c.s.foldRecords(st))
		}
	}
	return errors.Join(errs...)
}

// foldRecords writes the tombstone's own key whole if operands have accumulated. Nobody else may be writing the set.
func (s *Store) foldRecords(st *set) error {
	if st.deadSize.operands == 0 {
		return nil
	}
	batch := s.db.NewBatch()
	recent := st.dead
	if st.deadRecord.paged() {
		recent = st.deadRecord.recent // pages are folded as they are written
	}
	v := keyscheme.AppendTombstoneValue(nil, recent)
	st.deadSize.wroteWhole(len(v))
	if err := batch.Set(st.prefix.AppendTombstone(nil), v, nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	_, err := s.db.Commit(batch, false)
	return err
}
