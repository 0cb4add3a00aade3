package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
)

const (
	slowSync = 400 * time.Microsecond
	pause    = 100 * time.Microsecond // of a writer from an answer to its next request
)

// slowWriters has writers add to one set, each after a pause, on a disk whose syncs take a while. It returns how many syncs they took, and how long all took.
func slowWriters(t *testing.T, writers, each int) (syncs uint64, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair("store")
		p.opt.MemTableBytes = 4 << 20
		p.opt.Tune(nil)
		p.open(t)
		p.disk.SetHook("slow", func(op errorfs.Op) error {
			if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
				time.Sleep(slowSync)
			}
			return nil
		})
		add := func(id, i int) {
			if _, err := p.store.Add(bg, []byte("s"), [][]byte{fmt.Appendf(nil, "e%02d-%03d", id, i)}, bigset.WriteOptions{}); err != nil {
				t.Errorf("add: %v", err)
			}
		}
		for i := range 40 { // the store has learned how long a sync takes
			add(writers, i)
		}
		count := func() uint64 {
			stats, err := p.store.Stats()
			must(t, err, "stats")
			return stats.Sync.Count
		}
		before, began := count(), time.Now()
		var wg sync.WaitGroup
		for id := range writers {
			wg.Go(func() {
				for i := range each {
					time.Sleep(pause)
					add(id, i)
				}
			})
		}
		wg.Wait()
		syncs, took = count()-before, time.Since(began)
		p.verify(t)
		must(t, p.store.Close(), "close")
	})
	return syncs, took
}

// TestGather: a leader waits for those who were answered just before, so that a crowd shares its syncs; one writer alone waits for nobody.
func TestGather(t *testing.T) {
	const each = 50
	if syncs, took := slowWriters(t, 1, each); syncs != each || took != each*(pause+slowSync) {
		t.Errorf("one writer: %d syncs in %v, want %d in %v", syncs, took, each, each*(pause+slowSync))
	}
	if syncs, took := slowWriters(t, 16, each); syncs > each*3/2 {
		t.Errorf("16 writers: %d syncs in %v, want at most %d", syncs, took, each*3/2)
	}
	if syncs, took := slowWriters(t, 2, each); took > 2*each*(pause+slowSync) {
		t.Errorf("two writers: %d syncs in %v", syncs, took)
	}
}
