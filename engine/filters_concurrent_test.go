package engine_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// allowed are the errors that calls beside drops and clears may get.
func allowed(err error) bool {
	return err == nil || errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, bigset.ErrFilterExists) || errors.Is(err, bigset.ErrFilterOpen)
}

// TestFiltersConcurrently uses filters from all sides while pages go in and out. Of a filter that stays, no key is denied to who has
// marked it, and each key is added by one of those who mark it.
func TestFiltersConcurrently(t *testing.T) {
	p := newPair("store")
	p.opt.FilterCacheBytes = 40 << 10
	p.open(t)
	s := p.store
	stays, err := s.CreateFilter(bg, []byte("stays"), smallFilter())
	must(t, err, "create")
	stop := make(chan struct{})
	var others sync.WaitGroup
	beside := func(f func(i int) error) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(i); !allowed(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 2 {
		name := fmt.Appendf(nil, "comes and goes %d", n)
		beside(func(int) error { _, err := s.CreateFilter(bg, name, smallFilter()); return err })
		beside(func(i int) error {
			if i%3 == 0 {
				return s.ClearFilter(name)
			}
			return s.DropFilter(bg, name)
		})
		beside(func(i int) error {
			f, err := s.Filter(name)
			if err != nil {
				return err
			}
			if err := f.MarkAll(bg, taggedKeys("x", i, i+40), make([]bool, 40)); err != nil {
				return err
			}
			_, err = f.Check([]byte("x-1"))
			return err
		})
	}
	beside(func(int) error { _, err := stays.Close(bg); return err })
	beside(func(int) error { return s.FlushFilters(bg) })
	beside(func(int) error { _, err := s.CloseColdFilters(bg); return err })
	beside(func(int) error { _, err := s.Filters(nil); return err })
	beside(func(int) error { _, err := s.Stats(); return err })

	var added atomic.Int64
	var markers sync.WaitGroup
	const keys = 600
	for n := range 4 {
		markers.Go(func() {
			for i := 0; i < keys; i += 20 {
				for what, batch := range map[string][][]byte{"shared": taggedKeys("shared", i, i+20), "own": taggedKeys(fmt.Sprint("own", n), i, i+20)} {
					news, present := make([]bool, 20), make([]bool, 20)
					if err := errors.Join(stays.MarkAll(bg, batch, news), stays.CheckAll(batch, present)); err != nil {
						t.Error(what, err)
						return
					}
					for j := range batch {
						if news[j] {
							added.Add(1)
						}
						if !present[j] {
							t.Errorf("%q is denied", batch[j])
						}
					}
				}
			}
		})
	}
	markers.Wait()
	close(stop)
	others.Wait()
	info, err := stays.Info()
	must(t, err, "info")
	must(t, s.CheckRing(), "ring")
	if n := added.Load(); uint64(n) != info.Size || n > 5*keys || n < 5*keys-20 {
		t.Errorf("%d keys were added, the filter has %d", n, info.Size)
	}
	p.close(t)
	p.open(t)
	p.store.FiltersCut()
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); !rep.OK() {
		t.Errorf("%+v", rep)
	}
	stays, err = p.store.Filter([]byte("stays"))
	must(t, err, "filter")
	present := make([]bool, keys)
	must(t, stays.CheckAll(taggedKeys("shared", 0, keys), present), "check")
	for i, yes := range present {
		if !yes {
			t.Errorf("shared-%d is denied", i)
		}
	}
	p.close(t)
}

// TestFilterMadeWithinSweep makes filters between the sets that a sweep copies, while it does: the swap must not take them along.
func TestFilterMadeWithinSweep(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	for i := range 40 {
		p.all(t, smallName(i), keyscheme.OpAdd, elementNames(0, 4), bigset.Sync)
		p.all(t, smallName(i), keyscheme.OpRemove, elementNames(0, 2), bigset.Sync)
	}
	p.flush(t)
	made := make(chan error, 1)
	stop := p.whileCopied(func() {
		go func() {
			var err error
			for i := range 30 {
				_, e := p.store.CreateFilter(bg, fmt.Appendf(nil, "filter %d", i), smallFilter())
				err = errors.Join(err, e)
			}
			made <- err
		}()
		select { // they wait for the sweep
		case err := <-made:
			made <- err
		case <-time.After(100 * time.Millisecond):
		}
	})
	pass, _, err := p.store.RewriteSets(bg, nil, 1)
	must(t, err, "sweep")
	if !stop() || !pass.Swapped {
		t.Fatalf("the sweep did nothing: %+v", pass)
	}
	must(t, <-made, "create")
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); !rep.OK() || rep.Filters != 30 {
		t.Errorf("%+v", rep)
	}
	p.close(t)
}

// TestFiltersBehindElements: records of filters come right behind elements that a flush and a compaction leave out, and never in a shape
// that Pebble does not survive there (its issue 6168).
func TestFiltersBehindElements(t *testing.T) {
	for _, before := range []bool{true, false} { // the set's slot comes before the filter's, or behind it: then the directory is next
		p := newPair("store")
		p.open(t)
		set, name := "s", ""
		for i := 0; name == ""; i++ {
			n := fmt.Sprint("f", i)
			if slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(n), 0); (slot > keyscheme.SetSlot([]byte(set))) == before {
				name = n
			}
		}
		for round := range 3 {
			p.all(t, set, keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
			for range 2 {
				f, err := p.store.CreateFilter(bg, []byte(name), smallFilter())
				must(t, err, "create")
				for i := range 3 {
					must(t, f.MarkAll(bg, taggedKeys("k", i, i+20), make([]bool, 20)), "mark")
					must(t, f.Flush(bg), "flush")
					if round == i {
						must(t, p.store.FlushTables(), "flush")
					}
				}
				if round != 1 {
					must(t, p.store.DropFilter(bg, []byte(name)), "drop")
				} else {
					break
				}
			}
			p.all(t, set, keyscheme.OpRemove, elementNames(0, 30), bigset.Sync)
			publish(t, p)
			must(t, p.store.FlushTables(), "flush")
			must(t, p.store.CompactTables(bg), "compact")
			if _, err := p.store.Filter([]byte(name)); err == nil {
				must(t, p.store.DropFilter(bg, []byte(name)), "drop")
			}
		}
		p.store.FiltersCut()
		must(t, p.store.FlushTables(), "flush")
		must(t, p.store.CompactTables(bg), "compact")
		p.verify(t)
		p.close(t)
	}
}

// TestDirectoryBehindFiltered: where the merger has left out the last element of a set, an entry of the directory that was taken away comes
// next in the same flush, while the entry itself is at the bottom. Pebble panics where it is taken away by DEL (its issue 6168).
func TestDirectoryBehindFiltered(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = compaction.Filter()
	p.open(t)
	set, name := "s", ""
	for i := 0; name == ""; i++ { // its slot is before the set's: behind that comes the directory
		n := fmt.Sprint("f", i)
		if keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(n), 0) <= keyscheme.SetSlot([]byte(set)) {
			name = n
		}
	}
	_, err := p.store.CreateFilter(bg, []byte(name), smallFilter())
	must(t, err, "create")
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "compact")
	p.all(t, set, keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
	p.all(t, set, keyscheme.OpRemove, elementNames(0, 30), bigset.Sync)
	publish(t, p)
	must(t, p.store.DropFilter(bg, []byte(name)), "drop")
	p.store.FiltersCut()
	must(t, p.store.FlushTables(), "flush")
	if p.store.Filtered() == 0 {
		t.Error("nothing was filtered")
	}
	must(t, p.store.CompactTables(bg), "compact")
	p.verify(t)
	p.close(t)
}

// TestFilterFlushEnds: a flush ends while others mark as fast as they can.
func TestFilterFlushEnds(t *testing.T) {
	p := newPair("store")
	p.open(t)
	f, err := p.store.CreateFilter(bg, []byte("f"), smallFilter())
	must(t, err, "create")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.Mark(bg, fmt.Appendf(nil, "k%d", i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 20 {
		must(t, f.Flush(bg), "flush")
	}
	close(stop)
	<-done
	p.close(t)
}

// TestFilterDroppedBesideChecks: a check that a drop overtakes fails, and denies nothing.
func TestFilterDroppedBesideChecks(t *testing.T) {
	p := newPair("store")
	p.open(t)
	o := smallFilter()
	o.InMemory = true // its bits are nowhere else
	keys := taggedKeys("k", 0, 5000)
	for range 20 {
		f, err := p.store.CreateFilter(bg, []byte("f"), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
		dropped := make(chan error)
		go func() { dropped <- p.store.DropFilter(bg, []byte("f")) }()
		for err = nil; err == nil; {
			present := make([]bool, len(keys))
			err = f.CheckAll(keys, present)
			if err == nil && slices.Contains(present, false) {
				t.Fatal("a key is denied")
			}
		}
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatal(err)
		}
		must(t, <-dropped, "drop")
	}
	p.close(t)
}

// TestFilterDroppedWithinCheck: so does one that looks at many keys, whose first has a page that is not in memory yet.
func TestFilterDroppedWithinCheck(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	o := smallFilter()
	o.InMemory, o.Capacity = true, 20_000_000
	keys := taggedKeys("k", 0, 64)
	for round := range 20 {
		f, err := p.store.CreateFilter(bg, []byte("f"), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, keys[1:], make([]bool, 63)), "mark")
		dropped := make(chan error)
		go func() { dropped <- p.store.DropFilter(bg, []byte("f")) }()
		for i := 0; err == nil; i++ {
			keys[0] = fmt.Appendf(nil, "absent %d %d", round, i)
			present := make([]bool, len(keys))
			err = f.CheckAll(keys, present)
			if err == nil && slices.Contains(present[1:], false) {
				t.Fatal("a key is denied")
			}
		}
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatal(err)
		}
		must(t, <-dropped, "drop")
	}
	p.close(t)
}

// TestFilterMarkedWithinClose marks a key while a close stores what was marked before: it is not let go with the rest.
func TestFilterMarkedWithinClose(t *testing.T) {
	p := newPair("store")
	p.open(t)
	o := smallFilter()
	o.Capacity = 500_000 // its pages go in as a table
	f, err := p.store.CreateFilter(bg, []byte("f"), o)
	must(t, err, "create")
	must(t, f.MarkAll(bg, taggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
	var once sync.Once
	marked := false
	p.disk.SetHook("mark", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(path.Base(op.Path), "span-") {
			once.Do(func() { marked, err = f.Mark(bg, []byte("late")) })
		}
		return nil
	})
	closed, closeErr := f.Close(bg)
	must(t, errors.Join(err, closeErr), "close")
	if !closed || !marked {
		t.Errorf("closed %v, marked %v", closed, marked)
	}
	p.disk.SetHook("mark", nil)
	if has, err := f.Check([]byte("late")); !has || err != nil {
		t.Errorf("it has the key: %v, %v", has, err)
	}
	p.close(t)
}
