package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/door"
)

// LocalFilters are the filters of the store in this process, as far as a member needs more than a replica offers.
type LocalFilters interface {
	// LastGeneration returns the largest generation that the store has met.
	LastGeneration() uint64
	// List lists the filters of the store, each with slice 0. It leaves out filters that no other member could hold: those in memory only,
	// and damaged ones.
	List() ([]bigset.SliceSpec, error)
	// Adopt turns a filter that was made without a cluster into one with the given number of owners.
	Adopt(ctx context.Context, name []byte, owners uint32) error
	// MayCreate returns why a filter with these options is refused when filters others exist: bloomslice.ErrOptions, or a fault.
	MayCreate(name []byte, o bigset.FilterOptions, filters int) error
	// Figures returns the store's figures for some slices of a filter, and whether the filter is in memory. They are zero if the store has
	// none of the slices.
	Figures(name []byte, wanted func(slice uint32) bool) (door.FilterInfo, error)
	// Close removes a filter's bits from memory, and Flush makes its marks durable. Neither fails for a filter of which the store has
	// nothing.
	Close(ctx context.Context, name []byte) error
	Flush(ctx context.Context, name []byte) error
	FlushAll(ctx context.Context) error
}

// addFigures adds the figures of another member.
func addFigures(sum, part *door.FilterInfo) {
	sum.Capacity += part.Capacity
	sum.Size += part.Size
	sum.Storage += part.Storage
	sum.InMemory = sum.InMemory || part.InMemory
	sum.PageIns = max(sum.PageIns, part.PageIns) // all members open and close a filter together
	sum.PageOuts = max(sum.PageOuts, part.PageOuts)
	sum.CheckHits += part.CheckHits
	sum.CheckMisses += part.CheckMisses
	sum.SetHits += part.SetHits
	sum.SetMisses += part.SetMisses
}

// Filters are the filters of the cluster as every member serves them: a door.Filters. Every member knows which filters exist. Creating,
// dropping or clearing one needs all members, and the first of them decides. The methods may be called by any number of goroutines.
type Filters struct {
	m        *Member
	local    LocalFilters
	defaults bigset.FilterOptions // for options that create does not name
	list     *catalogue

	deciding chan struct{} // has room for one: full while a decision is in progress
	taking   sync.Mutex    // held while decisions take effect here

	mu     sync.RWMutex
	served map[string]*Filter // the active filters

	learningTokens  atomic.Bool // lists of tokens are being exchanged
	learningFilters atomic.Bool // the entries of other members are being fetched
}

var (
	_ door.Filters = (*Filters)(nil)
	_ door.Filter  = (*Filter)(nil)
)

// Filter is a filter of the cluster. A request through it goes to the members that hold the slices of its keys.
type Filter struct {
	of     *Filters
	spec   coord.Filter
	checks *coord.FilterBatches
	marks  *coord.FilterBatches

	open                                       atomic.Bool   // it has not been closed since it was created or used
	pageIns, pageOuts                          atomic.Uint64 // how often it was opened with its contents, and closed
	checkHits, checkMisses, setHits, setMisses atomic.Uint64 // of this member's clients
}

// Spec returns the coordinator's description of the filter.
func (x *Filter) Spec() coord.Filter { return x.spec }

// slicedLeast is the least number of keys that a slice is made for, if a filter is split into slices.
const slicedLeast = 4096

// newFilters reads the filters from disk.
func newFilters(m *Member) (*Filters, error) {
	f := &Filters{m: m, local: m.conf.Filters, defaults: m.conf.FilterDefaults, deciding: make(chan struct{}, 1), served: map[string]*Filter{}}
	var err error
	if f.list, err = openCatalogue(m.disk); err != nil {
		return nil, err
	}
	v := m.membership.View()
	f.list.resume(v.Epoch())
	for _, name := range f.list.activeNames() {
		f.serve(f.list.get([]byte(name)), false)
	}
	return f, f.settle(m.life)
}

// serve applies an entry to what is served. A new filter is open, as in bloomd.
func (f *Filters) serve(e *FilterEntry, open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.served[string(e.Name)]
	switch {
	case e.State != FilterActive:
		delete(f.served, string(e.Name))
	case was == nil || was.spec.Generation != e.Generation:
		spec := coord.Filter{Name: e.Name, Generation: e.Generation, Options: e.options()}
		x := &Filter{of: f, spec: spec, checks: f.m.co.CheckBatches(spec), marks: f.m.co.MarkBatches(spec)}
		x.open.Store(open)
		if open && e.Change > 0 { // with the contents that it had before it was cleared
			x.pageIns.Store(1)
		}
		f.served[string(e.Name)] = x
	}
}

// Find implements door.Filters. Every member knows all filters whose creation was acknowledged.
func (f *Filters) Find(_ context.Context, name []byte) (door.Filter, error) {
	if err := f.unlisted(); err != nil {
		return nil, err
	}
	f.mu.RLock()
	found := f.served[string(name)]
	f.mu.RUnlock()
	if found == nil {
		return nil, bigset.ErrNoFilter
	}
	return found, nil
}

// unlisted returns an error while this member does not know which filters exist.
func (f *Filters) unlisted() error {
	if listed, _ := f.list.state(); !listed {
		return fmt.Errorf("%w: node %s does not know yet which filters exist", door.ErrUnavailable, f.m.conf.Node)
	}
	return nil
}

// FindsWait implements door.Filters.
func (f *Filters) FindsWait() bool { return false }

// find is Find with the type of this package.
func (f *Filters) find(name []byte) (*Filter, error) {
	found, err := f.Find(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return found.(*Filter), nil
}

// options returns the options for a new filter, from those that create names.
func (f *Filters) options(given *door.FilterCreate) (bigset.FilterOptions, error) {
	o := f.defaults
	if given.Capacity != nil {
		o.Capacity = *given.Capacity
	}
	if given.Probability != nil {
		o.Probability = *given.Probability
	}
	if given.InMemory != nil {
		o.InMemory = *given.InMemory
	}
	if o.InMemory {
		return o, fmt.Errorf("%w: a filter in memory only, which members of a cluster could not copy", bloomslice.ErrOptions)
	}
	d := bloomslice.DefaultOptions()
	o.Capacity, o.Probability = cmp.Or(o.Capacity, d.Capacity), cmp.Or(o.Probability, d.Probability)
	o.Scale, o.Reduction = cmp.Or(o.Scale, d.Scale), cmp.Or(o.Reduction, d.Reduction)
	s := f.m.membership.conf.Settings
	o.Owners, o.Slices = uint32(s.N), 1
	for int(o.Slices) < s.Slices && o.Capacity/uint64(2*o.Slices) >= slicedLeast {
		o.Slices *= 2
	}
	return o, o.Check()
}

// Create implements door.Filters. It reports that the filter exists only when all members have it on disk. If it fails after the first member
// has decided, the filter is created all the same, as soon as the others learn of it.
func (f *Filters) Create(ctx context.Context, name []byte, given door.FilterCreate) (created bool, err error) {
	if _, err := f.find(name); err == nil {
		if e, known := f.known(name); known && e.State == FilterActive {
			return false, nil
		}
	}
	o, err := f.options(&given)
	if err != nil {
		return false, err
	}
	if err := f.local.MayCreate(name, o, len(f.list.activeNames())); err != nil {
		return false, err
	}
	e := newEntry(name, 1, o)
	d, err := f.decide(ctx, decision{Do: doCreate, Entry: &e})
	return d.Created, err
}

// known returns the entry of a name, or nil, and whether all members have it on disk, as far as this member has heard. A member that does not
// serve may be of a former epoch, whose disks are not those of today.
func (f *Filters) known(name []byte) (*FilterEntry, bool) {
	e, known := f.list.everywhere(name)
	return e, known && f.serves() == nil
}

// Drop implements door.Filters. When it returns without an error, or with ErrNoFilter, all members have dropped the filter on disk.
func (f *Filters) Drop(ctx context.Context, name []byte) error { return f.change(ctx, doDrop, name) }

// Clear implements door.Filters.
func (f *Filters) Clear(ctx context.Context, name []byte) error { return f.change(ctx, doClear, name) }

// change drops or clears a filter.
func (f *Filters) change(ctx context.Context, do string, name []byte) error {
	if err := f.unlisted(); err != nil {
		return err
	}
	was, known := f.known(name)
	if was == nil || was.State != FilterActive && known { // otherwise another member may still serve it: the first tells all again
		return bigset.ErrNoFilter
	}
	e := newEntry(name, was.Generation, was.options())
	_, err := f.decide(ctx, decision{Do: do, Entry: &e})
	return err
}

// Close implements door.Filters. It closes the filter on all members that are up and whose store takes writes. A member that is down has
// nothing in memory.
func (f *Filters) Close(ctx context.Context, name []byte) error {
	if _, err := f.find(name); err != nil {
		return err
	}
	_, err := f.everywhere(ctx, order{Do: doClose, Name: name})
	return err
}

// Flush implements door.Filters. A member that is down has flushed when it stopped, or has marks in its log. If an acknowledged
// mark may be at no member that has flushed, Flush returns an error.
func (f *Filters) Flush(ctx context.Context, name []byte) error {
	if _, err := f.find(name); err != nil {
		return err
	}
	return f.flush(ctx, order{Do: doFlush, Name: name})
}

// FlushAll implements door.Filters.
func (f *Filters) FlushAll(ctx context.Context) error { return f.flush(ctx, order{Do: doFlush}) }

func (f *Filters) flush(ctx context.Context, o order) error {
	away, err := f.everywhere(ctx, o)
	if err != nil {
		return err
	}
	s := f.m.membership.conf.Settings
	if len(away) > min(s.N-s.W, s.W-1) { // otherwise one of the W members that have a mark has flushed
		return fmt.Errorf("%w: too few members flushed: %v", door.ErrUnavailable, joined(away))
	}
	return nil
}

// List implements door.Filters. This member knows the names; the figures are summed over the members.
func (f *Filters) List(ctx context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	if err := f.unlisted(); err != nil {
		return nil, err
	}
	names := f.list.activeNames()
	at := sort.Search(len(names), func(i int) bool { return names[i] >= string(l.Prefix) && names[i] > l.After })
	var part []*Filter
	for _, name := range names[at:] {
		if !strings.HasPrefix(name, string(l.Prefix)) || len(part) == l.Most {
			break
		}
		if x, err := f.find([]byte(name)); err == nil { // otherwise it has been dropped since
			part = append(part, x)
		}
	}
	if len(part) == 0 {
		return nil, nil
	}
	return f.infos(ctx, part, l.Absolute)
}

// Info implements door.Filter.
func (x *Filter) Info(ctx context.Context, absolute bool) (door.FilterInfo, error) {
	infos, err := x.of.infos(ctx, []*Filter{x}, absolute)
	if err != nil {
		return door.FilterInfo{}, err
	}
	return infos[0], nil
}

// infos asks members what they know about filters. The figures of a slice come from one member that holds it; counts of clients' requests
// are summed over all members. With absolute, all members must answer, and for each slice the largest figures are used. Otherwise the
// members that can be reached are enough.
func (f *Filters) infos(ctx context.Context, list []*Filter, absolute bool) (all []door.FilterInfo, err error) {
	for len(list) > 0 {
		n, slices := 0, uint32(0)
		for n < len(list) && (n == 0 || !absolute || slices+list[n].spec.Options.Slices <= exactSlices) {
			slices += list[n].spec.Options.Slices
			n++
		}
		some, err := f.infosOf(ctx, list[:n], absolute)
		if err != nil {
			return nil, err
		}
		all, list = append(all, some...), list[n:]
	}
	return all, nil
}

// exactSlices bounds the slices of one exact question, where each member reports each of its slices.
const exactSlices = 1 << 13

func (f *Filters) infosOf(ctx context.Context, list []*Filter, absolute bool) ([]door.FilterInfo, error) {
	names := make([]Hex, len(list))
	for i, x := range list {
		names[i] = x.spec.Name
	}
	answers, err := f.askFigures(ctx, names, absolute)
	if err != nil {
		return nil, err
	}
	infos := make([]door.FilterInfo, len(list))
	for i, x := range list {
		sum := door.FilterInfo{Name: string(x.spec.Name), Probability: x.spec.Options.Probability}
		for j := range answers {
			addFigures(&sum, &answers[j][i].FilterInfo)
		}
		if absolute {
			sum.Figures = largest(answers, i)
		}
		least := x.least()
		sum.Capacity, sum.Storage = max(sum.Capacity, least.Capacity), max(sum.Storage, least.Storage)
		infos[i] = sum
	}
	return infos, nil
}

// largest sums the figures of a filter's slices, each taken from the member that has most of it.
func largest(answers [][]filterFigures, filter int) (sum bloomslice.Figures) {
	most := map[uint32]bloomslice.Figures{}
	for j := range answers {
		for _, s := range answers[j][filter].Slices {
			m := most[s.Slice]
			most[s.Slice] = bloomslice.Figures{Capacity: max(m.Capacity, s.Capacity), Size: max(m.Size, s.Size), Storage: max(m.Storage, s.Storage)}
		}
	}
	for _, m := range most {
		sum.Capacity += m.Capacity
		sum.Size += m.Size
		sum.Storage += m.Storage
	}
	return sum
}

// least returns the figures of the first layers of all owners in all slices. A layer is made when its first key arrives, but counts as part
// of the filter from its creation.
func (x *Filter) least() bloomslice.Figures {
	o := &x.spec.Options
	shape, err := o.Shape(0)
	if err != nil {
		return bloomslice.Figures{}
	}
	n := uint64(o.Slices) * uint64(o.Owners)
	return bloomslice.Figures{Capacity: o.Capacity, Storage: n*shape.Bytes + bloomslice.HeaderBytes}
}

// Check implements door.Filter.
func (x *Filter) Check(ctx context.Context, keys [][]byte, present []bool) error {
	found, err := x.keys(ctx, func() ([]bool, error) { return x.checks.Do(ctx, keys) })
	if err != nil {
		return err
	}
	hits := uint64(copyCount(present, found))
	x.checkHits.Add(hits)
	x.checkMisses.Add(uint64(len(keys)) - hits)
	return nil
}

// Set implements door.Filter.
func (x *Filter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	var before []bool // keys that an earlier try has marked and found new
	news, err := x.keys(ctx, func() ([]bool, error) {
		news, err := x.marks.Do(ctx, keys)
		for i, isNew := range before {
			if i < len(news) {
				news[i] = news[i] || isNew
			}
		}
		before = news
		return news, partlyDone(err)
	})
	if err != nil {
		return err
	}
	hits := uint64(copyCount(added, news))
	x.setHits.Add(hits)
	x.setMisses.Add(uint64(len(keys)) - hits)
	return nil
}

// copyCount copies answers and counts those that are true.
func copyCount(dst, src []bool) (n int) {
	copy(dst, src)
	for _, yes := range src {
		if yes {
			n++
		}
	}
	return n
}

// partlyDone returns the error of a mark. It adds coord.ErrUnknown if some of the keys are marked and others are not. An error that the
// filter was dropped is returned unchanged: nothing of the filter is left.
func partlyDone(err error) error {
	var p *coord.FilterError
	if !errors.As(err, &p) || len(p.Keys) >= p.Of || errors.Is(err, coord.ErrUnknown) || errors.Is(err, bigset.ErrNoFilter) {
		return err
	}
	return fmt.Errorf("%w: %d of %d keys are marked: %w", coord.ErrUnknown, p.Of-len(p.Keys), p.Of, err)
}

// keys does a request on keys and repeats it if the epoch has changed.
func (x *Filter) keys(ctx context.Context, do func() ([]bool, error)) ([]bool, error) {
	if !x.open.Load() && !x.open.Swap(true) {
		x.pageIns.Add(1)
	}
	return again(ctx, &Backend{x.of.m}, always, func(*live) ([]bool, error) { return do() })
}

// CheckNow implements door.Filter. It checks no key: every check asks another member.
func (x *Filter) CheckNow([][]byte, []bool) (int, error) { return 0, nil }

// SetNow implements door.Filter.
func (x *Filter) SetNow([][]byte, []bool) (int, error) { return 0, nil }

// Pieces implements door.Filter. No key is looked up now.
func (x *Filter) Pieces() int { return 1 }

// ChecksWait implements door.Filter.
func (x *Filter) ChecksWait() bool { return true }

// SetsWait implements door.Filter.
func (x *Filter) SetsWait() bool { return true }

// figures returns this member's figures for the slices that it has to report: those for which it is the first holder among the members
// asked.
func (f *Filters) figures(name []byte, asked []string) (door.FilterInfo, error) {
	e := f.list.get(name)
	l := f.m.live.Load()
	if e == nil || l == nil {
		return door.FilterInfo{}, nil
	}
	return f.local.Figures(name, func(slice uint32) bool {
		holders := l.holders(keyscheme.SlotOf(keyscheme.PartitionFilter, name, slice))
		for _, id := range asked {
			if i := l.view.Record.entry(id); i >= 0 && slices.Contains(holders, i) {
				return i == l.self
			}
		}
		return false
	})
}

// slices returns the figures of each slice of a filter that this member's store holds.
func (f *Filters) slices(name []byte) (all []sliceFigures, err error) {
	e := f.list.get(name)
	if e == nil {
		return nil, nil
	}
	for s := range e.Slices {
		have, err := f.local.Figures(name, func(slice uint32) bool { return slice == s })
		if err != nil {
			return nil, err
		}
		if have.Figures != (bloomslice.Figures{}) {
			all = append(all, sliceFigures{s, have.Figures})
		}
	}
	return all, nil
}

// orderTime is how long the other members may take to answer a request to all.
const orderTime = 10 * time.Second
