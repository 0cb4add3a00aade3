package lsm

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"bigset/engine/internal/lockorder"
)

// Unflushed knows of which elements memtables may hold keys: tables have bloom filters, memtables have none, and to search one takes longer than to search all
// tables. An element that it does not know is looked up in tables alone.
//
// It is a row of generations, each a bloom filter of what some batches wrote. A batch enters the youngest one before its first key, and leaves when it is
// applied, with its sequence number. A flush ends the youngest generation, and drops those whose batches are all in tables: memtables are flushed in the order of their
// sequence numbers. What puts tables or cuts into the row of memtables makes a generation that knows everything.
//
// Some writes do not report their sequence numbers: tables, cuts and large batches. Their generations are kept until a batch of a generation that began after them
// is in tables.
//
//	keys ─► youngest ─► ended by a flush ─► dropped by the flush that has its last sequence number
//
// Its memory is bounded: generationsMost filters, of a thirty-second of a memtable at most, and a generation without a filter for each batch that is being applied.
// Filters begin small, as memtables do, and one that is full is followed by a larger one. Where the row is full, generations are folded into one that knows everything.
type Unflushed struct {
	// Skipped counts elements that were looked up in tables alone.
	Skipped atomic.Uint64

	most  int // words of a filter
	seed  maphash.Seed
	row   atomic.Pointer[[]*Generation] // oldest first; never changed in place
	drops atomic.Uint64                 // is raised before generations leave the row

	mu       lockorder.Mutex[lockorder.UnflushedMu]
	words    int         // of the next filter
	youngest *Generation // that batches enter; nil: the next one makes it
	flushed  uint64      // sequence number up to which all is in tables
}

// Generation is what some batches wrote. Unflushed.mu guards what is not atomic.
type Generation struct {
	bits    []atomic.Uint64 // nil where it knows everything
	all     atomic.Bool     // it knows everything
	added   atomic.Int64    // elements
	writers int             // batches that have entered and not left
	last    uint64          // the last sequence number of its batches
	unsure  bool            // a higher one exists that is not known: batches of later generations are above it, but for those of unsure ones
}

const (
	// generationsMost is how many generations the row may have before the youngest goes on, or some are folded.
	generationsMost = 6
	// memTableBytesAWord is how much of a memtable has a word of 64 bits: elementsAWord elements or fewer.
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

// Enter returns the generation that a batch is to add its elements to, before it is applied. Leave is called when it is, or never will be.
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

// beginLocked begins a generation with a filter of some words. Where the row is full it has none, and knows everything.
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

// folded shortens a row that is full, by generations without writers: each is taken over by the next one, which then knows everything. Old ones stay as they are where
// younger ones can go: the next flush drops them.
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

// Leave takes a batch out of its generation. seq is its sequence number, 0 where it was not applied. A batch that failed and may have been applied never leaves.
func (u *Unflushed) Leave(g *Generation, seq uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g.writers--
	g.last = max(g.last, seq)
	if seq == 0 || g.unsure { // this batch may be below what is not known
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

// LeaveUnknown is Leave of a batch that was applied with a sequence number that is not known.
func (u *Unflushed) LeaveUnknown(g *Generation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g.writers--
	row := *u.row.Load()
	for _, younger := range row[slices.Index(row, g):] { // its batches may be below it, too
		younger.unsure = true
	}
	u.youngest = nil // what comes later is above it
}

// Blind has all elements looked up in memtables, too, from now until what happens before end is called is in tables.
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

// flushedTo notes that all up to a sequence number is in tables that every iterator sees from now on. It may be called under Pebble's locks.
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

// Moment is asked for before an iterator over tables is opened.
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
	return u.drops.Load() != moment // what it held may have gone to tables that the iterator does not see
}

// wordOf returns the word of a hash: its upper half, scaled.
func wordOf(h uint64, words int) int { return int(h >> 32 * uint64(words) >> 32) }

// mask returns the bits of a hash in its word.
func mask(h uint64) uint64 {
	return 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}
