package lsm

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"bigset/clock"
	"bigset/keyscheme"
)

// DotRangesName is the name of the block property that dotCollector writes. It is on disk.
const DotRangesName = "bigset.dots.v1"

// dotActorsMax bounds the actors whose counters one property distinguishes; a block with more actors may hold any dot.
const dotActorsMax = 16

// dotRange is the range of counters that one actor has in a block. An actor is identified by its tail: actors that share one are
// treated as the same, which makes the range wider than necessary.
type dotRange struct {
	tail        uint32
	first, last uint64
}

// dotRanges are the dots that some keys may have. Encoded they are the number of ranges, then for each range: tail (4 bytes BE),
// first, and last less first, as uvarints. An empty encoding stands for any dots.
type dotRanges struct {
	list []dotRange
	any  bool // there were too many actors
}

func (r *dotRanges) reset() { r.list, r.any = r.list[:0], false }

func (r *dotRanges) add(d dotRange) {
	if r.any {
		return
	}
	for i := range r.list {
		if have := &r.list[i]; have.tail == d.tail {
			have.first, have.last = min(have.first, d.first), max(have.last, d.last)
			return
		}
	}
	if len(r.list) == dotActorsMax {
		r.any = true
		return
	}
	r.list = append(r.list, d)
}

func (r *dotRanges) union(o *dotRanges) {
	r.any = r.any || o.any
	for _, d := range o.list {
		r.add(d)
	}
}

func (r *dotRanges) append(buf []byte) []byte {
	if r.any {
		return buf
	}
	buf = append(buf, byte(len(r.list)))
	for _, d := range r.list {
		buf = binary.BigEndian.AppendUint32(buf, d.tail)
		buf = binary.AppendUvarint(buf, d.first)
		buf = binary.AppendUvarint(buf, d.last-d.first)
	}
	return buf
}

// dotCollector records, for each block of a table, for each block of its index and for the whole table, which dots its element keys
// have. Records of all kinds count. So whether a filter hides a block's record of a key depends only on the key, and the filter
// can't hide a delete and show what it deleted. Sets are not distinguished: a search for dots of one set reads no blocks of other
// sets, except those at its ends.
type dotCollector struct {
	block, index, table dotRanges
}

// Name implements pebble.BlockPropertyCollector.
func (c *dotCollector) Name() string { return DotRangesName }

// AddPointKey implements pebble.BlockPropertyCollector.
func (c *dotCollector) AddPointKey(key pebble.InternalKey, _ []byte) error {
	if c.block.any {
		return nil
	}
	if tail, counter, ok := keyscheme.DotTail(key.UserKey); ok {
		c.block.add(dotRange{tail, counter, counter})
	}
	return nil
}

// AddRangeKeys implements pebble.BlockPropertyCollector.
func (c *dotCollector) AddRangeKeys(sstable.Span) error { return nil }

// AddCollectedWithSuffixReplacement implements pebble.BlockPropertyCollector.
func (c *dotCollector) AddCollectedWithSuffixReplacement(_, _, _ []byte) error { return nil }

// SupportsSuffixReplacement implements pebble.BlockPropertyCollector.
func (c *dotCollector) SupportsSuffixReplacement() bool { return false }

// FinishDataBlock implements pebble.BlockPropertyCollector.
func (c *dotCollector) FinishDataBlock(buf []byte) ([]byte, error) {
	c.table.union(&c.block)
	return c.block.append(buf), nil
}

// AddPrevDataBlockToIndexBlock implements pebble.BlockPropertyCollector.
func (c *dotCollector) AddPrevDataBlockToIndexBlock() {
	c.index.union(&c.block)
	c.block.reset()
}

// FinishIndexBlock implements pebble.BlockPropertyCollector.
func (c *dotCollector) FinishIndexBlock(buf []byte) ([]byte, error) {
	buf = c.index.append(buf)
	c.index.reset()
	return buf, nil
}

// FinishTable implements pebble.BlockPropertyCollector.
func (c *dotCollector) FinishTable(buf []byte) ([]byte, error) { return c.table.append(buf), nil }

// DotFilter skips the blocks that have none of some dots. It reads blocks whose property is missing, or which it can't decode.
type DotFilter struct {
	wanted  map[uint32][]*clock.Counters // by the tails of the actors
	skipped *atomic.Uint64
}

// NewDotFilter returns a filter for dots, which must not change afterwards.
func NewDotFilter(dots *clock.Clock, skipped *atomic.Uint64) *DotFilter {
	f := &DotFilter{map[uint32][]*clock.Counters{}, skipped}
	for _, a := range dots.Actors() {
		tail := keyscheme.ActorTail([]byte(a))
		f.wanted[tail] = append(f.wanted[tail], dots.Counters(a))
	}
	return f
}

// Name implements pebble.BlockPropertyFilter.
func (f *DotFilter) Name() string { return DotRangesName }

// Intersects implements pebble.BlockPropertyFilter.
func (f *DotFilter) Intersects(property []byte) (bool, error) {
	if f.mayHave(property) {
		return true, nil
	}
	f.skipped.Add(1)
	return false, nil
}

// SyntheticSuffixIntersects implements pebble.BlockPropertyFilter. No table of a store has a synthetic suffix.
func (f *DotFilter) SyntheticSuffixIntersects([]byte, []byte) (bool, error) { return true, nil }

// mayHave reports whether a block with this property may have one of the dots.
func (f *DotFilter) mayHave(property []byte) bool {
	if len(property) == 0 || property[0] > dotActorsMax {
		return true
	}
	r, met := uvarints{b: property[1:]}, false
	for range property[0] {
		if len(r.b) < 4 {
			return true
		}
		tail := binary.BigEndian.Uint32(r.b)
		r.b = r.b[4:]
		first, more := r.next(), r.next()
		if r.bad || first == 0 || first+more < first {
			return true
		}
		for _, c := range f.wanted[tail] {
			met = met || c.ContainsAny(first, first+more)
		}
	}
	return met || len(r.b) > 0
}
