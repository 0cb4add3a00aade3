package bloomdtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/door"
)

// Memory is a node that keeps its filters in memory, with bloomd's bits and bloomd's defaults. Everything that it has counts as durable.
// The methods may be called by any number of goroutines.
type Memory struct {
	mu      sync.Mutex
	filters map[string]*memoryFilter
	cleared map[string]*memoryFilter // forgotten, to be found by create
}

// NewMemory returns a node without filters.
func NewMemory() *Memory {
	return &Memory{filters: map[string]*memoryFilter{}, cleared: map[string]*memoryFilter{}}
}

// memoryFilter is a filter.
type memoryFilter struct {
	opt  bloomslice.Options
	pure bool // was made to be in memory only: never closed

	mu    sync.Mutex
	slice *bloomslice.Slice
	info  door.FilterInfo // its figures are the slice's
	gone  bool            // dropped or cleared: a caller that still has it must find another
}

// Find returns a filter.
func (m *Memory) Find(_ context.Context, name []byte) (door.Filter, error) {
	if f := m.find(name); f != nil {
		return f, nil
	}
	return nil, bigset.ErrNoFilter
}

// FindsWait reports that Find does not wait.
func (m *Memory) FindsWait() bool { return false }

func (m *Memory) find(name []byte) *memoryFilter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filters[string(name)]
}

// Create creates a filter, or finds one that was cleared.
func (m *Memory) Create(_ context.Context, name []byte, o door.FilterCreate) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filters[string(name)] != nil {
		return false, nil
	}
	if f := m.cleared[string(name)]; f != nil {
		delete(m.cleared, string(name))
		m.filters[string(name)] = f.again()
		return true, nil
	}
	f, err := newFilter(string(name), o)
	if err == nil {
		m.filters[string(name)] = f
	}
	return err == nil, err
}

func newFilter(name string, o door.FilterCreate) (*memoryFilter, error) {
	opt := bloomslice.DefaultOptions()
	if o.Capacity != nil {
		opt.Capacity = *o.Capacity
	}
	if o.Probability != nil {
		opt.Probability = *o.Probability
	}
	slice, err := bloomslice.New(opt, nil, nil, nil)
	if err == nil {
		err = slice.AddLayer("")
	}
	if err != nil {
		return nil, err
	}
	info := door.FilterInfo{Name: name, Probability: opt.Probability, InMemory: true, Volatile: o.InMemory != nil && *o.InMemory}
	return &memoryFilter{opt: opt, pure: info.Volatile, slice: slice, info: info}, nil
}

// again returns a cleared filter that is created again: its options and keys are the old ones, its counters new.
func (f *memoryFilter) again() *memoryFilter {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := door.FilterInfo{Name: f.info.Name, Probability: f.info.Probability, InMemory: true, Volatile: f.pure, PageIns: 1}
	return &memoryFilter{opt: f.opt, pure: f.pure, slice: f.slice, info: info}
}

// Drop drops a filter.
func (m *Memory) Drop(_ context.Context, name []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.filters[string(name)]
	if f == nil {
		return bigset.ErrNoFilter
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	delete(m.filters, string(name))
	return nil
}

// Clear forgets a closed filter.
func (m *Memory) Clear(_ context.Context, name []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.filters[string(name)]
	if f == nil {
		return bigset.ErrNoFilter
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info.InMemory {
		return bigset.ErrFilterOpen
	}
	f.gone = true
	delete(m.filters, string(name))
	m.cleared[string(name)] = f
	return nil
}

// Close closes a filter.
func (m *Memory) Close(_ context.Context, name []byte) error {
	f := m.find(name)
	if f == nil {
		return bigset.ErrNoFilter
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info.InMemory && !f.pure {
		f.info.InMemory = false
		f.info.PageOuts++
	}
	return nil
}

// Flush only finds the filter.
func (m *Memory) Flush(_ context.Context, name []byte) error {
	if m.find(name) == nil {
		return bigset.ErrNoFilter
	}
	return nil
}

// FlushAll has nothing to do.
func (m *Memory) FlushAll(context.Context) error { return nil }

// List returns what is known of the filters, in the order of their names.
func (m *Memory) List(_ context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []door.FilterInfo
	for name, f := range m.filters {
		if strings.HasPrefix(name, string(l.Prefix)) && name > l.After {
			f.mu.Lock()
			infos = append(infos, f.now())
			f.mu.Unlock()
		}
	}
	slices.SortFunc(infos, func(a, b door.FilterInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos[:min(l.Most, len(infos))], nil
}

func (f *memoryFilter) now() door.FilterInfo {
	info := f.info
	info.Figures = bloomslice.FiguresOf(f.slice.Layers())
	return info
}

// Info returns what is known of the filter.
func (f *memoryFilter) Info(context.Context, bool) (door.FilterInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return door.FilterInfo{}, bigset.ErrNoFilter
	}
	return f.now(), nil
}

// open opens a closed filter.
func (f *memoryFilter) open() error {
	if f.gone {
		return bigset.ErrNoFilter
	}
	if !f.info.InMemory {
		f.info.InMemory = true
		f.info.PageIns++
	}
	return nil
}

// Check reports for each key whether it is present.
func (f *memoryFilter) Check(_ context.Context, keys [][]byte, present []bool) error {
	return f.each(keys, present, &f.info.CheckHits, &f.info.CheckMisses, f.slice.Check)
}

// Set adds keys.
func (f *memoryFilter) Set(_ context.Context, keys [][]byte, added []bool) error {
	return f.each(keys, added, &f.info.SetHits, &f.info.SetMisses, func(h *bloomslice.Hash) (bool, error) {
		_, yes, err := f.slice.Admit(h, "")
		if err == nil && yes {
			f.slice.Commit()
		}
		return yes, err
	})
}

// each calls do with each key of an open filter, and counts the results.
func (f *memoryFilter) each(keys [][]byte, yes []bool, hits, misses *uint64, do func(*bloomslice.Hash) (bool, error)) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return err
	}
	for i, k := range keys {
		h := bloomslice.Sum(k)
		if yes[i], err = do(&h); err != nil {
			return err
		}
		if yes[i] {
			*hits++
		} else {
			*misses++
		}
	}
	return nil
}

// CheckNow does what Check does, which never waits.
func (f *memoryFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	return len(keys), f.Check(context.Background(), keys, present)
}

// SetNow does what Set does.
func (f *memoryFilter) SetNow(keys [][]byte, added []bool) (int, error) {
	return len(keys), f.Set(context.Background(), keys, added)
}

// Pieces is that of a node without a cluster.
func (f *memoryFilter) Pieces() int {
	shape, err := f.opt.Shape(0)
	if err != nil {
		return 1
	}
	return max(1, int(shape.K)/16)
}

// ChecksWait reports that Check does not wait.
func (f *memoryFilter) ChecksWait() bool { return false }

// SetsWait reports that Set does not wait.
func (f *memoryFilter) SetsWait() bool { return false }
