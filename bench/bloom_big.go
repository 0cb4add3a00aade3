package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"bigset/bench/system"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// bloomBigFilters is how many filters bloom-big has; together they are that many times larger than the memory for filters.
const bloomBigFilters = 10

// bloomBig: uniform checks of filters that take ten times the memory for filters. Raw Pebble has the same pages under the same keys and the
// same bytes of memory, all as block cache, and gets the page of each bit. bloom-big/heap shows, as ops, by how much the heap grew beyond
// the limits of the caches.
func bloomBig(e *env) error {
	o := bloomOptions(max(bloomslice.CapacityMin+1, e.elements/bloomBigFilters), bloomProbability)
	shape, err := o.Shape(0)
	if err != nil {
		return err
	}
	return e.turns([]contender{{system: system.NameBigset}, {system: system.NamePebble}}, func(c contender) error {
		dir := e.folder()
		return e.inFolder(dir, func() error {
			err := e.opened(c, dir, smallCaches(), func(sys system.System) error { return e.fillBig(sys, o) })
			if err != nil {
				return err
			}
			caches, limit := smallCaches(), int64(shape.Bytes) // of the ten filters
			memory := caches.CacheBytes + 2*int64(caches.MemTableBytes) + limit
			if c.system == system.NamePebble {
				caches.CacheBytes += limit
			} else {
				caches.FilterCacheBytes = limit
			}
			return e.opened(c, dir, caches, func(sys system.System) error { return e.askBig(sys, int(o.Capacity), memory) })
		})
	})
}

// fillBig makes the filters. Each contains the keys from 0 up to its capacity.
func (e *env) fillBig(sys system.System, o bigset.FilterOptions) error {
	if raw, is := sys.(*system.Raw); is {
		full, err := newBareFilter(o.Options, false)
		if err != nil {
			return err
		}
		keys := newBloomKeys(0, int(o.Capacity))
		for i := range keys.len() {
			_, _ = full.mark(keys.at(i)) // it can't fail
		}
		for i := range bloomBigFilters {
			if err := writePages(raw, manyName(i), full); err != nil {
				return err
			}
		}
	} else {
		store := sys.(*system.Bigset).Store()
		for i := range bloomBigFilters {
			f, err := store.Filters().Create(e.ctx, manyName(i), o)
			if err != nil {
				return err
			}
			if err := e.markAll(f, 0, int(o.Capacity)); err != nil {
				return err
			}
		}
		if err := store.Filters().Flush(e.ctx); err != nil {
			return err
		}
	}
	_, err := sys.Settle(e.ctx)
	return err
}

// askBig checks filters that contain each keys each, in the given bytes of memory.
func (e *env) askBig(sys system.System, each int, memory int64) error {
	filters, err := bigFilters(sys, each)
	if err != nil {
		return err
	}
	before := heapBytes()
	err = e.measure(sys, Row{Workload: "bloom-big", Elements: e.elements}, func(p *phase) error { return e.bigChecks(p, filters, each) })
	if err != nil {
		return err
	}
	row := Row{Workload: "bloom-big/heap", Elements: e.elements}
	label(sys, &row)
	grown := max(0, int64(heapBytes())-int64(before))
	e.rows.Add(row, Figures{Ops: uint64(memory), HeapBytes: new(uint64(grown))}, nil)
	return nil
}

// checkFunc checks a key in a filter.
type checkFunc func(key []byte) (bool, error)

// bigFilters finds the filters that fillBig has made.
func bigFilters(sys system.System, each int) ([]checkFunc, error) {
	list := make([]checkFunc, bloomBigFilters)
	for i := range list {
		if raw, is := sys.(*system.Raw); is {
			places, err := newBareFilter(bloomOptions(each, bloomProbability).Options, false)
			if err != nil {
				return nil, err
			}
			places.bits = nil
			list[i] = asks(raw, manyName(i), places)
			continue
		}
		f, err := sys.(*system.Bigset).Store().Filters().Get(manyName(i))
		if err != nil {
			return nil, err
		}
		list[i] = f.Check
	}
	return list, nil
}

const pageBits = 8 * bloomslice.PageBytes

// writePages writes the pages of a filter.
func writePages(r *system.Raw, name []byte, full *bareFilter) error {
	at := keyscheme.NewFilterPrefix(name, 0)
	var key, page []byte
	for i, words := range slices.Collect(slices.Chunk(full.bits, pageBits/64)) {
		page = page[:0]
		for _, w := range words {
			page = binary.LittleEndian.AppendUint64(page, w)
		}
		key = at.AppendPage(key[:0], 0, bloomslice.LayerID{}, uint32(i))
		if err := r.DB().Set(key, page, r.WriteOptions()); err != nil {
			return err
		}
	}
	return nil
}

// asks returns a function that reads the page of each of a key's bits, until one is not set.
func asks(r *system.Raw, name []byte, places *bareFilter) checkFunc {
	at := keyscheme.NewFilterPrefix(name, 0)
	var page []byte
	return func(key []byte) (bool, error) {
		h := bloomslice.Sum(key)
		for i := range places.k {
			bit := places.place(&h, i)
			page = at.AppendPage(page[:0], 0, bloomslice.LayerID{}, uint32(bit/pageBits))
			if is, err := hasBit(r, page, bit%pageBits); !is || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// hasBit reads a page for one of its bits.
func hasBit(r *system.Raw, key []byte, bit uint64) (bool, error) {
	page, closer, err := r.DB().Get(key)
	if err != nil {
		return false, err
	}
	is := page[bit/8]>>(bit%8)&1 == 1 // words are little-endian
	return is, closer.Close()
}

// bloomBigChecks is how many checks are made, half of them of keys that the filter contains.
const (
	bloomBigChecks     = 20_000
	bloomBigChecksFull = 500_000
)

func (e *env) bigChecks(p *phase, filters []checkFunc, each int) error {
	n := bloomBigChecks
	if e.cfg.Full {
		n = bloomBigChecksFull
	}
	key, wrong := make([]byte, 0, bloomKeyBytes), 0
	err := p.loop(n, func(i int) error {
		r := system.Mix(uint64(i) + e.cfg.Seed<<40)
		number := int(r >> 16 % uint64(2*each))
		key = fmt.Appendf(key[:0], "%0*d", bloomKeyBytes, number)
		has, err := filters[r&0xFFFF%bloomBigFilters](key)
		if err != nil {
			return err
		}
		if !has && number < each {
			return fmt.Errorf("%w: key %q is denied", system.ErrWrong, key)
		}
		if has && number >= each {
			wrong++
		}
		return nil
	})
	if wrong > n/100 {
		err = errors.Join(err, fmt.Errorf("%w: %d false positives", system.ErrWrong, wrong))
	}
	return err
}
