package filters_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
)

// allowed are the errors that calls beside drops and clears may get.
func allowed(err error) bool {
	return err == nil || errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, bigset.ErrFilterExists) || errors.Is(err, bigset.ErrFilterOpen)
}

// TestFiltersConcurrently uses filters from several goroutines while pages are loaded and evicted. In a filter that stays, a
// goroutine finds every key that it has marked, and each key counts as added for one of the goroutines that mark it.
func TestFiltersConcurrently(t *testing.T) {
	p := newRoom("store")
	p.opt.FilterCacheBytes = 40 << 10
	p.open(t)
	s := p.store
	stays, err := s.Filters().Create(bg, []byte("stays"), testkit.SmallFilter())
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
		beside(func(int) error { _, err := s.Filters().Create(bg, name, testkit.SmallFilter()); return err })
		beside(func(i int) error {
			if i%3 == 0 {
				return s.Filters().Clear(name)
			}
			return s.Filters().Drop(bg, name)
		})
		beside(func(i int) error {
			f, err := s.Filters().Get(name)
			if err != nil {
				return err
			}
			if err := f.MarkAll(bg, testkit.TaggedKeys("x", i, i+40), make([]bool, 40)); err != nil {
				return err
			}
			_, err = f.Check([]byte("x-1"))
			return err
		})
	}
	beside(func(int) error { _, err := stays.Close(bg); return err })
	beside(func(int) error { return s.Filters().Flush(bg) })
	beside(func(int) error { _, err := s.Filters().CloseCold(bg); return err })
	beside(func(int) error { _, err := s.Filters().List(nil); return err })
	beside(func(int) error { _, err := s.Stats(); return err })

	var added atomic.Int64
	var markers sync.WaitGroup
	const keys = 600
	for n := range 4 {
		markers.Go(func() {
			for i := 0; i < keys; i += 20 {
				for what, batch := range map[string][][]byte{"shared": testkit.TaggedKeys("shared", i, i+20), "own": testkit.TaggedKeys(fmt.Sprint("own", n), i, i+20)} {
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
	must(t, s.own.CheckRing(), "ring")
	if n := added.Load(); uint64(n) != info.Size || n > 5*keys || n < 5*keys-20 {
		t.Errorf("%d keys were added, the filter has %d", n, info.Size)
	}
	p.close(t)
	p.open(t)
	p.store.own.Excised()
	rep, err := p.store.Verify()
	if must(t, err, "verify"); !rep.OK() {
		t.Errorf("%+v", rep)
	}
	stays, err = p.store.Filters().Get([]byte("stays"))
	must(t, err, "filter")
	present := make([]bool, keys)
	must(t, stays.CheckAll(testkit.TaggedKeys("shared", 0, keys), present), "check")
	for i, yes := range present {
		if !yes {
			t.Errorf("shared-%d is denied", i)
		}
	}
	p.close(t)
}

// TestFilterFlushEnds: a flush ends while other goroutines mark keys as fast as they can.
func TestFilterFlushEnds(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
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

// TestFilterDroppedBesideChecks: a check that is overtaken by a drop fails; it does not deny keys.
func TestFilterDroppedBesideChecks(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.InMemory = true // its bits are nowhere else
	keys := testkit.TaggedKeys("k", 0, 5000)
	for range 20 {
		f, err := p.store.Filters().Create(bg, []byte("f"), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
		dropped := make(chan error)
		go func() { dropped <- p.store.Filters().Drop(bg, []byte("f")) }()
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

// TestFilterDroppedWithinCheck: the same holds for a check of many keys, of which the first has a page that is not in memory yet.
func TestFilterDroppedWithinCheck(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.InMemory, o.Capacity = true, 20_000_000
	keys := testkit.TaggedKeys("k", 0, 64)
	for round := range 20 {
		f, err := p.store.Filters().Create(bg, []byte("f"), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, keys[1:], make([]bool, 63)), "mark")
		dropped := make(chan error)
		go func() { dropped <- p.store.Filters().Drop(bg, []byte("f")) }()
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

// TestFilterMarkedWithinClose marks a key while a close stores what was marked before: that mark is not discarded with the slice's
// memory.
func TestFilterMarkedWithinClose(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.Capacity = 500_000 // its pages go in as a table
	f, err := p.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
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
