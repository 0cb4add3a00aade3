package comparator_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/btree"

	"bigset/clock"
	"bigset/keyscheme"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the random operations; 0 takes a new one")
	steps = flag.Int("steps", 12000, "random operations on the store")
)

// pair is a key and its value in the model, which is a B-tree in the reference order.
type pair struct{ key, value []byte }

// harness runs the same operations on a store with this order and on the model.
type harness struct {
	t     *testing.T
	rng   *rand.Rand
	fs    vfs.FS
	db    *pebble.DB
	model *btree.BTreeG[pair]
	wrote int
}

func options(fs vfs.FS) *pebble.Options {
	opts := &pebble.Options{
		Comparer:                    comparer,
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                16 << 10,
		L0CompactionThreshold:       2,
		L0CompactionFileThreshold:   2,
		LBaseMaxBytes:               32 << 10,
		MemTableStopWritesThreshold: 8,
		L0StopWritesThreshold:       50,
		DisableWAL:                  false,
		Logger:                      quiet{},
	}
	opts.Experimental.EnableColumnarBlocks = func() bool { return false }
	for i := range opts.Levels {
		opts.Levels[i].BlockSize, opts.Levels[i].IndexBlockSize = 256, 256
		opts.Levels[i].BlockRestartInterval = 3
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].FilterType = pebble.TableFilter
	}
	for i := range opts.TargetFileSizes {
		opts.TargetFileSizes[i] = 4 << 10
	}
	return opts
}

type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// TestStore runs random operations on a real store, with blocks, tables and memtables so small that every function of this package
// matters.
func TestStore(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("run with -seed=%d", *seed)
	h := &harness{t: t, rng: rand.New(rand.NewPCG(*seed, 0)), fs: vfs.NewMem()}
	h.model = btree.NewG(16, func(a, b pair) bool { return refCompare(a.key, b.key) < 0 })
	h.open()
	for range *steps {
		h.step()
	}
	h.checkAll()
	h.closeOpen()
	h.checkAll()
	if err := h.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) open() {
	db, err := pebble.Open("db", options(h.fs))
	h.must(err)
	h.db = db
}

func (h *harness) closeOpen() {
	h.must(h.db.Close())
	h.open()
}

func (h *harness) must(err error) {
	if err != nil {
		h.t.Helper()
		h.t.Fatal(err)
	}
}

// step makes one random operation. Most write, some read, few move the tables.
func (h *harness) step() {
	switch n := h.rng.IntN(1000); {
	case n < 600:
		h.set(h.key())
	case n < 750:
		h.delete(h.stored())
	case n < 760:
		h.deleteRange(h.bound(), h.bound())
	case n < 900:
		h.iterate()
	case n < 980:
		h.seekPrefix()
	case n < 994:
		h.must(h.db.Flush())
	case n < 998:
		h.compact(h.bound(), h.bound())
	case n < 999:
		h.ingest(h.bound(), h.bound())
	default:
		h.closeOpen()
	}
}

func (h *harness) set(key []byte) {
	h.wrote++
	value := fmt.Appendf(nil, "v%d", h.wrote)
	h.must(h.db.Set(key, value, pebble.NoSync))
	h.model.ReplaceOrInsert(pair{key, value})
}

func (h *harness) delete(key []byte) {
	h.must(h.db.Delete(key, pebble.NoSync))
	h.model.Delete(pair{key: key})
}

// between returns the model's pairs with lower <= key < upper.
func (h *harness) between(lower, upper []byte) (pairs []pair) {
	h.model.AscendRange(pair{key: lower}, pair{key: upper}, func(p pair) bool {
		pairs = append(pairs, p)
		return true
	})
	return pairs
}

func (h *harness) deleteRange(a, b []byte) {
	if refCompare(a, b) >= 0 {
		return
	}
	pairs := h.between(a, b)
	if len(pairs) > h.model.Len()/4 {
		return // keep the store from being emptied
	}
	h.must(h.db.DeleteRange(a, b, pebble.NoSync))
	for _, p := range pairs {
		h.model.Delete(p)
	}
}

func (h *harness) compact(a, b []byte) {
	if refCompare(a, b) < 0 {
		h.must(h.db.Compact(h.t.Context(), a, b, false))
	}
}

// element draws from names of few bytes, so that elements are heads of each other and have many dots.
func (h *harness) element() []byte {
	e := make([]byte, h.rng.IntN(5))
	for i := range e {
		e[i] = "\x00\x01ab\xff"[h.rng.IntN(5)]
	}
	return e
}

func (h *harness) prefix() keyscheme.Prefix {
	slot := []keyscheme.Slot{0, 1, 0x01000000, keyscheme.SlotMax}[h.rng.IntN(4)]
	return keyscheme.AppendPrefix(nil, slot, []byte([]string{"", "a", "b", "aa", "ab"}[h.rng.IntN(5)]))
}

func (h *harness) dot() clock.Dot {
	actors := []clock.Actor{"a", "b", "aa"}
	return clock.Dot{Actor: actors[h.rng.IntN(3)], Counter: 1 << (h.rng.IntN(3) * 7)}
}

func (h *harness) key() []byte {
	p := h.prefix()
	switch h.rng.IntN(20) {
	case 0:
		return p.AppendClock(nil)
	case 1:
		return p.AppendTombstone(nil)
	case 2:
		return p.AppendTombstonePage(nil, h.dot().Actor, h.rng.Uint64N(1000))
	case 3:
		return keyscheme.AppendSlotKey(nil, p.Slot(), keyscheme.SlotBloom, h.element())
	case 4:
		return []byte("meta")[:1+h.rng.IntN(3)]
	case 5: // damaged
		key := p.AppendElement(nil, h.element(), h.dot(), keyscheme.OpAdd)
		return key[:1+h.rng.IntN(len(key))]
	}
	return p.AppendElement(nil, h.element(), h.dot(), []keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}[h.rng.IntN(2)])
}

// stored returns a key that is in the store, nearly always.
func (h *harness) stored() []byte {
	key := h.key()
	h.model.AscendGreaterOrEqual(pair{key: key}, func(p pair) bool {
		key = p.key
		return false
	})
	return key
}

// bound returns a whole prefix.
func (h *harness) bound() []byte {
	p := h.prefix()
	switch h.rng.IntN(5) {
	case 0:
		return p.Elements().Upper
	case 1:
		return p.AppendElementAfter(nil, h.element())
	case 2:
		return p[:4]
	}
	return p.AppendElementBound(nil, h.element())
}
