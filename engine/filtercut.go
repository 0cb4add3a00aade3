package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// droppedFilter is a generation of a filter whose pages are still there.
type droppedFilter struct {
	name       string
	slice      uint32
	generation uint64
}

func (d droppedFilter) key() []byte {
	return keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: []byte(d.name), Slice: d.slice, Dropped: true, Gone: d.generation})
}

// bounds returns what is to go.
func (d droppedFilter) bounds() []keyscheme.Bounds {
	p := keyscheme.NewFilterPrefix([]byte(d.name), d.slice)
	if d.generation == anyGeneration {
		return []keyscheme.Bounds{p.All()}
	}
	var all []keyscheme.Bounds
	for _, part := range []keyscheme.FilterPart{keyscheme.FilterLayer, keyscheme.FilterPage} {
		all = append(all, p.Generation(part, d.generation))
	}
	return all
}

// filterCutter cuts out the pages of filters that were dropped, in the background: their entry in the directory says so until it is done.
type filterCutter struct {
	fs *filters

	mu      sync.Mutex
	dropped []droppedFilter
	working bool
	stopped bool
	done    sync.WaitGroup
}

// add has a generation cut out.
func (c *filterCutter) add(d droppedFilter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = append(c.dropped, d)
	c.startLocked()
}

// start begins with what was found at the open. Nobody makes filters yet.
func (c *filterCutter) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = slices.DeleteFunc(c.dropped, func(d droppedFilter) bool {
		if d.generation != anyGeneration {
			return false
		}
		c.cutOne(d)
		return true
	})
	c.startLocked()
}

func (c *filterCutter) startLocked() {
	if !c.working && !c.stopped && len(c.dropped) > 0 {
		c.working = true
		c.done.Go(c.run)
	}
}

// stop ends the work; what is left is done after the next open.
func (c *filterCutter) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.done.Wait()
}

func (c *filterCutter) run() {
	for {
		c.mu.Lock()
		if len(c.dropped) == 0 || c.stopped {
			c.working = false
			c.mu.Unlock()
			return
		}
		d := c.dropped[0]
		c.dropped = c.dropped[1:]
		c.mu.Unlock()
		c.cutOne(d)
	}
}

// cutOne cuts, or says why not: then it is tried again after the next open.
func (c *filterCutter) cutOne(d droppedFilter) {
	if err := c.fs.cut(d); err != nil {
		c.fs.s.opt.Logger.Error("bigset: the pages of a dropped filter could not be cut out", "filter", d.name, "cause", err)
	}
}

// cut takes the pages of a generation away, and then its entry.
func (fs *filters) cut(d droppedFilter) error {
	s := fs.s
	if err := s.writable(); err != nil {
		return err
	}
	for _, b := range d.bounds() {
		if err := fs.exciseSpan(b); err != nil {
			return err
		}
	}
	batch := s.db.NewBatch()
	if err := batch.Delete(d.key(), nil); err != nil {
		return err
	}
	_, err := s.commit(batch, false)
	return err
}

func (fs *filters) exciseSpan(b keyscheme.Bounds) error {
	s := fs.s
	empty, err := s.isEmpty(b)
	if empty || err != nil {
		return err
	}
	if err := s.recovering(s.db.Flush); err != nil { // or the excise would
		return err
	}
	s.swapping.RLock() // who reads many sets waits
	defer s.swapping.RUnlock()
	return s.recovering(func() error {
		return s.cut(b, func() error {
			return s.db.Excise(context.Background(), pebble.KeyRange{Start: b.Lower, End: b.Upper})
		})
	})
}

// isEmpty reports whether there is no key within some bounds.
func (s *Store) isEmpty(b keyscheme.Bounds) (empty bool, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return false, err
	}
	defer closing(it, &err)
	return !it.First(), it.Error()
}
