package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"bigset"
	"bigset/internal/testkit"
)

// TestGroupCommit has 64 writers of one set, synced: each dot is issued once and none is left out.
func TestGroupCommit(t *testing.T) {
	p := newPair("store")
	p.opt.BackgroundInterval = 0
	p.opt.Tune(nil)
	p.opt.MemTableBytes = 4 << 20
	p.open(t)
	h := &testkit.History{}
	const writers, each = 64, 50
	var wg sync.WaitGroup
	for id := range writers {
		wg.Go(func() {
			for i := range each {
				op := h.Begin("s")
				res, err := p.store.Add(bg, []byte("s"), [][]byte{fmt.Appendf(nil, "e%02d-%03d", id, i)}, bigset.WriteOptions{})
				if err != nil {
					t.Errorf("add: %v", err)
					return
				}
				h.End(op, res.Delta, true)
			}
		})
	}
	wg.Wait()
	must(t, h.CheckUnique(), "dots")
	seen, err := p.store.Seen(bg, []byte("s"))
	must(t, err, "context")
	if n := seen.Base(p.store.Replica().Actor()); n != writers*each || seen.Len() != n {
		t.Errorf("Seen %v, want 1 to %d of one actor", seen, writers*each)
	}
	if err := h.Survived(h.Now(), h.Now(), map[string]*testkit.Set{"s": p.state(t, "s")}); err != nil {
		t.Error(err)
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}
