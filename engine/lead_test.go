package engine_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
	"bigset/keyscheme"
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

// TestRefusedBesideFailure: the sync of a group fails, and one of its requests was refused before. That request keeps its own error, which
// says that nothing of it was done.
func TestRefusedBesideFailure(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.Sync)
	p.disk.SetHook("sync", func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log") {
			return &os.PathError{Op: "sync", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	})
	added, dropped, held, queued := make(chan error, 1), make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() {
		held <- p.store.HoldingWriters([]byte("s"), func() error {
			go func() {
				_, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte("b")}, bigset.WriteOptions{})
				added <- err
			}()
			go func() {
				seen := clock.Of(clock.Dot{Actor: p.store.Replica().Actor(), Counter: 100})
				_, err := p.store.Drop(bg, []byte("s"), bigset.DropOptions{Seen: seen})
				dropped <- err
			}()
			<-queued
			return nil
		})
	}()
	for n := 0; n < 2; time.Sleep(time.Millisecond) {
		var err error
		n, err = p.store.Queued([]byte("s"))
		must(t, err, "look at the queue")
	}
	close(queued)
	must(t, <-held, "hold")
	if err := <-added; !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("the add has the error %v", err)
	}
	if err := <-dropped; !errors.Is(err, bigset.ErrContext) || errors.Is(err, bigset.ErrFailed) {
		t.Errorf("the refused drop has the error %v", err)
	}
	_ = p.store.Close() // it has failed
}
