package compaction

import (
	"maps"
	"sync/atomic"

	"bigset/clock"
)

const (
	registryShards = 256
	slotBits       = 12 // the presence table has a bit for each of 2^slotBits ranges of slots
)

// Registry says what the drop filter may drop now: for each of its sets, the dots of a Dead that is durable and older than every
// open reader of the set. It is immutable; With makes the next one. Any number of goroutines may read it. The zero value contains
// nothing.
type Registry struct {
	present [1 << slotBits / 64]uint64
	shards  [registryShards]map[string]*registered
	sets    int
	last    atomic.Pointer[registered] // the entry that answered last: neighbours in a table mostly belong to one set
}

// registered is one set's entry. Its Dead is never mutated again.
type registered struct {
	prefix string
	dead   *clock.Clock
	hits   *atomic.Uint64 // keys found droppable, over all registries that held the set
}

// With returns a registry in which the sets named by their key prefixes have the given Dead. A nil or empty Dead removes the set.
// The clocks belong to the registry from now on and must not change.
func (r *Registry) With(changes map[string]*clock.Clock) *Registry {
	next := &Registry{shards: r.shards, present: r.present, sets: r.sets}
	copied := [registryShards]bool{}
	for prefix, dead := range changes {
		s := shardOf(prefix)
		if !copied[s] {
			copied[s] = true
			if next.shards[s] = maps.Clone(r.shards[s]); next.shards[s] == nil {
				next.shards[s] = map[string]*registered{}
			}
		}
		next.sets -= len(next.shards[s])
		if dead == nil || dead.Empty() {
			delete(next.shards[s], prefix)
		} else {
			hits := &atomic.Uint64{}
			if old := r.shards[s][prefix]; old != nil {
				hits = old.hits
			}
			next.shards[s][prefix] = &registered{prefix, dead, hits}
			bit := slotRange(prefix)
			next.present[bit/64] |= 1 << (bit % 64)
		}
		next.sets += len(next.shards[s])
	}
	if next.sets == 0 { // bits of removed sets stay until then: they cost a look-up, no more
		next.present = [len(next.present)]uint64{}
	}
	return next
}

// Len returns the number of sets that have something to drop.
func (r *Registry) Len() int { return r.sets }

// Dots returns how many dots of the set with that key prefix may be dropped; 0 if it is not in the registry.
func (r *Registry) Dots(prefix []byte) uint64 {
	if e := r.shards[shardOf(prefix)][string(prefix)]; e != nil {
		return e.dead.Len()
	}
	return 0
}

// Droppable reports whether the key with the given prefix (slot and set) and dot may be left out. It allocates nothing.
func (r *Registry) Droppable(prefix, actor []byte, counter uint64) bool {
	if r.sets == 0 || len(prefix) < 4 {
		return false
	}
	if bit := slotRange(prefix); r.present[bit/64]&(1<<(bit%64)) == 0 {
		return false
	}
	e := r.last.Load()
	if e == nil || e.prefix != string(prefix) {
		if e = r.shards[shardOf(prefix)][string(prefix)]; e == nil {
			return false
		}
		r.last.Store(e)
	}
	if !e.dead.ContainsBytes(actor, counter) {
		return false
	}
	e.hits.Add(1)
	return true
}

// Hits returns how often a key of the set with that prefix was found droppable since the set was entered; 0 if it is not in
// the registry.
func (r *Registry) Hits(prefix []byte) uint64 {
	if e := r.shards[shardOf(prefix)][string(prefix)]; e != nil {
		return e.hits.Load()
	}
	return 0
}

// shardOf distributes sets by the second byte of their slot; the first alone would put the sets of a small bucket together.
func shardOf[B string | []byte](prefix B) byte { return prefix[1] ^ prefix[3] }

// slotRange returns which of the 2^slotBits ranges of slots contains a key prefix of at least four bytes.
func slotRange[B string | []byte](prefix B) uint { return uint(prefix[0])<<4 | uint(prefix[1])>>4 }
