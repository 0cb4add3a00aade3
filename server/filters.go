package server

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/server/bloomd"
)

// bloomFilters are a store's filters as bloomd's protocol asks for them.
type bloomFilters struct {
	store    *engine.Store
	defaults bigset.FilterOptions // of what create is not told
	listing  listing
	refusals refusalLog
}

// Find implements bloomd.Filters.
func (b *bloomFilters) Find(_ context.Context, name []byte) (bloomd.Filter, error) {
	f, err := b.store.Filters().Get(name)
	if err != nil {
		return nil, bloomd.ErrNoFilter
	}
	return bloomFilter{f}, nil
}

// FindsWait implements bloomd.Filters.
func (b *bloomFilters) FindsWait() bool { return false }

// Create implements bloomd.Filters.
func (b *bloomFilters) Create(ctx context.Context, name []byte, told bloomd.CreateOptions) (created bool, err error) {
	o := b.defaults
	if told.Capacity != nil {
		o.Capacity = *told.Capacity
	}
	if told.Probability != nil {
		o.Probability = *told.Probability
	}
	if told.InMemory != nil {
		o.InMemory = *told.InMemory
	}
	_, err = b.store.Filters().Create(ctx, name, o)
	if errors.Is(err, bigset.ErrFilterExists) {
		return false, nil
	}
	var limit *filters.LimitError
	if errors.As(err, &limit) && (limit.Limit == filters.LimitCapacity || limit.Limit == filters.LimitBytes) {
		b.refusals.add(name, limit)
		return false, bloomd.ErrOptions // to ask again is of no use
	}
	return err == nil, protocolError(err)
}

// Drop implements bloomd.Filters.
func (b *bloomFilters) Drop(ctx context.Context, name []byte) error {
	return protocolError(b.store.Filters().Drop(ctx, name))
}

// Clear implements bloomd.Filters.
func (b *bloomFilters) Clear(_ context.Context, name []byte) error {
	return protocolError(b.store.Filters().Clear(name))
}

// Close implements bloomd.Filters.
func (b *bloomFilters) Close(ctx context.Context, name []byte) error {
	f, err := b.store.Filters().Get(name)
	if err == nil {
		_, err = f.Close(ctx)
	}
	return protocolError(err)
}

// Flush implements bloomd.Filters.
func (b *bloomFilters) Flush(ctx context.Context, name []byte) error {
	f, err := b.store.Filters().Get(name)
	if err == nil {
		err = f.Flush(ctx)
	}
	return protocolError(err)
}

// FlushAll implements bloomd.Filters.
func (b *bloomFilters) FlushAll(ctx context.Context) error {
	return protocolError(b.store.Filters().Flush(ctx))
}

// List implements bloomd.Filters. All figures are those of this node.
func (b *bloomFilters) List(_ context.Context, l bloomd.Listing) ([]bloomd.Info, error) {
	part, err := b.listing.part(b.store, l.Prefix, l.After, l.Most)
	if err != nil {
		return nil, protocolError(err)
	}
	infos := make([]bloomd.Info, len(part))
	for i := range part {
		infos[i] = infoOf(&part[i])
	}
	return infos, nil
}

// bloomFilter is one of them. It is a pointer, so that an interface holds it without an allocation.
type bloomFilter struct{ f *filters.Filter }

// Check implements bloomd.Filter.
func (b bloomFilter) Check(_ context.Context, keys [][]byte, present []bool) error {
	return protocolError(b.f.CheckAll(keys, present))
}

// Set implements bloomd.Filter.
func (b bloomFilter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	return protocolError(b.f.MarkAll(ctx, keys, added))
}

// CheckNow implements bloomd.Filter.
func (b bloomFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	n, err := b.f.CheckNow(keys, present)
	return n, protocolError(err)
}

// SetNow implements bloomd.Filter.
func (b bloomFilter) SetNow(keys [][]byte, added []bool) (int, error) {
	n, err := b.f.MarkNow(keys, added)
	return n, protocolError(err)
}

// ChecksWait implements bloomd.Filter.
func (b bloomFilter) ChecksWait() bool { return false }

// SetsWait implements bloomd.Filter.
func (b bloomFilter) SetsWait() bool { return b.f.MarksWait() }

// Info implements bloomd.Filter. Of a damaged filter it tells what is known.
func (b bloomFilter) Info(context.Context, bool) (bloomd.Info, error) {
	info, err := b.f.Info()
	if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
		return bloomd.Info{}, protocolError(err)
	}
	return infoOf(&info), nil
}

func infoOf(i *filters.Info) bloomd.Info {
	return bloomd.Info{
		Name: string(i.Name), Probability: i.Options.Probability, InMemory: i.Open,
		CheckHits: i.CheckHits, CheckMisses: i.CheckMisses, SetHits: i.MarkHits, SetMisses: i.MarkMisses,
		PageIns: i.PageIns, PageOuts: i.PageOuts, Figures: i.Figures,
	}
}

// protocolError turns the engine's errors into those that have an answer of their own. All others are "Internal Error".
func protocolError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bigset.ErrNoFilter):
		return bloomd.ErrNoFilter
	case errors.Is(err, bigset.ErrFilterOpen):
		return bloomd.ErrOpen
	case errors.Is(err, bloomslice.ErrOptions), errors.Is(err, bigset.ErrLimit):
		return bloomd.ErrOptions
	}
	var limit *filters.LimitError
	if errors.As(err, &limit) { // the protocol's log says it
		return fmt.Errorf("%w; the setting is %s", err, limitSettings[limit.Limit])
	}
	return err
}
