package filters

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Adopt turns a filter that a node has made alone, for one owner, into one that several replicas fill: from then on its options
// have the given number of owners. It keeps its generation. Its existing layers stay as they are. Their owner is seat 0, which
// continues to fill the last one. All later layers are divided among the owners, at indexes of their own, so that the filter's
// probability holds over all layers. When Adopt returns, this is on disk. A filter that already has that many owners is left alone.
//
// Errors are bigset.ErrNoFilter; bloomslice.ErrOptions for more owners than its capacity suffices for; bigset.ErrRequest for a
// filter that is only in memory, has another number of owners, or was imported with layers of an owner that is not a seat; and
// bigset.ErrCorrupt for one that can't be read. After an error nothing has changed.
func (fs *Filters) Adopt(ctx context.Context, name []byte, owners uint32) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	fs.life.Lock()
	defer fs.life.Unlock()
	if err := errors.Join(ctx.Err(), fs.db.Writable(), fs.db.Room()); err != nil {
		return err
	}
	f := fs.listed(name)
	if f == nil {
		return bigset.ErrNoFilter
	}
	if err := fs.adopt(f, owners); err != nil {
		return fmt.Errorf("engine: adopt filter %q: %w", name, lsm.DiskError(err))
	}
	return nil
}

func (fs *Filters) adopt(f *Filter, owners uint32) error {
	var parts []*filterSlice
	for _, part := range f.parts() {
		switch err := part.mayAdopt(owners); {
		case errors.Is(err, bigset.ErrNoFilter): // a crash has left its entry alone
		case err != nil:
			return err
		case part.opt.Load().Owners != owners:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	unlock := lockParts(parts) // no goroutine adds a layer until then
	defer unlock()
	batch := fs.db.NewBatch()
	var err error
	for _, part := range parts {
		opt := *part.opt.Load()
		opt.Owners = owners
		err = errors.Join(err, batch.Set(part.prefix().AppendHead(nil, f.generation), keyscheme.AppendFilterHead(nil, opt), nil))
	}
	if err := fs.commit(batch, err); err != nil {
		return err
	}
	f.options.Store(nil)
	for _, part := range parts {
		opt := *part.opt.Load()
		opt.Owners = owners
		part.opt.Store(f.shared(opt))
		part.changed() // its digest depends on its options
		if slice := part.slice.Load(); slice != nil {
			slice.SetOwners(owners)
		}
	}
	f.idle.Store(nil)
	return nil
}

// mayAdopt returns why a slice can't have that many owners.
func (f *filterSlice) mayAdopt(owners uint32) error {
	if err := f.loadHead(); err != nil {
		return err
	}
	opt := f.opt.Load()
	switch {
	case opt.InMemory:
		return fmt.Errorf("%w: it is in memory only", bigset.ErrRequest)
	case opt.Owners == owners:
		return nil
	case owners == 0 || opt.Owners != 1:
		return fmt.Errorf("%w: it is made for %d owners, not for %d", bigset.ErrRequest, opt.Owners, owners)
	}
	o := opt.Options
	o.Owners = owners
	if err := o.Validate(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.damaged(); err != nil {
		return err
	}
	var layers []bloomslice.Layer
	var err error
	if slice := f.slice.Load(); slice != nil {
		layers = slice.Layers()
	} else {
		layers, err = f.storedLayers()
	}
	for i := range layers {
		if seat, ok := layers[i].ID.Seat(); !ok || seat > 0 {
			return fmt.Errorf("%w: it has layers of owner %.64q", bigset.ErrRequest, layers[i].ID.Owner)
		}
	}
	return err
}
