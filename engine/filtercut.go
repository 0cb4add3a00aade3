package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// droppedSlice is a slice of a generation of a filter whose pages are still there.
type droppedSlice struct {
	name       string
	slice      uint32
	generation uint64
}

// entry returns its key in the directory, which is there until it is cut out.
func (d droppedSlice) entry() []byte {
	return keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryLeft, Name: []byte(d.name), Slice: d.slice, Generation: d.generation})
}

func (d droppedSlice) bounds() keyscheme.Bounds {
	return keyscheme.NewFilterPrefix([]byte(d.name), d.slice).Generation(d.generation)
}

// filterCutter cuts out the pages of filters that were dropped, in the background: their entry in the directory says so until it is done.
type filterCutter struct {
	fs *filters

	mu      lockorder.Mutex[lockorder.CutterMu]
	dropped []droppedSlice
	working bool
	stopped bool
	done    sync.WaitGroup
}

// add has a generation cut out.
func (c *filterCutter) add(d droppedSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = append(c.dropped, d)
	c.startLocked()
}

// start begins with what was found at the open.
func (c *filterCutter) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	for round := c.next(); round != nil; round = c.next() {
		if err := c.cut(round); err != nil {
			c.fs.s.opt.Logger.Error("bigset: pages of dropped filters could not be cut out, it is tried again after the next open", "cause", err)
		}
	}
}

// next returns what there is to do. With nothing the work has ended.
func (c *filterCutter) next() (round []droppedSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	round, c.dropped = c.dropped, nil
	if len(round) == 0 || c.stopped {
		c.working = false
		return nil
	}
	return round
}

func (c *filterCutter) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// cut takes the keys of dropped filters away, and then their entries.
func (c *filterCutter) cut(round []droppedSlice) error {
	s := c.fs.s
	if err := s.db.Writable(); err != nil {
		return err
	}
	if err := s.db.FlushTables(context.Background()); err != nil { // or each excise would
		return err
	}
	batch := s.db.NewBatch()
	var errs []error
	for _, d := range round {
		if c.isStopped() {
			break
		}
		err := s.exciseFilter(d.bounds())
		if err == nil {
			err = batch.SingleDelete(d.entry(), nil)
		}
		errs = append(errs, err)
	}
	if batch.Empty() {
		return errors.Join(append(errs, batch.Close())...)
	}
	_, err := s.db.Commit(batch, false)
	return errors.Join(append(errs, err)...)
}

func (s *Store) exciseFilter(b keyscheme.Bounds) error {
	empty, err := s.isEmpty(b)
	if empty || err != nil {
		return err
	}
	s.swapping.RLock() // who reads many sets waits
	defer s.swapping.RUnlock()
	return s.db.Excise(context.Background(), b)
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
