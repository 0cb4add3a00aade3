package lsm

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"

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
