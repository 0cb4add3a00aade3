package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/client"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/server/bloomd"
	"bigset/server/door"
)

// folderHolder holds the filters of a data folder that no server has open.
type folderHolder struct{ s *engine.Store }

func (d folderHolder) create(ctx context.Context, name []byte, c creation) (bool, error) {
	_, err := d.s.Filters().Create(ctx, name, bigset.FilterOptions{
		Options:  bloomslice.Options{Capacity: c.capacity, Probability: c.probability, Slices: c.slices},
		InMemory: c.inMemory, Durability: c.durability,
	})
	if errors.Is(err, bigset.ErrFilterExists) {
		return false, nil
	}
	return err == nil, err
}

// find names the filter in its error if it does not exist.
func (d folderHolder) find(name []byte) (*filters.Filter, error) {
	f, err := d.s.Filters().Get(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, name)
	}
	return f, nil
}

func (d folderHolder) list(_ context.Context, prefix []byte) (list []facts, err error) {
	infos, err := d.s.Filters().List(prefix)
	for _, info := range infos {
		list = append(list, storedFigures(info))
	}
	return list, err
}

func storedFigures(info filters.Info) facts {
	return facts{name: info.Name, probability: info.Options.Probability, Figures: info.Figures, stored: &info}
}

func (d folderHolder) info(_ context.Context, name []byte) (facts, error) {
	f, err := d.find(name)
	if err != nil {
		return facts{}, err
	}
	info, err := f.Info()
	figures := storedFigures(info)
	figures.here = f.SlicesHere()
	return figures, err
}

func (d folderHolder) check(_ context.Context, name []byte, keys [][]byte) ([]bool, error) {
	f, err := d.find(name)
	if err != nil {
		return nil, err
	}
	present := make([]bool, len(keys))
	if err = f.CheckAll(keys, present); errors.Is(err, bigset.ErrNoFilter) {
		err = d.elsewhere(f, keys)
	}
	return present, err
}

// elsewhere returns the error of a check of keys of which the folder does not have all slices.
func (d folderHolder) elsewhere(f *filters.Filter, keys [][]byte) error {
	info, err := f.Info()
	if err != nil {
		return err
	}
	here := f.SlicesHere()
	for _, key := range keys {
		h := bloomslice.Sum(key)
		if slice := h.Slice(info.Options.Slices); !slices.Contains(here, slice) {
			return fmt.Errorf("%w: key %q is in slice %d of filter %q, and the folder has %d of %d slices", errElsewhere, key, slice, f.Name(), len(here), info.Options.Slices)
		}
	}
	return fmt.Errorf("%w: %q", bigset.ErrNoFilter, f.Name()) // dropped now
}

func (d folderHolder) set(ctx context.Context, name []byte, keys [][]byte) ([]bool, error) {
	f, err := d.find(name)
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(keys))
	return added, f.MarkAll(ctx, keys, added)
}

func (d folderHolder) settle(ctx context.Context, name []byte) error {
	f, err := d.find(name)
	if err != nil {
		return err
	}
	return f.Flush(ctx)
}

func (d folderHolder) drop(ctx context.Context, name []byte) error {
	err := d.s.Filters().Drop(ctx, name)
	if errors.Is(err, bigset.ErrNoFilter) {
		return fmt.Errorf("%w: %q", err, name)
	}
	return err
}

// serverHolder holds the filters of the server at an address.
type serverHolder struct {
	c    *bloomd.Client
	addr string
}

// asked returns the error of a question: a serverError, unless the server has answered.
func (r serverHolder) asked(err error) error {
	if err == nil || bloomd.Answered(err) {
		return err
	}
	return &serverError{r.addr, err}
}

// changed returns the error of a change. The outcome is unknown without an answer, after an Internal Error, which has many causes, and if the
// change has begun, so that a part of it was done.
func (r serverHolder) changed(ctx context.Context, what string, begun bool, err error) error {
	switch {
	case err == nil, !begun && bloomd.Answered(err) && !errors.Is(err, bloomd.Refusal("Internal Error")):
		return err
	case ctx.Err() != nil:
		err = ctx.Err() // the connection was closed for it
	}
	return &client.UnknownError{What: what, Err: &serverError{r.addr, err}}
}

func (r serverHolder) create(ctx context.Context, name []byte, c creation) (bool, error) {
	created, err := r.c.Create(name, c.given())
	return created, r.changed(ctx, fmt.Sprintf("the creation of filter %q", name), false, err)
}

// given returns the options in the form that a server takes.
func (c *creation) given() (o door.FilterCreate) {
	if c.capacity != 0 {
		o.Capacity = &c.capacity
	}
	if c.probability != 0 {
		o.Probability = &c.probability
	}
	if c.inMemory {
		o.InMemory = &c.inMemory
	}
	return o
}

func (r serverHolder) list(_ context.Context, prefix []byte) (list []facts, err error) {
	infos, err := r.c.List(prefix)
	for _, info := range infos {
		list = append(list, facts{name: []byte(info.Name), probability: info.Probability, Figures: info.Figures})
	}
	return list, r.asked(err)
}

func (r serverHolder) info(_ context.Context, name []byte) (facts, error) {
	info, err := r.c.Info(name)
	return facts{name: name, probability: info.Probability, Figures: info.Figures, serving: &info}, r.asked(of(name, err))
}

func (r serverHolder) check(_ context.Context, name []byte, keys [][]byte) ([]bool, error) {
	yes, err := r.each(name, keys, r.c.Multi, r.c.Check)
	return yes, r.asked(of(name, err))
}

func (r serverHolder) set(ctx context.Context, name []byte, keys [][]byte) ([]bool, error) {
	added, err := r.each(name, keys, r.c.Bulk, r.c.Set)
	return added, r.changed(ctx, fmt.Sprintf("the mark of %d keys in filter %q", len(keys), name), len(added) > 0, of(name, err))
}

// each asks for all keys at once, or for one after another if a key contains a blank, so that the keys do not fit on a line. With an error it
// returns the answers before.
func (r serverHolder) each(name []byte, keys [][]byte, many func(_ []byte, _ [][]byte) ([]bool, error), one func(_, _ []byte) (bool, error)) ([]bool, error) {
	switch all := bytes.Join(keys, nil); {
	case bytes.IndexByte(all, '\n') >= 0:
		return nil, bloomd.ErrUnsendable // before a part is sent
	case bytes.IndexByte(all, ' ') < 0:
		return many(name, keys)
	}
	var answers []bool
	for _, key := range keys {
		ask := one
		if len(key) == 0 {
			ask = func(name, key []byte) (bool, error) {
				yes, err := many(name, [][]byte{key})
				return len(yes) == 1 && yes[0], err
			}
		}
		yes, err := ask(name, key)
		if err != nil {
			return answers, err
		}
		answers = append(answers, yes)
	}
	return answers, nil
}

func (r serverHolder) settle(context.Context, []byte) error { return nil }

func (r serverHolder) drop(ctx context.Context, name []byte) error {
	return r.order(ctx, name, of(name, r.c.Drop(name)))
}

func (r serverHolder) closeFilter(ctx context.Context, name []byte) error {
	return r.order(ctx, name, r.c.CloseFilter(name))
}

func (r serverHolder) clear(ctx context.Context, name []byte) error {
	return r.order(ctx, name, r.c.Clear(name))
}

func (r serverHolder) flush(ctx context.Context, name []byte) error {
	return r.order(ctx, name, r.c.Flush(name))
}

func (r serverHolder) order(ctx context.Context, name []byte, err error) error {
	return r.changed(ctx, fmt.Sprintf("what was asked of filter %q", name), false, err)
}

func (r serverHolder) flushAll(ctx context.Context) error {
	return r.changed(ctx, "the flush of all filters", false, r.c.FlushAll())
}

// nodeHolder holds the filters that a node, or a cluster, serves at the port for nodes and clients.
type nodeHolder struct{ c *client.Client }

func (r nodeHolder) create(ctx context.Context, name []byte, c creation) (bool, error) {
	return r.c.Filter(name).Create(ctx, c.given())
}

func (r nodeHolder) list(ctx context.Context, prefix []byte) (list []facts, err error) {
	for info, err := range r.c.Filters(ctx, client.FiltersOptions{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		list = append(list, facts{name: []byte(info.Name), probability: info.Probability, Figures: info.Figures})
	}
	return list, nil
}

func (r nodeHolder) info(ctx context.Context, name []byte) (facts, error) {
	info, err := r.c.Filter(name).Info(ctx, client.InfoOptions{})
	return facts{name: name, probability: info.Probability, Figures: info.Figures, serving: &info}, of(name, err)
}

func (r nodeHolder) check(ctx context.Context, name []byte, keys [][]byte) ([]bool, error) {
	yes, err := r.c.Filter(name).Check(ctx, keys...)
	return yes, of(name, err)
}

func (r nodeHolder) set(ctx context.Context, name []byte, keys [][]byte) ([]bool, error) {
	yes, err := r.c.Filter(name).Mark(ctx, keys...)
	return yes, of(name, err)
}

func (r nodeHolder) settle(context.Context, []byte) error { return nil }

func (r nodeHolder) drop(ctx context.Context, name []byte) error {
	return of(name, r.c.Filter(name).Drop(ctx))
}

func (r nodeHolder) closeFilter(ctx context.Context, name []byte) error {
	return r.c.Filter(name).Close(ctx)
}

func (r nodeHolder) clear(ctx context.Context, name []byte) error {
	return r.c.Filter(name).Clear(ctx)
}

func (r nodeHolder) flush(ctx context.Context, name []byte) error {
	return r.c.Filter(name).Flush(ctx)
}

func (r nodeHolder) flushAll(ctx context.Context) error { return r.c.FlushFilters(ctx) }

// of adds the filter's name to an error if the filter does not exist, or is not closed.
func of(name []byte, err error) error {
	if errors.Is(err, bloomd.ErrNoFilter) || errors.Is(err, bloomd.ErrOpen) || errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, bigset.ErrFilterOpen) {
		return fmt.Errorf("%w: %q", err, name)
	}
	return err
}
