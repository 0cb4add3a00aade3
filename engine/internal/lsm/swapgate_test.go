package lsm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/keyscheme"
)

// TestReadInSwap: a reader opens its iterator in the middle of a swap, when the old tables of the span are gone and no new ones are
// visible. It shows the set as it was before the swap. Other sets are not affected, and a later reader shows what the swap has left.
func TestReadInSwap(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	defer r.close(t)
	r.add(t, "s", 0, 30, true)
	r.add(t, "other", 0, 20, true)
	r.flush(t)
	r.add(t, "s", 30, 40, true)
	must(t, r.db.SyncLog(), "sync")
	keys := func(set string, open func(keyscheme.Prefix, *pebble.IterOptions) (*pebble.Iterator, error)) (n int) {
		prefix := keyscheme.NewPrefix([]byte(set))
		all := prefix.Elements()
		it, err := open(prefix, &pebble.IterOptions{LowerBound: all.Lower, UpperBound: all.Upper})
		must(t, err, "open an iterator")
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		must(t, it.Error(), "iterate")
		must(t, it.Close(), "close an iterator")
		return n
	}
	span := keyscheme.NewPrefix([]byte("s")).All()
	must(t, r.db.swaps.swapping(r.db.pebble, span, func() error {
		if err := r.db.Excise(bg, span); err != nil {
			return err
		}
		direct := func(_ keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) { return r.db.NewIter(o) }
		if n := keys("s", direct); n != 0 {
			t.Errorf("the span has %d keys in the middle of the swap: readers need no gate", n)
		}
		if n := keys("s", r.db.OpenSet); n != 40 {
			t.Errorf("a reader in the middle of the swap shows %d keys, want 40", n)
		}
		if n := keys("other", r.db.OpenSet); n != 20 {
			t.Errorf("a reader of another set shows %d keys, want 20", n)
		}
		return nil
	}), "swap")
	if n := keys("s", r.db.OpenSet); n != 0 {
		t.Errorf("after the swap a reader shows %d keys, want 0", n)
	}
}

// TestSwapOutlivesContext: the context of a swap ends while another goroutine reads the block at which a table is to be cut. The rest of the table stays.
func TestSwapOutlivesContext(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.opt.BlockCacheBytes = -2 * int64(r.opt.MemTableBytes) // caches nothing
	r.opt.Tune = func(po *pebble.Options) {                 // one table of many blocks
		for i := range po.Levels {
			po.Levels[i].BlockSize = 512
		}
		po.DisableAutomaticCompactions = true
		po.DisableTableStats = true // which would read the table at any time
	}
	r.open(t)
	defer r.close(t)
	const n, from, to = 300, 100, 200
	r.add(t, "s", 0, n, true)
	r.flush(t)
	set := keyscheme.NewPrefix([]byte("s"))
	span := set.Range(keyscheme.Before([]byte("n100")), keyscheme.Before([]byte("n200")))
	var reads, last, hold atomic.Int64 // hold is the offset of the block whose next read is held
	began, goOn := make(chan struct{}), make(chan struct{})
	r.disk.SetHook("reads", func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileReadAt || !strings.HasSuffix(op.Path, tableSuffix) {
			return nil
		}
		reads.Add(1)
		last.Store(op.Offset)
		if op.Offset > 0 && hold.CompareAndSwap(op.Offset, 0) {
			close(began)
			<-goOn
		}
		return nil
	})
	seek := func() error {
		it, err := r.db.NewIter(nil)
		if err != nil {
			return err
		}
		it.SeekGE(span.Upper)
		return errors.Join(it.Error(), it.Close())
	}
	must(t, seek(), "seek")
	cut := last.Load()
	must(t, r.db.exciseChecked(span, false, func() error { return nil }), "check")
	reads.Store(0)
	must(t, r.db.exciseChecked(span, false, func() error { return nil }), "check")
	checked := reads.Swap(0)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	done, sought := make(chan error, 1), make(chan error, 1)
	r.db.swaps.one.Lock()
	go func() { done <- r.db.Swap(ctx, span, nil, false) }()
	for reads.Load() < checked { // then it waits for the lock
		time.Sleep(time.Millisecond)
	}
	hold.Store(cut)
	go func() { sought <- seek() }()
	<-began
	r.db.swaps.one.Unlock()
	var err error
	select {
	case err = <-done:
		close(goOn)
	case <-time.After(100 * time.Millisecond): // it waits for the block
		close(goOn)
		err = <-done
	}
	must(t, <-sought, "seek")
	r.disk.SetHook("reads", nil)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("swap: %v", err)
	}
	left := 0
	for key := range r.stored(t) {
		if k, err := keyscheme.Decode([]byte(key)); err == nil && k.Kind == keyscheme.KindElement {
			left++
		}
	}
	if want := n - (to - from); left != want && (err == nil || left != n) {
		t.Errorf("%d elements are left, want %d: %v", left, want, err)
	}
}
