package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/keyscheme"
)

// listed counts the sets of a range by listing them.
func (p *pair) listed(t rapid.TB, first, last keyscheme.Slot) (n bigset.SetCount) {
	t.Helper()
	for set, err := range p.store.Sets(bg, bigset.SetsOptions{}) {
		must(t, err, "list")
		if slot := keyscheme.SetSlot(set.Name); slot < first || slot > last {
			continue
		}
		n.Sets++
		if p.opt.CountApart != nil && p.opt.CountApart(set.Name) {
			n.Apart++
		}
	}
	return n
}

// checkCount compares the kept count with the list.
func (p *pair) checkCount(t rapid.TB) {
	t.Helper()
	got, err := p.store.CountSets(bg, 0, keyscheme.SlotMax)
	must(t, err, "count sets")
	if want := p.listed(t, 0, keyscheme.SlotMax); got != want {
		t.Fatalf("%s: %+v are counted, and %+v listed", p.label, got, want)
	}
}

// TestCountSets: the count follows adds, removes, drops of sets and of ranges, and an open, in the whole and in parts of it.
func TestCountSets(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.CountApart = func(name []byte) bool { return name[len(name)-1]%2 == 0 }
	p.open(t)
	names := slotsOf(40)
	middle := keyscheme.SetSlot([]byte(names[20]))
	check := func() {
		t.Helper()
		p.checkCount(t)
		for _, r := range [][2]keyscheme.Slot{{0, middle}, {middle, keyscheme.SlotMax}, {0, 1<<31 - 1}, {1 << 31, keyscheme.SlotMax}} {
			got, err := p.store.CountSets(bg, r[0], r[1])
			must(t, err, "count")
			if want := p.listed(t, r[0], r[1]); got != want {
				t.Fatalf("of %08x to %08x, %+v are counted, and %+v listed", r[0], r[1], got, want)
			}
		}
	}
	check()
	for _, name := range names[:30] {
		p.all(t, name, keyscheme.OpAdd, elementNames(0, 2), bigset.NoSync)
	}
	check()
	for _, name := range names[:10] { // one stays, the others lose their last
		p.all(t, name, keyscheme.OpRemove, elementNames(0, 1), bigset.NoSync)
	}
	check()
	for _, name := range names[:5] {
		p.all(t, name, keyscheme.OpRemove, elementNames(1, 2), bigset.NoSync)
	}
	p.drop(t, names[25], nil, bigset.NoSync)
	check()
	p.dropRange(t, middle, keyscheme.SlotMax)
	check()
	p.all(t, names[22], keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
	check()
	p.dropRange(t, 0, 1<<30-1)
	check()
	many := slotsOf(2000)
	for i, name := range many[1:] { // a range that ends within a part of the slots, between two sets
		a, b := keyscheme.SetSlot([]byte(many[i])), keyscheme.SetSlot([]byte(name))
		if a>>20 != b>>20 {
			continue
		}
		p.all(t, many[i], keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
		p.all(t, name, keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
		check()
		p.dropRange(t, a, b-1)
		check()
		p.all(t, many[i], keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
		check()
		p.dropRange(t, b, b|(1<<20-1)) // and one that begins within a part
		check()
		break
	}
	p.close(t)
	p.open(t)
	p.all(t, names[35], keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
	check()
	if _, err := p.store.CountSets(bg, 2, 1); !errors.Is(err, bigset.ErrRequest) {
		t.Error(err)
	}
	p.close(t)
}

// TestCountSetsBesideWriters: a first count beside writers misses nothing, and counts nothing twice.
func TestCountSetsBesideWriters(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	names := slotsOf(400)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := w; i < len(names); i += 4 {
				set := []byte(names[i])
				_, err := p.store.Write(bg, set, []bigset.Op{addOp("a")}, bigset.WriteOptions{Durability: bigset.NoSync})
				if err == nil && i%3 == 0 {
					_, err = p.store.Write(bg, set, []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("a")}}, bigset.WriteOptions{Durability: bigset.NoSync})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for part := range uint64(64) {
		if _, err := p.store.CountSets(bg, keyscheme.Slot(part<<26), keyscheme.Slot((part+1)<<26-1)); err != nil {
			t.Error(err)
		}
	}
	writers.Wait()
	p.checkCount(t)
	p.close(t)
}

// TestCountSetsWaits: a first count begins when nobody is between the commit of a batch and the change of the count.
func TestCountSetsWaits(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "set", keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
	leave := p.store.InsideGate()
	done := make(chan error, 1)
	go func() {
		_, err := p.store.CountSets(bg, 0, keyscheme.SlotMax)
		done <- err
	}()
	select {
	case <-done:
		t.Fatal("it did not wait for a writer")
	case <-time.After(20 * time.Millisecond):
	}
	leave()
	must(t, <-done, "count")
	leave = p.store.InsideGate() // the second one reads nothing
	p.checkCount(t)
	leave()
	p.close(t)
}

// TestCountSetsGoesOn: a count that is cut goes on where it was, what is dropped during a count is not counted, and others wait for the
// one that counts.
func TestCountSetsGoesOn(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	var read atomic.Int64 // sets since it was set to 0
	during := func(int64) {}
	p.opt.CountApart = func([]byte) bool {
		during(read.Add(1))
		return true
	}
	p.open(t)
	names := slotsOf(40)
	for _, name := range names {
		p.all(t, name, keyscheme.OpAdd, elementNames(0, 1), bigset.NoSync)
	}
	first := func(at int64, f func()) {
		read.Store(0)
		during = func(n int64) {
			if n == at {
				f()
			}
		}
	}
	ctx, cancel := context.WithCancel(bg)
	first(20, cancel)
	if _, err := p.store.CountSets(ctx, 0, keyscheme.SlotMax); !errors.Is(err, context.Canceled) {
		t.Errorf("a count that is cut: %v", err)
	}
	for _, i := range []int{0, 30} {
		p.all(t, names[i], keyscheme.OpRemove, elementNames(0, 1), bigset.NoSync)
	}
	read.Store(0)
	n, err := p.store.CountSets(bg, 0, keyscheme.SlotMax)
	if err != nil || n.Sets != 38 || n.Apart != 38 || read.Load() > 25 {
		t.Errorf("%+v are counted after a cut, %d of them once more, %v", n, read.Load(), err)
	}

	slot := func(i int) keyscheme.Slot { return keyscheme.SetSlot([]byte(names[i])) }
	for i, r := range [][2]keyscheme.Slot{{slot(5) >> 20 << 20, slot(8) | (1<<20 - 1)}, {slot(15), slot(18)}} { // whole parts, and not
		p.close(t)
		p.open(t)
		first(int64(3+8*i), func() { p.dropRange(t, r[0], r[1]) })
		p.checkCount(t)
		p.checkCount(t)
	}

	p.close(t)
	p.open(t)
	second := make(chan error, 1)
	first(1, func() {
		ctx, cancel := context.WithTimeout(bg, 5*time.Millisecond)
		defer cancel()
		if _, err := p.store.CountSets(ctx, 0, keyscheme.SlotMax); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beside another count: %v", err)
		}
		go func() {
			_, err := p.store.CountSets(bg, 0, keyscheme.SlotMax)
			second <- err
		}()
	})
	n, err = p.store.CountSets(bg, 0, keyscheme.SlotMax)
	must(t, err, "count")
	must(t, <-second, "count after another")
	if read.Load() != int64(n.Sets) || n.Sets == 0 {
		t.Errorf("two counts of %d sets have read %d", n.Sets, read.Load())
	}
	p.close(t)
}
