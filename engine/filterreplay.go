package engine

import (
	"context"
	"errors"
	"fmt"
)

// replay brings what the log of marks has into the filters, flushes them, and takes the log away: it is a crash that has left it. Marks of
// generations that are not there any more are left out. To do it twice, or over pages that were flushed, changes nothing.
func (fs *filters) replay() error {
	s, l := fs.s, &fs.log
	numbers, err := listSegments(s.fs, s.dir)
	if err != nil || len(numbers) == 0 {
		return err
	}
	l.segments, l.last = numbers, numbers[len(numbers)-1]
	filters, err := fs.byGeneration()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		path := s.fs.PathJoin(s.dir, segmentName(number))
		data, err := readSegment(s.fs, path)
		if err != nil {
			return err
		}
		torn, err := walkSegment(data, number, number == l.last, func(records []byte) error {
			defer fs.trim()
			return fs.replayChunk(records, filters)
		})
		if errors.Is(err, errBadMarks) {
			return &CorruptionError{Path: path, Err: fmt.Errorf("%w; nothing was changed, bring the folder back from a copy", err)}
		}
		if err != nil {
			return fmt.Errorf("log of marks %s: %w", path, err)
		}
		if torn {
			s.opt.Logger.Warn("bigset: the log of marks ends in records that were being written when the power went", "path", path)
		}
	}
	for _, f := range filters { // as they are after any other open
		if _, err := f.close(); err != nil {
			return fmt.Errorf("filter %q: %w", f.name, err)
		}
		f.pageIns.Store(0)
		f.pageOuts.Store(0)
	}
	return fs.flush(context.Background())
}

// byGeneration returns the filters that are there by their generations. Of one whose head is damaged nothing can be had: it stays as it
// is.
func (fs *filters) byGeneration() (map[uint64]*Filter, error) {
	filters := map[uint64]*Filter{}
	for _, f := range fs.all() {
		switch err := f.loadHead(); {
		case err == nil:
			filters[f.opt.Load().Generation] = f
		case errors.Is(err, ErrCorrupt):
			fs.s.opt.Logger.Error("bigset: a filter is damaged, what the log of marks has of it is lost", "filter", string(f.name), "cause", err)
		case !errors.Is(err, ErrNoFilter):
			return nil, err
		}
	}
	return filters, nil
}

func (fs *filters) replayChunk(records []byte, filters map[uint64]*Filter) (err error) {
	for len(records) > 0 {
		var r markRecord
		if r, records, err = decodeMarkRecord(records); err != nil {
			return err
		}
		if f := filters[r.generation]; f != nil && !f.opt.Load().InMemory {
			if err := f.replay(&r); err != nil {
				return f.readError(err)
			}
		}
	}
	return nil
}

// replay sets the bits that a record tells of.
func (f *Filter) replay(r *markRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	return slice.Set(r.to, &r.hash)
}
