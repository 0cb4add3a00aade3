package filters_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
)

// marked is what was acknowledged of a filter.
type marked struct {
	d     bigset.FilterDurability
	keys  map[string]bool // that it must have
	gone  map[string]bool // of filters of its name that were dropped, and not marked since
	alive bool
	doubt bool // whether it exists is not known: an operation on it is under way, or has failed
}

func (m *marked) clone() *marked {
	n := *m
	n.keys, n.gone = maps.Clone(m.keys), maps.Clone(m.gone)
	return &n
}

// marking is a store whose filters are marked, and what it has acknowledged.
type marking struct {
	*room
	filters map[string]*marked
	faulty  bool // operations may fail
	step    func()
	copies  map[string]map[string]*marked // by the folder of a checkpoint, what it must have
}

func newMarking(label string) *marking {
	p := newRoom(label)
	p.opt.FilterDurability = bigset.FilterSync
	return &marking{room: p, filters: map[string]*marked{}, step: func() {}, copies: map[string]map[string]*marked{}}
}

func (m *marking) snapshot() map[string]*marked {
	all := map[string]*marked{}
	for name, f := range m.filters {
		all[name] = f.clone()
	}
	return all
}

// failed reports whether an operation failed, which only a faulty disk allows.
func (m *marking) failed(t *testing.T, err error, what string) bool {
	t.Helper()
	if !m.faulty {
		must(t, err, m.label+": "+what)
	}
	return err != nil
}

func (m *marking) create(t *testing.T, name string, d bigset.FilterDurability, inMemory bool) {
	t.Helper()
	m.step()
	f := m.filters[name]
	if f == nil {
		f = &marked{keys: map[string]bool{}, gone: map[string]bool{}}
		m.filters[name] = f
	}
	f.doubt = true
	m.step()
	o := bigset.FilterOptions{Options: bloomslice.Options{Capacity: 20_000, Slices: 1 << (len(name) % 3)}, InMemory: inMemory, Durability: d}
	if _, err := m.store.Filters().Create(bg, []byte(name), o); m.failed(t, err, "create "+name) {
		return
	}
	if inMemory {
		d = bigset.FilterInterval
	}
	f.d, f.alive, f.doubt = d, true, false
	m.step()
}

func (m *marking) drop(t *testing.T, name string) {
	t.Helper()
	f := m.filters[name]
	f.doubt = true
	m.step()
	if err := m.store.Filters().Drop(bg, []byte(name)); m.failed(t, err, "drop "+name) && !errors.Is(err, bigset.ErrNoFilter) {
		return
	}
	maps.Copy(f.gone, f.keys)
	clear(f.keys)
	f.alive, f.doubt = false, false
	m.step()
}

func markKeys(from, to int) (keys [][]byte) {
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Appendf(nil, "key%05d", i))
	}
	return keys
}

// mark marks keys, in one call.
func (m *marking) mark(t *testing.T, name string, from, to int) {
	t.Helper()
	keys := markKeys(from, to)
	f := m.filters[name]
	for _, key := range keys {
		delete(f.gone, string(key))
	}
	m.step()
	h, err := m.store.Filters().Get([]byte(name))
	if err == nil {
		err = h.MarkAll(bg, keys, make([]bool, len(keys)))
	}
	if m.failed(t, err, "mark "+name) {
		return
	}
	for _, key := range keys {
		f.keys[string(key)] = true
	}
	m.step()
}

// has checks what a filter must have and must not have, by what was acknowledged.
func (m *marking) has(t *testing.T, want map[string]*marked, durable func(bigset.FilterDurability) bool) {
	t.Helper()
	for name, w := range want {
		f, err := m.store.Filters().Get([]byte(name))
		if w.doubt && (err != nil || !w.alive) {
			continue
		}
		if err != nil != !w.alive {
			t.Fatalf("%s: filter %q, which exists: %v: %v", m.label, name, w.alive, err)
		}
		if err != nil {
			continue
		}
		if durable(w.d) {
			for key := range w.keys {
				if has, err := f.Check([]byte(key)); err != nil || !has && !w.doubt {
					t.Fatalf("%s: filter %q denies %s, which was acknowledged (%v)", m.label, name, key, err)
				}
			}
		}
		for key := range w.gone {
			if has, err := f.Check([]byte(key)); err != nil || has && !w.doubt {
				t.Fatalf("%s: filter %q has %s of one that was dropped (%v)", m.label, name, key, err)
			}
		}
	}
}

func synced(d bigset.FilterDurability) bool {
	return d == bigset.FilterSync || d == bigset.FilterServer
}
func logged(d bigset.FilterDurability) bool { return d != bigset.FilterInterval }

// segments returns the segments of the log of marks that are on a disk.
func segments(t *testing.T, disk vfs.FS, dir string) (names []string) {
	t.Helper()
	all, err := disk.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(t, err, "list")
	for _, name := range all {
		if strings.HasPrefix(name, "filters-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// markHistory does everything that the log of marks has to handle.
func (m *marking) markHistory(t *testing.T, rounds int) {
	act := func(what string, err error) {
		t.Helper()
		m.failed(t, err, what)
		m.step()
	}
	for round := range rounds {
		at := round * 100
		m.open(t)
		m.step()
		for name, d := range map[string]bigset.FilterDurability{"sync": bigset.FilterSync, "log": bigset.FilterLog, "server": bigset.FilterServer, "interval": bigset.FilterInterval} {
			if m.filters[name] == nil {
				m.create(t, name, d, false)
			}
		}
		m.mark(t, "sync", at, at+1)
		m.mark(t, "log", at, at+3)
		m.mark(t, "sync", at, at+20) // some are marked already
		m.mark(t, "server", at, at+5)
		m.mark(t, "interval", at, at+5)
		act("flush", m.store.Filters().Flush(bg))
		m.mark(t, "log", at+1, at+2) // of before the flush
		m.mark(t, "log", at+20, at+40)
		m.mark(t, "sync", at+20, at+21)
		m.drop(t, "server")
		m.mark(t, "sync", at+21, at+22)
		m.create(t, "server", bigset.FilterServer, round%2 == 1)
		m.mark(t, "server", at+30, at+33)
		if f, err := m.store.Filters().Get([]byte("log")); err == nil {
			_, err = f.Close(bg)
			act("close a filter", err)
		}
		act("clear", m.store.Filters().Clear([]byte("log")))
		m.filters["log"].doubt = true
		m.mark(t, "sync", at+40, at+41)
		m.create(t, "log", bigset.FilterLog, false)
		m.mark(t, "log", at+1, at+2)
		m.mark(t, "log", at+50, at+52)
		folder := fmt.Sprintf("copy%d", round)
		m.copies[folder] = m.snapshot()
		act("checkpoint", m.store.Checkpoint(bg, folder))
		m.mark(t, "sync", at+60, at+62)
		m.mark(t, "log", at+60, at+62)
		if err := m.store.Close(); m.failed(t, err, "close") {
			return
		}
		if m.filters["server"].d == bigset.FilterInterval { // it was in memory only
			clear(m.filters["server"].keys)
		}
		m.step()
		if !m.faulty {
			if left := segments(t, m.disk, "store"); len(left) > 0 {
				t.Fatalf("%s: a clean close has left %v", m.label, left)
			}
		}
	}
}
