package engine

import (
	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// FiltersCut waits until the filters that were dropped are cut out.
func (s *Store) FiltersCut() { s.filters.cutter.done.Wait() }

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
func (s *Store) DB() *pebble.DB { return s.db }
