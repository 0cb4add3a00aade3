package lsm

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"bigset/engine/internal/lockorder"
)

// Unflushed knows the elements for which memtables may hold keys. Tables have bloom filters, memtables have none, and searching one
// memtable takes longer than searching all tables. An element that Unflushed does not know is looked up only in tables.
//
// It is a queue of generations, each a bloom filter of what some batches wrote. A batch enters the youngest generation before its
// first key, and leaves it, with its sequence number, when it is applied. A flush ends the youngest generation, and drops those
// whose batches are all in tables: memtables are flushed in the order of their sequence numbers. Operations that put tables or
// excisions into the queue of memtables make a generation that knows everything.
//
// Some writes do not report their sequence numbers: tables, excisions and large batches. Their generations are kept until a batch
// of a generation that began after them is in tables.
//
//	keys ─► youngest ─► ended by a flush ─► dropped by the flush that has its last sequence number
//
// Its memory is bounded: generationsMost filters, each at most a thirty-second of a memtable, and one generation without a filter
// for each batch that is being applied. Filters begin small, as memtables do, and a full one is followed by a larger one. If the
// queue is full, generations are folded into one that knows everything.
type Unflushed struct {
	// Skipped counts elements that were looked up only in tables.
	Skipped atomic.Uint64

	most  int // words of a filter
	seed  maphash.Seed
	row   atomic.Pointer[[]*Generation] // oldest first; never changed in place
	drops atomic.Uint64                 // incremented before generations leave the row

	mu       lockorder.Mutex[lockorder.UnflushedMu]
	words    int         // of the next filter
	youngest *Generation // the generation that batches enter; nil: the next batch makes it
	flushed  uint64      // sequence number up to which everything is in tables
}

// Generation is what some batches wrote. Unflushed.mu guards what is not atomic.
type Generation struct {
	bits    []atomic.Uint64 // nil if it knows everything
	all     atomic.Bool     // it knows everything
	added   atomic.Int64    // elements
	writers int             // batches that have entered and not left
	last    uint64          // the last sequence number of its batches
	unsure  bool            // an unknown higher one exists: batches of later generations are above it, except those of unsure ones
}

const (
	// generationsMost is how many generations the row may have before the youngest continues, or some are folded.
	generationsMost = 6
	// memTableBytesAWord is the number of bytes of a memtable per word of 64 bits, which serves elementsAWord elements or fewer.
	memTableBytesAWord = 256
	elementsAWord      = 4
	wordsMin           = 256
	wordsFirst         = 8 << 10
)

func (u *Unflushed) init(memTableBytes int) {
	u.most = max(wordsMin, memTableBytes/memTableBytesAWord)
	u.words = min(u.most, wordsFirst)
	u.seed = maphash.MakeSeed()
	u.row.Store(new([]*Generation))
}

// Enter returns the generation to which a batch must add its elements before it is applied. Leave must be called when the batch is
// applied, or never will be.
func (u *Unflushed) Enter() *Generation {
	u.mu.Lock()
	defer u.mu.Unlock()
	if g := u.youngest; g != nil && g.added.Load() > int64(elementsAWord*len(g.bits)) && len(*u.row.Load()) < generationsMost {
		u.words = min(2*u.words, u.most)
		u.youngest = nil
	}
	if u.youngest == nil {
		u.beginLocked(u.words)
	}
	u.youngest.writers++
	return u.youngest
}

// beginLocked begins a generation with a filter of the given size. If the row is full, it has no filter, and knows everything.
func (u *Unflushed) beginLocked(words int) {
	g := &Generation{}
	row := slices.Clone(*u.row.Load())
	if len(row) < generationsMost {
		g.bits = make([]atomic.Uint64, words)
	} else {
		g.all.Store(true)
		row = folded(row)
	}
	row = append(row, g)
	u.row.Store(&row)
	u.youngest = g
}

// folded shortens a full row by generations without writers: each is merged into the next one, which then knows everything. Old
// ones stay if younger ones can be merged, because the next flush drops them.
func folded(row []*Generation) []*Generation {
	for i := len(row) - 2; i >= 0 && len(row) >= generationsMost; i-- {
		if g, next := row[i], row[i+1]; g.writers == 0 {
			next.all.Store(true)
			next.last = max(next.last, g.last)
			next.unsure = next.unsure || g.unsure
			row = slices.Delete(row, i, i+1)
		}
	}
	return row
}

// Leave removes a batch from its generation. seq is its sequence number, or 0 if it was not applied. A batch that failed but may
// have been applied never leaves.
func (u *Unflushed) Leave(g *Generation, seq uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g.writers--
	g.last = max(g.last, seq)
	if seq == 0 || g.unsure { // this batch may be below the unknown number
		return
	}
	for _, older := range *u.row.Load() {
		if older == g {
			return
		}
		if older.unsure {
			older.last, older.unsure = max(older.last, seq), false
		}
	}
}

// LeaveUnknown is Leave of a batch that was applied with an unknown sequence number.
func (u *Unflushed) LeaveUnknown(g *Generation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g.writers--
	row := *u.row.Load()
	for _, younger := range row[slices.Index(row, g):] { // its batches may be below it, too
		younger.unsure = true
	}
	u.youngest = nil // later batches are above it
}

// Blind makes all elements be looked up in memtables as well, from now until everything that happens before the call of end is in
// tables.
func (u *Unflushed) Blind() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.youngest == nil {
		u.beginLocked(0)
	}
	g := u.youngest
	g.all.Store(true)
	g.writers++
	return func() { u.LeaveUnknown(g) }
}

// flushedTo records that everything up to a sequence number is in tables that every iterator sees from now on. It may be called
// under Pebble's locks.
func (u *Unflushed) flushedTo(seq uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.flushed = max(u.flushed, seq)
	row := *u.row.Load()
	if len(row) < generationsMost {
		u.youngest = nil
	}
	kept := slices.DeleteFunc(slices.Clone(row), func(g *Generation) bool {
		return g != u.youngest && g.writers == 0 && !g.unsure && g.last <= u.flushed
	})
	if len(kept) < len(row) {
		u.drops.Add(1)
		u.row.Store(&kept)
	}
}

// Add adds an element, by the bound of its keys.
func (u *Unflushed) Add(g *Generation, bound []byte) {
	if len(g.bits) == 0 {
		return
	}
	g.added.Add(1)
	h := maphash.Bytes(u.seed, bound)
	word := &g.bits[wordOf(h, len(g.bits))]
	if m := mask(h); word.Load()&m != m {
		word.Or(m)
	}
}

// Moment must be called before an iterator over tables is opened.
func (u *Unflushed) Moment() uint64 { return u.drops.Load() }

// MayHold reports whether memtables may hold keys of an element that an iterator over tables, opened after moment, does not show.
func (u *Unflushed) MayHold(bound []byte, moment uint64) bool {
	h := maphash.Bytes(u.seed, bound)
	m := mask(h)
	for _, g := range *u.row.Load() {
		if g.all.Load() || len(g.bits) > 0 && g.bits[wordOf(h, len(g.bits))].Load()&m == m {
			return true
		}
	}
	return u.drops.Load() != moment // elements of a dropped generation may be in tables that the iterator does not see
}

// wordOf returns the word of a hash: its upper half, scaled.
func wordOf(h uint64, words int) int { return int(h >> 32 * uint64(words) >> 32) }

// mask returns the bits of a hash in its word.
func mask(h uint64) uint64 {
	return 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}
