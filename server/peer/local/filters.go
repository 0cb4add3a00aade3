package local

import (
	"context"
	"errors"

	"bigset"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/server/door"
)

// Filters are the filters of a store: what a member of a cluster asks about them, apart from its requests to the replica. The methods may
// be called by any number of goroutines.
type Filters struct{ store *engine.Store }

// NewFilters returns the filters of a store.
func NewFilters(s *engine.Store) *Filters { return &Filters{s} }

// LastGeneration returns the largest generation that the store has met.
func (f *Filters) LastGeneration() uint64 { return f.store.Filters().LastGeneration() }

// List lists the filters of the store, each with slice 0. It leaves out filters that no other store could hold: those in memory only, and
// damaged ones.
func (f *Filters) List() (all []bigset.SliceSpec, err error) {
	infos, err := f.store.Filters().List(nil)
	for i := range infos {
		if x := &infos[i]; !x.Options.InMemory && x.Options.Slices > 0 {
			all = append(all, bigset.SliceSpec{Name: x.Name, Generation: x.Generation, Options: x.Options})
		}
	}
	return all, err
}

// Adopt turns a filter that was created alone into one with a number of owners: filters.Filters.Adopt.
func (f *Filters) Adopt(ctx context.Context, name []byte, owners uint32) error {
	return f.store.Filters().Adopt(ctx, name, owners)
}

// MayCreate returns why a filter with these options, besides a number of others, is refused.
func (f *Filters) MayCreate(_ []byte, o bigset.FilterOptions, filters int) error {
	return f.store.Filters().MayCreate(o, filters)
}

// Figures returns the figures of the store for some slices of a filter, or zero if it has none of them. For a damaged filter it returns
// what is known.
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

// Close removes the bits of a filter from memory, if the store has any of it.
func (f *Filters) Close(ctx context.Context, name []byte) error {
	return f.ofOne(name, func(x *filters.Filter) error {
		_, err := x.Close(ctx)
		return err
	})
}

// Flush makes the marks in a filter durable, if the store has any of it.
func (f *Filters) Flush(ctx context.Context, name []byte) error {
	return f.ofOne(name, func(x *filters.Filter) error { return x.Flush(ctx) })
}

// ofOne calls do with a filter. It is not an error if the store has nothing of the filter.
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

// FlushAll makes all marks durable.
func (f *Filters) FlushAll(ctx context.Context) error { return f.store.Filters().Flush(ctx) }
