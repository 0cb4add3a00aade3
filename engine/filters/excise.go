package filters

import (
	"context"
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// droppedSlice is a slice of a generation of a filter whose pages still exist.
type droppedSlice struct {
	name       string
	slice      uint32
	generation uint64
}

// entry returns its key in the directory, which exists until it is excised.
func (d droppedSlice) entry() []byte {
	return keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryLeft, Name: []byte(d.name), Slice: d.slice, Generation: d.generation})
}

func (d droppedSlice) bounds() keyscheme.Bounds {
	return keyscheme.NewFilterPrefix([]byte(d.name), d.slice).Generation(d.generation)
}

// exciser excises the pages of dropped filters, in the background: an entry in the directory records each until it is done.
type exciser struct {
	fs *Filters

	mu      lockorder.Mutex[lockorder.ExciserMu]
	dropped []droppedSlice
	working bool
	stopped bool
	done    sync.WaitGroup
}

// add schedules a generation to be excised.
func (c *exciser) add(d droppedSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = append(c.dropped, d)
	c.startLocked()
}

// start begins with what was found when the store was opened.
func (c *exciser) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked()
}

func (c *exciser) startLocked() {
	if !c.working && !c.stopped && len(c.dropped) > 0 {
		c.working = true
		c.done.Go(c.run)
	}
}

// stop ends the work; what is left is done after the next open.
func (c *exciser) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.done.Wait()
}

func (c *exciser) run() {
	for round := c.next(); round != nil; round = c.next() {
		if err := c.excise(round); err != nil {
			c.fs.opt.Logger.Error("bigset: pages of dropped filters could not be excised; this is tried again after the next open", "cause", err)
		}
	}
}

// next returns what is to be done. If there is nothing, the work has ended.
func (c *exciser) next() (round []droppedSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	round, c.dropped = c.dropped, nil
	if len(round) == 0 || c.stopped {
		c.working = false
		return nil
	}
	return round
}

func (c *exciser) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// excise removes the keys of dropped filters, and then their entries.
func (c *exciser) excise(round []droppedSlice) error {
	fs := c.fs
	if err := fs.db.Writable(); err != nil {
		return err
	}
	if err := fs.db.FlushTables(context.Background()); err != nil { // otherwise each excise would
		return err
	}
	batch := fs.db.NewBatch()
	var errs []error
	for _, d := range round {
		if c.isStopped() {
			break
		}
		err := fs.excise(d.bounds())
		if err == nil {
			err = batch.SingleDelete(d.entry(), nil)
		}
		errs = append(errs, err)
	}
	if batch.Empty() {
		return errors.Join(append(errs, batch.Close())...)
	}
	_, err := fs.db.Commit(batch, false)
	return errors.Join(append(errs, err)...)
}

func (fs *Filters) excise(b keyscheme.Bounds) error {
	empty, err := fs.isEmpty(b)
	if empty || err != nil {
		return err
	}
	fs.swapping.RLock() // a reader of many sets waits
	defer fs.swapping.RUnlock()
	return fs.db.Excise(context.Background(), b)
}

// isEmpty reports whether the bounds contain no key.
func (fs *Filters) isEmpty(b keyscheme.Bounds) (empty bool, err error) {
	it, err := fs.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return false, err
	}
	defer lsm.Closing(it, &err)
	return !it.First(), it.Error()
}
