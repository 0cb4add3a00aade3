package server

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/server/door"
)

// bloomFilters implements door.Filters for the filters of a store.
type bloomFilters struct {
	store    *engine.Store
	defaults bigset.FilterOptions // for options that create does not name
	listing  listing
	node     *Node
}

// refused turns the error of a filter that could not be made into an error of door.Filters. It logs a filter that is too large.
func (n *Node) refused(name []byte, err error) error {
	var limit *filters.LimitError
	if errors.As(err, &limit) && (limit.Limit == filters.LimitCapacity || limit.Limit == filters.LimitBytes) {
		n.refusals.add(name, limit)
		return fmt.Errorf("%w: %w", bloomslice.ErrOptions, err) // a repeated request is of no use
	}
	return filterError(err)
}

// Find implements door.Filters.
func (b *bloomFilters) Find(_ context.Context, name []byte) (door.Filter, error) {
	f, err := b.store.Filters().Get(name)
	if err != nil {
		return nil, err
	}
	return bloomFilter{f}, nil
}

// FindsWait implements door.Filters.
func (b *bloomFilters) FindsWait() bool { return false }

// Create implements door.Filters.
func (b *bloomFilters) Create(ctx context.Context, name []byte, given door.FilterCreate) (created bool, err error) {
	o := b.defaults
	if given.Capacity != nil {
		o.Capacity = *given.Capacity
	}
	if given.Probability != nil {
		o.Probability = *given.Probability
	}
	if given.InMemory != nil {
		o.InMemory = *given.InMemory
	}
	_, err = b.store.Filters().Create(ctx, name, o)
	if errors.Is(err, bigset.ErrFilterExists) {
		return false, nil
	}
	return err == nil, b.node.refused(name, err)
}

// Drop implements door.Filters.
func (b *bloomFilters) Drop(ctx context.Context, name []byte) error {
	return filterError(b.store.Filters().Drop(ctx, name))
}

// Clear implements door.Filters.
func (b *bloomFilters) Clear(_ context.Context, name []byte) error {
	return filterError(b.store.Filters().Clear(name))
}

// Close implements door.Filters.
func (b *bloomFilters) Close(ctx context.Context, name []byte) error {
	f, err := b.store.Filters().Get(name)
	if err == nil {
		_, err = f.Close(ctx)
	}
	return filterError(err)
}

// Flush implements door.Filters.
func (b *bloomFilters) Flush(ctx context.Context, name []byte) error {
	f, err := b.store.Filters().Get(name)
	if err == nil {
		err = f.Flush(ctx)
	}
	return filterError(err)
}

// FlushAll implements door.Filters.
func (b *bloomFilters) FlushAll(ctx context.Context) error {
	return filterError(b.store.Filters().Flush(ctx))
}

// List implements door.Filters. All figures are those of this node.
func (b *bloomFilters) List(_ context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	part, err := b.listing.part(b.store, l.Prefix, l.After, l.Most)
	if err != nil {
		return nil, filterError(err)
	}
	infos := make([]door.FilterInfo, len(part))
	for i := range part {
		infos[i] = infoOf(&part[i])
	}
	return infos, nil
}

// bloomFilter is a filter of a store. It contains only a pointer, so an interface holds it without an allocation.
type bloomFilter struct{ f *filters.Filter }

// Check implements door.Filter.
func (b bloomFilter) Check(_ context.Context, keys [][]byte, present []bool) error {
	return filterError(b.f.CheckAll(keys, present))
}

// Set implements door.Filter.
func (b bloomFilter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	return filterError(b.f.MarkAll(ctx, keys, added))
}

// CheckNow implements door.Filter.
func (b bloomFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	n, err := b.f.CheckNow(keys, present)
	return n, filterError(err)
}

// SetNow implements door.Filter.
func (b bloomFilter) SetNow(keys [][]byte, added []bool) (int, error) {
	n, err := b.f.MarkNow(keys, added)
	return n, filterError(err)
}

// ChecksWait implements door.Filter.
func (b bloomFilter) ChecksWait() bool { return false }

// hashesOfPiece is how many bits of a key are a piece of work.
const hashesOfPiece = 16

// Pieces implements door.Filter.
func (b bloomFilter) Pieces() int { return max(1, b.f.Hashes()/hashesOfPiece) }

// SetsWait implements door.Filter.
func (b bloomFilter) SetsWait() bool { return b.f.MarksWait() }

// Info implements door.Filter. For a damaged filter it returns what is known.
func (b bloomFilter) Info(context.Context, bool) (door.FilterInfo, error) {
	info, err := b.f.Info()
	if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
		return door.FilterInfo{}, filterError(err)
	}
	return infoOf(&info), nil
}

func infoOf(i *filters.Info) door.FilterInfo {
	return door.FilterInfo{
		Name: string(i.Name), Probability: i.Options.Probability, InMemory: i.Open, Volatile: i.Options.InMemory,
		CheckHits: i.CheckHits, CheckMisses: i.CheckMisses, SetHits: i.MarkHits, SetMisses: i.MarkMisses,
		PageIns: i.PageIns, PageOuts: i.PageOuts, Figures: i.Figures,
	}
}

// filterError turns the engine's errors into those of door.Filters.
func filterError(err error) error {
	switch {
	case err == nil, errors.Is(err, bigset.ErrNoFilter), errors.Is(err, bigset.ErrFilterOpen), errors.Is(err, bloomslice.ErrOptions):
		return err
	case errors.Is(err, bigset.ErrLimit):
		return fmt.Errorf("%w: %w", bloomslice.ErrOptions, err)
	}
	var limit *filters.LimitError
	if errors.As(err, &limit) { // for the protocol's log
		return fmt.Errorf("%w; the setting is %s", err, limitSettings[limit.Limit])
	}
	return err
}
