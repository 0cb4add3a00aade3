package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// formatMin is the oldest format of Pebble's that a store may have: below it, damage to the tail of the log goes unnoticed.
const formatMin = pebble.FormatWALSyncChunks

// tables is one way in which Pebble may keep a store's keys.
type tables struct {
	version       pebble.FormatMajorVersion
	memTableBytes int
	block, index  int // bytes of a block
	compression   *sstable.CompressionProfile
	filterBits    int   // of the bloom filter, for each key; 0 is no filter
	base, file    int64 // bytes of the base level, and of a table in level 0
	l0            int   // sublevels that start a compaction
}

// drawTables draws one whose format is no older than from. Half of them are as small as testkit.SmallTables.
func drawTables(r *rand.Rand, from pebble.FormatMajorVersion) tables {
	f := tables{
		version:       from + pebble.FormatMajorVersion(r.IntN(int(pebble.FormatNewest-from)+1)),
		memTableBytes: 64 << 10,
		block:         512,
		index:         1024,
		compression:   []*sstable.CompressionProfile{sstable.NoCompression, sstable.SnappyCompression, sstable.ZstdCompression}[r.IntN(3)],
		filterBits:    []int{0, 1, 10}[r.IntN(3)],
		base:          16 << 10,
		file:          4 << 10,
		l0:            2,
	}
	if r.IntN(2) == 0 {
		f.memTableBytes <<= r.IntN(7)
		f.block, f.index = 128<<r.IntN(9), 128<<r.IntN(12)
		f.base, f.file, f.l0 = 4<<10<<r.IntN(15), 2<<10<<r.IntN(11), 1+r.IntN(4)
	}
	return f
}

// set makes the next open of the store use them.
func (f tables) set(o *engine.Options) {
	o.MemTableBytes = f.memTableBytes
	o.Tune(func(po *pebble.Options) {
		po.FormatMajorVersion = f.version
		po.LBaseMaxBytes, po.TargetFileSizes[0], po.L0CompactionThreshold = f.base, f.file, f.l0
		for i := range po.Levels {
			l := &po.Levels[i]
			l.BlockSize, l.IndexBlockSize = f.block, f.index
			l.Compression = func() *sstable.CompressionProfile { return f.compression }
			l.FilterPolicy = pebble.NoFilterPolicy
			if f.filterBits > 0 {
				l.FilterPolicy = bloom.FilterPolicy(f.filterBits)
			}
		}
	})
}

// openWithOthers opens a store with tables that are drawn again, of the same format as before or a newer one.
func (p *pair) openWithOthers(t *testing.T, r *rand.Rand) {
	t.Helper()
	p.tables = drawTables(r, max(formatMin, p.tables.version))
	p.tables.set(&p.opt)
	p.open(t)
	if got := p.store.TableFormat(); got != p.tables.version {
		t.Fatalf("%s: Pebble's format is %v, want %v", p.label, got, p.tables.version)
	}
}

// String names them in failures.
func (f tables) String() string {
	return fmt.Sprintf("format %v, memtable %d, blocks %d and %d, %s, %d filter bits, base %d, files %d, %d sublevels",
		f.version, f.memTableBytes, f.block, f.index, f.compression.Name, f.filterBits, f.base, f.file, f.l0)
}

// TestFormats makes a store at each format of Pebble's that one may have, and opens it at every newer one, each time with
// other tables: all that was written can be read, and the older tables are read beside the newer ones.
func TestFormats(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for from := formatMin; from <= pebble.FormatNewest; from++ {
		p := newPair(fmt.Sprint("made at format ", from))
		p.opt.Strategy = eager(compaction.Default())
		for to := from; to <= pebble.FormatNewest; to++ {
			f := drawTables(r, to)
			f.version = to
			f.set(&p.opt)
			p.open(t)
			if got := p.store.TableFormat(); got != to {
				t.Fatalf("%s: Pebble's format is %v, want %v", p.label, got, to)
			}
			p.check(t)
			n := 300 * int(to)
			p.all(t, "s", keyscheme.OpRemove, elementNames(n-150, n), bigset.NoSync)
			p.all(t, "s", keyscheme.OpAdd, elementNames(n, n+300), bigset.NoSync)
			must(t, p.store.FlushTables(), "flush")
			if to%2 == 0 {
				_, err := p.store.Compact(bg, engine.CompactOptions{})
				must(t, err, "compact")
			}
			p.check(t)
			p.verify(t)
			p.close(t)
		}
	}
}
