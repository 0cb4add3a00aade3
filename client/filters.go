package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

type (
	// FilterInfo is what nodes know about a filter: `go doc bigset/server/door.FilterInfo`.
	FilterInfo = door.FilterInfo
	// FilterCreate has the options of a new filter. The nodes' default replaces a nil field.
	FilterCreate = door.FilterCreate
)

// Filter is a bloom filter at the nodes, whether or not it exists. Its methods may be called by any number of goroutines. They return
// bigset.ErrNoFilter if the filter does not exist.
type Filter struct {
	c    *Client
	name []byte
}

// Filter returns the filter with a name. It asks no node, and keeps name.
func (c *Client) Filter(name []byte) *Filter { return &Filter{c, name} }

// filterKeysBytes is about how many bytes of keys one request contains.
const filterKeysBytes = 4 << 20

// Check reports for each key whether it is in the filter. False is certain, true is not.
func (f *Filter) Check(ctx context.Context, keys ...[]byte) ([]bool, error) {
	present, err := f.keys(keys, func(some [][]byte) ([]byte, error) {
		ctx, cancel := f.c.bound(ctx)
		defer cancel()
		return f.c.get(ctx, api.VerbCheck, api.AppendFilterKeys(nil, &api.FilterKeys{Name: f.name, Keys: some}))
	})
	if err != nil {
		return nil, err
	}
	return present, nil
}

// Mark marks keys and reports for each whether it was new. The client sends a mark again if its answer was lost; keys that the first
// request marked are then not reported as new. Marking a key again does no harm: after an error that wraps ErrUnknown, repeat the call to
// settle it.
func (f *Filter) Mark(ctx context.Context, keys ...[]byte) (added []bool, err error) {
	added, err = f.keys(keys, func(some [][]byte) ([]byte, error) {
		return f.change(ctx, api.VerbMark, api.AppendFilterKeys(nil, &api.FilterKeys{Name: f.name, Keys: some}), nil)
	})
	if err == nil {
		return added, nil
	}
	if begun := len(added) > 0 || errors.Is(err, ErrAnswer); begun && !errors.Is(err, ErrUnknown) {
		err = &UnknownError{What: fmt.Sprintf("the mark of %d keys in filter %q", len(keys), f.name), Err: err}
	}
	return nil, err
}

// keys splits many keys into several requests, each with the time of Options.Timeout. With an error it returns the answers of the requests
// before.
func (f *Filter) keys(keys [][]byte, ask func(some [][]byte) ([]byte, error)) ([]bool, error) {
	all := make([]bool, 0, len(keys))
	for left := keys; len(left) > 0; {
		n, size := 0, 0
		for n < len(left) && n < api.FilterKeysMax && size < filterKeysBytes {
			size += len(left[n])
			n++
		}
		b, err := ask(left[:n])
		if err != nil {
			return all, err
		}
		answers, err := api.DecodeAnswers(b)
		if err == nil && len(answers) != n {
			err = fmt.Errorf("%w: %d answers about %d keys", ErrAnswer, len(answers), n)
		}
		if err != nil {
			return all, err
		}
		all, left = append(all, answers...), left[n:]
	}
	return all, nil
}

// change asks for a change that may be repeated. After a lost answer, done says whether an error shows that the first request was done.
func (f *Filter) change(ctx context.Context, verb wire.Verb, body []byte, done func(error) bool) (answer []byte, err error) {
	ctx, cancel := f.c.bound(ctx)
	defer cancel()
	if err := checkBody(body); err != nil {
		return nil, err
	}
	lost, err := f.c.ask(ctx, func(to wire.Caller, _ error) (err error) {
		answer, err = to.Do(ctx, wire.Call{Verb: verb, Body: body})
		return err
	})
	switch {
	case err == nil:
		return answer, nil
	case lost != nil && done != nil && done(err):
		return nil, nil
	case lost != nil && !verdict(err):
		return nil, &UnknownError{What: fmt.Sprintf("what was asked of filter %q", f.name), Err: err}
	}
	return nil, err
}

// Create makes the filter and reports whether it did not exist. A cleared filter comes back with all that it contained. After a lost
// answer, a filter that exists counts as created. In a cluster, all members must take part.
func (f *Filter) Create(ctx context.Context, o FilterCreate) (created bool, err error) {
	lost := false
	ctx, cancel := f.c.bound(ctx)
	defer cancel()
	body := api.AppendFilterCreate(nil, &api.FilterCreate{Name: f.name, FilterCreate: o})
	var answer []byte
	was, err := f.c.ask(ctx, func(to wire.Caller, before error) (err error) {
		lost = lost || before != nil
		answer, err = to.Do(ctx, wire.Call{Verb: api.VerbCreateFilter, Body: body})
		return err
	})
	if err != nil {
		if was != nil && !verdict(err) {
			return false, &UnknownError{What: fmt.Sprintf("the creation of filter %q", f.name), Err: err}
		}
		return false, err
	}
	answers, err := api.DecodeAnswers(answer)
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%w: %d answers to a creation", ErrAnswer, len(answers))
	}
	if err != nil {
		return false, &UnknownError{What: fmt.Sprintf("the creation of filter %q", f.name), Err: err}
	}
	return answers[0] || lost, nil
}

// Drop removes the filter for good. In a cluster, all members must take part.
func (f *Filter) Drop(ctx context.Context) error { return f.do(ctx, api.DropFilter) }

// Clear hides the filter until it is created again; its contents stay. The filter must be closed; otherwise Clear returns
// bigset.ErrFilterOpen.
func (f *Filter) Clear(ctx context.Context) error { return f.do(ctx, api.ClearFilter) }

// Close removes the filter's bits from the nodes' memory until they are needed.
func (f *Filter) Close(ctx context.Context) error { return f.do(ctx, api.CloseFilter) }

// Flush makes all marks durable.
func (f *Filter) Flush(ctx context.Context) error { return f.do(ctx, api.FlushFilter) }

func (f *Filter) do(ctx context.Context, what api.Change) error {
	if len(f.name) == 0 {
		return bigset.ErrNoFilter
	}
	_, err := f.change(ctx, api.VerbChangeFilter, api.AppendFilterChange(nil, &api.FilterChange{Do: what, Name: f.name}), func(err error) bool {
		return (what == api.DropFilter || what == api.ClearFilter) && errors.Is(err, bigset.ErrNoFilter)
	})
	return err
}

// InfoOptions select how the figures of a filter are made. The zero value takes what the node that answers knows.
type InfoOptions struct {
	// Absolute makes the figures exact: all members of a cluster are asked, and all have to answer.
	Absolute bool
}

// Info returns what the nodes know about the filter.
func (f *Filter) Info(ctx context.Context, o InfoOptions) (FilterInfo, error) {
	infos, err := f.c.infos(ctx, api.VerbFilterInfo, &door.FilterListing{Prefix: f.name, Absolute: o.Absolute})
	if err == nil && len(infos) != 1 {
		err = fmt.Errorf("%w: %d filters, asked about one", ErrAnswer, len(infos))
	}
	if err != nil {
		return FilterInfo{}, err
	}
	return infos[0], nil
}

func (c *Client) infos(ctx context.Context, verb wire.Verb, l *door.FilterListing) ([]FilterInfo, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	b, err := c.get(ctx, verb, api.AppendFilterListing(nil, l))
	if err != nil {
		return nil, err
	}
	return api.DecodeFilterInfos(b)
}

// FiltersOptions select filters. The zero value selects all.
type FiltersOptions struct {
	// Prefix is how the names begin.
	Prefix []byte
	// InfoOptions say how the figures are made.
	InfoOptions
}

// Filters lists filters, in the order of their names.
func (c *Client) Filters(ctx context.Context, o FiltersOptions) iter.Seq2[FilterInfo, error] {
	return func(yield func(FilterInfo, error) bool) {
		l := &door.FilterListing{Prefix: o.Prefix, Most: api.FilterListMost, Absolute: o.Absolute}
		for {
			infos, err := c.infos(ctx, api.VerbFilters, l)
			if err != nil {
				yield(FilterInfo{}, err)
				return
			}
			for i := range infos {
				if !yield(infos[i], nil) {
					return
				}
			}
			if len(infos) < l.Most {
				return
			}
			l.After = infos[len(infos)-1].Name
		}
	}
}

// FlushFilters makes all marks in all filters durable.
func (c *Client) FlushFilters(ctx context.Context) error {
	all := &Filter{c: c}
	_, err := all.change(ctx, api.VerbChangeFilter, api.AppendFilterChange(nil, &api.FilterChange{Do: api.FlushFilter}), nil)
	return err
}
