package local

import (
	"context"
	"errors"

	"bigset"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/server/door"
)

// Filters are the filters of a store, as a member of a cluster asks for them beside what it asks of the replica. Its methods may be called by any number of goroutines.
type Filters struct{ store *engine.Store }

// NewFilters returns the filters of a store.
func NewFilters(s *engine.Store) *Filters { return &Filters{s} }

// LastGeneration returns the largest generation that the store has met.
func (f *Filters) LastGeneration() uint64 { return f.store.Filters().LastGeneration() }

// List lists the filters that the store has, each with slice 0. It leaves out those that no other store could hold: in memory only, or damaged.
func (f *Filters) List() (all []bigset.SliceSpec, err error) {
	infos, err := f.store.Filters().List(nil)
	for i := range infos {
		if x := &infos[i]; !x.Options.InMemory && x.Options.Slices > 0 {
			all = append(all, bigset.SliceSpec{Name: x.Name, Generation: x.Generation, Options: x.Options})
		}
	}
	return all, err
}

// Adopt has a filter that was made alone be one of so many owners: filters.Filters.Adopt.
func (f *Filters) Adopt(ctx context.Context, name []byte, owners uint32) error {
	return f.store.Filters().Adopt(ctx, name, owners)
}

// MayCreate returns why a filter with such options, beside so many others, is refused.
func (f *Filters) MayCreate(_ []byte, o bigset.FilterOptions, filters int) error {
	return f.store.Filters().MayCreate(o, filters)
}

// Figures returns what the store has of some slices of a filter; of one that it has nothing of, zero. A damaged filter has what is known of it.
func (f *Filters) Figures(name []byte, wanted func(slice uint32) bool) (door.FilterInfo, error) {
	x, err := f.store.Filters().Get(name)
	if err != nil {
		return door.FilterInfo{}, nil
	}
	info, err := x.InfoOf(wanted)
	if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
		return door.FilterInfo{}, err
	}
	return door.FilterInfo{Figures: info.Figures, InMemory: info.Open}, nil
}

// Close takes the bits of a filter out of memory, if the store has any of it.
func (f *Filters) Close(ctx context.Context, name []byte) error {
	return f.ofOne(name, func(x *filters.Filter) error {
		_, err := x.Close(ctx)
		return err
	})
}

// Flush makes what was marked in a filter durable, if the store has any of it.
func (f *Filters) Flush(ctx context.Context, name []byte) error {
	return f.ofOne(name, func(x *filters.Filter) error { return x.Flush(ctx) })
}

// ofOne does something with a filter. That the store has nothing of it is no error.
func (f *Filters) ofOne(name []byte, do func(*filters.Filter) error) error {
	x, err := f.store.Filters().Get(name)
	if err == nil {
		err = do(x)
	}
	if errors.Is(err, bigset.ErrNoFilter) {
		return nil
	}
	return err
}

// FlushAll makes what was marked durable.
func (f *Filters) FlushAll(ctx context.Context) error { return f.store.Filters().Flush(ctx) }
