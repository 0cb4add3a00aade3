package engine

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// FiltersCut waits until the filters that were dropped are cut out.
func (s *Store) FiltersCut() { s.filters.cutter.done.Wait() }

// TrimLooks returns how many open slices were looked at when pages had to leave memory.
func (s *Store) TrimLooks() uint64 {
	r := &s.filters.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks
}

// CheckRing returns what is wrong with the ring of slices that may have pages in memory: one that is not open or not listed is in it, or one
// that is open and was used is not. Nothing is under way.
func (s *Store) CheckRing() error {
	r := &s.filters.ring
	all := s.filters.all()
	for _, f := range all {
		open := f.isOpen() && !f.opt.Load().InMemory
		if in := f.place > 0; in && !open || !in && open && f.used.Load()&usedInRing != 0 {
			return fmt.Errorf("%s: in the ring: %v, open: %v, used: %x", f.name, in, open, f.used.Load())
		}
	}
	for i, f := range r.parts {
		if f.place != i+1 || !slices.Contains(all, f) {
			return fmt.Errorf("%s: at place %d, it says %d; or it is not listed", f.name, i+1, f.place)
		}
	}
	return nil
}

// StopCutting leaves the filters that are dropped from now on as they are, until the next open.
func (s *Store) StopCutting() { s.filters.cutter.stop() }

// FilterKeys counts the keys that the store has of a filter, by generation.
func (s *Store) FilterKeys(name []byte) (keys map[uint64]int, err error) {
	keys = map[uint64]int{}
	err = s.EachKey(keyscheme.NewFilterPrefix(name, 0).All(), func(k *keyscheme.Key) {
		f, _ := keyscheme.DecodeFilterKey(k.Rest)
		keys[f.Generation]++
	})
	return keys, err
}

// Directory counts the directory's entries: filters that are there, and those that are still to be cut out.
func (s *Store) Directory() (present, dropped int, err error) {
	err = s.EachKey(keyscheme.Directory(), func(k *keyscheme.Key) {
		if e, _ := keyscheme.DecodeDirectoryKey(k.Rest); e.Kind == keyscheme.EntryLeft {
			dropped++
		} else if e.Kind == keyscheme.EntryPresent {
			present++
		}
	})
	return present, dropped, err
}

// EachKey calls f for all keys within some bounds.
func (s *Store) EachKey(b keyscheme.Bounds, f func(*keyscheme.Key)) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	defer closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil {
			return err
		}
		f(&k)
	}
	return it.Error()
}

// DB returns the store's Pebble.
func (s *Store) DB() *pebble.DB { return s.db.Pebble() }
