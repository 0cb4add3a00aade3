package filters

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/keyscheme"
)

// keyGeneration stores the last generation that was given to a filter, so that none is given twice. It is on disk.
var keyGeneration = []byte("fg")

// lastGeneration returns the last generation that was given to a filter.
func (fs *Filters) lastGeneration() (uint64, error) {
	value, ok, err := fs.db.Get(keyGeneration)
	if !ok || err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: generation of filters", bigset.ErrCorrupt)
	}
	return binary.BigEndian.Uint64(value), nil
}

// present is an entry of the directory, with the number of the filter's slices.
type present struct {
	keyscheme.DirectoryEntry
	slices uint32 // of EntryPresent; 0 if it can't be read
	bad    error  // why it can't
}

// entries returns the entries of a part of the directory.
func (fs *Filters) entries(b keyscheme.Bounds) (entries []present, err error) {
	err = fs.eachEntry(b, func(e present) {
		e.Name = bytes.Clone(e.Name)
		entries = append(entries, e)
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// eachEntry calls f for the entries of a part of the directory, in order. The name is valid during the call.
func (fs *Filters) eachEntry(b keyscheme.Bounds, f func(e present)) error {
	return fs.db.Each(b, func(raw, value []byte) error {
		key, err := keyscheme.Decode(raw)
		if err != nil {
			return fmt.Errorf("%w: directory of filters: %w", bigset.ErrCorrupt, err)
		}
		var e present
		e.DirectoryEntry, _ = keyscheme.DecodeDirectoryKey(key.Rest)
		if e.Kind == keyscheme.EntryPresent {
			if e.slices, err = keyscheme.DecodePresentValue(value, e.Slice); err != nil {
				e.bad = fmt.Errorf("%w: directory of filters, %q: %w", bigset.ErrCorrupt, e.Name, err)
			}
		}
		f(e)
		return nil
	})
}

// unlisted returns the filter of that name that is on disk and was cleared, or nil. It also returns entries of the directory for
// which no slice exists.
func (fs *Filters) unlisted(name []byte) (f *Filter, stale []present, err error) {
	entries, err := fs.entries(keyscheme.DirectoryOf(keyscheme.EntryPresent, name))
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b present) int { return cmp.Compare(b.Generation, a.Generation) })
	for _, e := range entries {
		if f != nil && f.generation != e.Generation {
			break // there should be none
		}
		if e.bad != nil {
			return nil, nil, e.bad
		}
		of := f
		if of == nil {
			of = newFilter(fs, name, e.Generation, e.slices)
		}
		part := newFilterSlice(of, e.Slice)
		if err := part.loadHead(); errors.Is(err, bigset.ErrNoFilter) {
			stale = append(stale, e)
			continue
		} else if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
			return nil, nil, err
		}
		part.logged.Store(fs.log.End()) // what it had before it was cleared may not be on disk yet
		f = of
		f.slices[e.Slice].Store(part)
	}
	return f, stale, nil
}
