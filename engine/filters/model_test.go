package filters_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// filterModel is what a filter must be: a slice of its own that never leaves memory gives the answers, false positives included,
// and the figures.
type filterModel struct {
	opt     bigset.FilterOptions
	slice   *bloomslice.Slice // nil after a crash that may have taken marks back: only what was flushed is sure then
	sure    []string          // keys that are in it
	durable int               // how many of them were flushed
	open    bool
	cleared bool         // not listed
	info    filters.Info // counters

}

func (m *filterModel) begin() {
	m.slice, _ = bloomslice.New(m.opt.Options, nil, nil, nil)
	if err := m.slice.AddLayer(""); err != nil {
		panic(err)
	}
	m.sure, m.durable = nil, 0
}

// use opens a closed filter.
func (m *filterModel) use() {
	if !m.open && !m.opt.InMemory {
		m.info.PageIns++
	}
	m.open = true
}

func (m *filterModel) restart() {
	m.open, m.cleared, m.info = false, false, filters.Info{}
	if m.opt.InMemory {
		m.begin()
	}
}

// filterMachine is a store of filters and its model.
type filterMachine struct {
	p      *room
	model  map[string]*filterModel
	copies int
}

func (m *filterMachine) names() []string { return slices.Sorted(maps.Keys(m.model)) }

var filterNames = []string{"a", "ab", "b", "big", "\xff\x00 c", "memory"}

func (m *filterMachine) draw(t *rapid.T, name string) bigset.FilterOptions {
	o := bigset.FilterOptions{Options: bloomslice.DefaultOptions(), InMemory: name == "memory"}
	o.Capacity, o.Probability = rapid.Uint64Range(10_001, 12_000).Draw(t, "capacity"), 0.05
	o.Scale = rapid.SampledFrom([]uint32{2, 4}).Draw(t, "scale")
	if name == "big" && m.p.opt.FilterCacheBytes == 1<<30 { // which is flushed as a table
		o.Capacity = 800_000
	}
	return o
}

func drawKeys(t *rapid.T) [][]byte {
	from, n := rapid.IntRange(0, 30_000).Draw(t, "from"), rapid.SampledFrom([]int{1, 70, 70, 1000, 6000}).Draw(t, "keys")
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "k%d", from+i)
	}
	return keys
}

// filter draws a name, and returns the store's filter and its model; both are nil if there is none.
func (m *filterMachine) filter(t *rapid.T) (string, *filters.Filter, *filterModel) {
	name := rapid.SampledFrom(filterNames).Draw(t, "name")
	f, err := m.p.store.Filters().Get([]byte(name))
	model := m.model[name]
	if model != nil && model.cleared {
		model = nil
	}
	if (err == nil) != (model != nil) || err != nil && !errors.Is(err, bigset.ErrNoFilter) {
		t.Fatalf("filter %q: %v, want %v", name, err, model)
	}
	if model != nil {
		info, err := f.Info()
		must(t, err, "info")
		m.short(model, info)
	}
	return name, f, model
}

// short makes the model follow if a filter was closed because it took too much memory even without any page.
func (m *filterMachine) short(model *filterModel, got filters.Info) {
	if m.p.opt.FilterCacheBytes < 1<<20 && !model.opt.InMemory {
		model.open, model.info.PageIns, model.info.PageOuts = got.Open, got.PageIns, got.PageOuts
	}
}

func (m *filterMachine) create(t *rapid.T) {
	name, _, listed := m.filter(t)
	o := m.draw(t, name)
	_, err := m.p.store.Filters().Create(bg, []byte(name), o)
	if model := m.model[name]; listed != nil {
		if !errors.Is(err, bigset.ErrFilterExists) {
			t.Fatalf("create %q again: %v", name, err)
		}
	} else if must(t, err, "create"); model != nil { // cleared: it comes back
		model.cleared, model.info = false, filters.Info{}
		model.use()
	} else {
		m.model[name] = &filterModel{opt: o, open: true}
		m.model[name].begin()
	}
	m.look(t, name)
}

func (m *filterMachine) mark(t *rapid.T) {
	name, f, model := m.filter(t)
	if f == nil {
		return
	}
	keys := drawKeys(t)
	added := make([]bool, len(keys))
	n := 0
	if rapid.Bool().Draw(t, "now") {
		var err error
		n, err = f.MarkNow(keys, added)
		must(t, err, "mark now")
	}
	must(t, f.MarkAll(bg, keys[n:], added[n:]), "mark")
	model.use()
	for i, key := range keys {
		h := bloomslice.Sum(key)
		if added[i] {
			model.info.MarkHits++
		} else {
			model.info.MarkMisses++
		}
		model.sure = append(model.sure, string(key))
		if model.slice == nil {
			continue
		}
		_, want, err := model.slice.Admit(&h, "")
		must(t, err, "model")
		if want {
			model.slice.Commit()
		}
		if added[i] != want {
			t.Fatalf("mark %q in %q: %v, want %v", key, name, added[i], want)
		}
	}
}

func (m *filterMachine) check(t *rapid.T) {
	name, f, model := m.filter(t)
	if f == nil {
		return
	}
	model.use()
	m.ask(t, name, f, drawKeys(t))
	if len(model.sure) > 0 {
		from := rapid.IntRange(0, len(model.sure)-1).Draw(t, "of the sure")
		var keys [][]byte
		for _, key := range model.sure[from:min(from+500, len(model.sure))] {
			keys = append(keys, []byte(key))
		}
		for i, yes := range m.ask(t, name, f, keys) {
			if !yes {
				t.Fatalf("%q denies %q", name, keys[i])
			}
		}
	}
}

func (m *filterMachine) ask(t *rapid.T, name string, f *filters.Filter, keys [][]byte) []bool {
	model, present := m.model[name], make([]bool, len(keys))
	must(t, f.CheckAll(keys, present), "check")
	for i, key := range keys {
		if present[i] {
			model.info.CheckHits++
		} else {
			model.info.CheckMisses++
		}
		if model.slice == nil {
			continue
		}
		h := bloomslice.Sum(key)
		if want, _ := model.slice.Check(&h); want != present[i] {
			t.Fatalf("check %q in %q: %v, want %v", key, name, present[i], want)
		}
	}
	return present
}

func (m *filterMachine) close(t *rapid.T) {
	_, f, model := m.filter(t)
	if f == nil {
		return
	}
	closed, err := f.Close(bg)
	must(t, err, "close")
	if want := model.open && !model.opt.InMemory; closed != want {
		t.Fatalf("closed %v, want %v", closed, want)
	}
	model.close()
}

func (m *filterModel) close() {
	if m.open && !m.opt.InMemory {
		m.open, m.durable = false, len(m.sure)
		m.info.PageOuts++
	}
}

func (m *filterMachine) closeCold(t *rapid.T) {
	for range 2 {
		_, err := m.p.store.Filters().CloseCold(bg)
		must(t, err, "close cold filters")
	}
	for _, model := range m.model {
		model.close()
	}
}

func (m *filterMachine) flush(t *rapid.T) {
	_, f, model := m.filter(t)
	if f != nil {
		must(t, f.Flush(bg), "flush")
		model.durable = len(model.sure)
	}
}

func (m *filterMachine) flushAll(t *rapid.T) {
	must(t, m.p.store.Filters().Flush(bg), "flush all")
	m.flushed()
}

func (m *filterMachine) flushed() {
	for _, model := range m.model {
		model.durable = len(model.sure)
	}
}

func (m *filterMachine) clear(t *rapid.T) {
	name, f, model := m.filter(t)
	err := m.p.store.Filters().Clear([]byte(name))
	switch {
	case f == nil:
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatalf("clear of none: %v", err)
		}
	case model.open:
		if !errors.Is(err, bigset.ErrFilterOpen) {
			t.Fatalf("clear of an open filter: %v", err)
		}
	default:
		must(t, err, "clear")
		model.cleared = true
		if _, err := f.Check([]byte("k")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatalf("check of a cleared filter: %v", err)
		}
	}
}

func (m *filterMachine) drop(t *rapid.T) {
	name, f, _ := m.filter(t)
	err := m.p.store.Filters().Drop(bg, []byte(name))
	if f == nil {
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatalf("drop of none: %v", err)
		}
		return
	}
	must(t, err, "drop")
	delete(m.model, name)
	_, check := f.Check([]byte("k"))
	_, mark := f.Mark(bg, []byte("k"))
	_, info := f.Info()
	if !errors.Is(check, bigset.ErrNoFilter) || !errors.Is(mark, bigset.ErrNoFilter) || !errors.Is(info, bigset.ErrNoFilter) {
		t.Fatalf("a dropped filter: %v, %v, %v", check, mark, info)
	}
}

func (m *filterMachine) dropRange(t *rapid.T) {
	name := rapid.SampledFrom(filterNames).Draw(t, "name")
	slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(name), 0)
	first, last := slot-min(slot, 1<<29), max(slot, slot+1<<29)
	must(t, m.p.store.DropRange(bg, first, last), "drop range")
	for _, name := range m.names() {
		if at := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(name), 0); at >= first && at <= last {
			delete(m.model, name)
		}
	}
}

// look compares the reported state of a filter with the model.
func (m *filterMachine) look(t *rapid.T, name string) {
	f, err := m.p.store.Filters().Get([]byte(name))
	must(t, err, "filter")
	got, err := f.Info()
	must(t, err, "info")
	m.same(t, got)
}

func (m *filterMachine) same(t *rapid.T, got filters.Info) {
	model := m.model[string(got.Name)]
	m.short(model, got)
	want := model.info
	want.Name, want.Open, want.Options, want.Generation = got.Name, model.open, model.opt, got.Generation
	want.SlicesHere, want.Pages = 1, got.Pages
	if want.Figures = got.Figures; model.slice != nil {
		want.Figures, want.Pages = bloomslice.FiguresOf(model.slice.Layers()), 0
		for _, l := range model.slice.Layers() {
			want.Pages += uint64(math.Ceil(float64(l.Shape.Bytes) / bloomslice.PageBytes))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("filter %q: %+v\nwant %+v", got.Name, got, want)
	}
}

// all compares the whole list, by one of several prefixes, with the model.
func (m *filterMachine) all(t *rapid.T) {
	prefix := rapid.SampledFrom([]string{"", "", "a", "ab", "none"}).Draw(t, "prefix")
	infos, err := m.p.store.Filters().List([]byte(prefix))
	must(t, err, "list")
	var want []string
	for _, name := range m.names() {
		if !m.model[name].cleared && bytes.HasPrefix([]byte(name), []byte(prefix)) {
			want = append(want, name)
		}
	}
	var got []string
	for _, info := range infos {
		got = append(got, string(info.Name))
		m.same(t, info)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("list of %q: %q, want %q", prefix, got, want)
	}
}

func (m *filterMachine) restart() {
	for _, model := range m.model {
		model.restart()
	}
}

func (m *filterMachine) reopen(t *rapid.T) {
	must(t, m.p.store.Close(), "close the store")
	m.flushed()
	m.p.open(t)
	m.restart()
}

func (m *filterMachine) crash(t *rapid.T) {
	left := m.p.disk.CrashClone(rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "percent"), rapid.Uint64().Draw(t, "seed"))
	must(t, m.p.store.Close(), "close the store")
	m.p.disk = left
	m.p.open(t)
	for _, model := range m.model {
		if model.durable < len(model.sure) {
			model.sure, model.slice = model.sure[:model.durable], nil
		}
	}
	m.restart()
}

// copy makes a checkpoint, restores it, and finds the same filters there.
func (m *filterMachine) copy(t *rapid.T) {
	m.copies++
	made, restored := fmt.Sprint("copy", m.copies), fmt.Sprint("restored", m.copies)
	must(t, m.p.store.Checkpoint(bg, made), "checkpoint")
	m.flushed()
	_, err := restore(made, restored, m.p.disk)
	must(t, err, "restore")
	o := m.p.opt
	s, err := open(restored, &o)
	must(t, err, "open the copy")
	there := &filterMachine{&room{label: "copy", store: s, opt: o}, map[string]*filterModel{}, 0}
	for name, model := range m.model {
		c := *model
		c.restart()
		there.model[name] = &c
	}
	there.all(t)
	there.check(t)
	must(t, s.Close(), "close the copy")
}

func (m *filterMachine) verify(t *rapid.T) {
	m.p.store.own.Excised()
	rep, err := m.p.store.Verify()
	must(t, err, "verify")
	if !rep.OK() || rep.Filters != len(m.model) {
		t.Fatalf("verify: %+v, want %d filters", rep, len(m.model))
	}
	for _, name := range filterNames {
		keys, err := m.p.store.FilterKeys([]byte(name))
		must(t, err, "keys")
		if want := min(1, len(m.model)); m.model[name] == nil && len(keys) > 0 || len(keys) > want {
			t.Fatalf("filter %q has %v keys on disk", name, keys)
		}
	}
}

// TestFiltersModel performs all operations on the filters of a store, and compares every answer and figure with a model.
func TestFiltersModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newRoom("filters")
		p.disk = testkit.NewDisk()
		p.opt.FilterCacheBytes = rapid.SampledFrom([]int64{1, 12 << 10, 200 << 10, 1 << 30}).Draw(t, "cache")
		m := &filterMachine{p, map[string]*filterModel{}, 0}
		p.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": m.create, "create more": m.create, "create again": m.create, "mark": m.mark, "mark more": m.mark, "check": m.check,
			"close": m.close, "close again": m.close, "close cold": m.closeCold, "flush": m.flush, "flush all": m.flushAll, "clear": m.clear, "clear again": m.clear,
			"drop": m.drop, "drop range": m.dropRange, "list": m.all, "reopen": m.reopen, "crash": m.crash, "copy": m.copy, "verify": m.verify,
		})
		m.all(t)
		m.verify(t)
		must(t, m.p.store.Close(), "close")
	})
}
