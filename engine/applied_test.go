package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
)

// heldLog is a disk whose syncs of logs wait until it is let go, and then end with an error, if there is one.
type heldLog struct {
	*testkit.Disk
	waits chan struct{} // closed by let
	err   error
}

func holdLog(d *testkit.Disk) *heldLog {
	h := &heldLog{Disk: d, waits: make(chan struct{})}
	d.SetHook("held", func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			<-h.waits
			return h.err
		}
		return nil
	})
	return h
}

func (h *heldLog) let(err error) {
	h.err = err
	close(h.waits)
}

// TestApplied: Applied comes while the sync is under way, with what Write returns later. A power cut in between takes the operation back here, and its dot
// is never issued again, though another replica has it.
func TestApplied(t *testing.T) {
	for name, cause := range map[string]error{"synced": nil, "failed": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			p, other := newPair("a"), newPair("b")
			p.open(t)
			other.open(t)
			_, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte("first")}, bigset.WriteOptions{})
			must(t, err, "first add")
			log := holdLog(p.disk)
			applied, done := make(chan bigset.Result, 1), make(chan error, 1)
			var got bigset.Result
			go func() {
				var err error
				got, err = p.store.Add(bg, []byte("s"), [][]byte{[]byte("x")}, bigset.WriteOptions{Applied: func(r bigset.Result, _ *bigset.Group) { applied <- r }})
				done <- err
			}()
			early := <-applied
			select {
			case err := <-done:
				t.Fatalf("returned before its sync: %v", err)
			default:
			}
			must(t, other.store.Replica().ApplyDelta(bg, early.Delta, bigset.ApplyOptions{Durability: bigset.Sync}), "apply")
			after := &pair{label: "a after a power cut", disk: p.disk.CrashClone(0, 1), model: p.model, opt: p.opt}
			log.let(cause)
			if err := <-done; (err == nil) != (cause == nil) || cause != nil && !errors.Is(err, bigset.ErrFailed) {
				t.Fatalf("write: %v", err)
			}
			if cause == nil && (len(got.Dots) != 1 || got.Dots[0] != early.Dots[0]) {
				t.Errorf("applied %v, returned %v", early.Dots, got.Dots)
			}

			after.open(t)
			if found := after.state(t, "s").Elements(); len(found) != 1 {
				t.Errorf("after the power cut there are %v", found)
			}
			again, err := after.store.Add(bg, []byte("s"), [][]byte{[]byte("y")}, bigset.WriteOptions{})
			must(t, err, "add after the power cut")
			if again.Dots[0] == early.Dots[0] {
				t.Errorf("dot %v is issued again", again.Dots[0])
			}
			must(t, after.store.Replica().ApplyDelta(bg, early.Delta, bigset.ApplyOptions{Durability: bigset.Sync}), "what the other has")
			must(t, other.store.Replica().ApplyDelta(bg, again.Delta, bigset.ApplyOptions{Durability: bigset.Sync}), "what came later")
			if found := after.state(t, "s").Elements(); len(found) != 3 {
				t.Errorf("in the end there are %v", found)
			}
			for _, s := range []*engine.Store{after.store, other.store} {
				must(t, s.Close(), "close")
			}
			if err := p.store.Close(); (err == nil) != (cause == nil) {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// TestAppliedOfAGroup: each of many writers who share batches and syncs receives its own result, once.
func TestAppliedOfAGroup(t *testing.T) {
	p := newPair("store")
	p.opt.MemTableBytes = 4 << 20
	p.open(t)
	const writers, each = 32, 20
	var wg sync.WaitGroup
	for id := range writers {
		wg.Go(func() {
			for i := range each {
				var told []bigset.Result
				element := fmt.Appendf(nil, "e%02d-%03d", id, i)
				r, err := p.store.Add(bg, []byte("s"), [][]byte{element}, bigset.WriteOptions{Applied: func(r bigset.Result, _ *bigset.Group) { told = append(told, r) }})
				if err != nil || len(told) != 1 || told[0].Dots[0] != r.Dots[0] || string(told[0].Delta.Items[0].Element) != string(element) {
					t.Errorf("%v: told %+v, returned %+v", err, told, r)
					return
				}
			}
		})
	}
	wg.Wait()
	must(t, p.store.Close(), "close")
}

// TestNotApplied: where Write waits for no sync, does nothing, or is refused, Applied does not come.
func TestNotApplied(t *testing.T) {
	p := newPair("store")
	p.open(t)
	never := func(r bigset.Result, _ *bigset.Group) { t.Errorf("applied %+v", r) }
	x := [][]byte{[]byte("x")}
	_, err := p.store.Add(bg, []byte("s"), x, bigset.WriteOptions{Durability: bigset.NoSync, Applied: never})
	must(t, err, "add without a sync")
	_, err = p.store.Remove(bg, []byte("s"), [][]byte{[]byte("absent")}, bigset.WriteOptions{Applied: never})
	must(t, err, "remove of nothing")
	if _, err = p.store.Add(bg, []byte("s"), x, bigset.WriteOptions{Policy: bigset.PolicyRequired, Applied: never}); !errors.Is(err, bigset.ErrContextRequired) {
		t.Errorf("%v", err)
	}
	must(t, p.store.Close(), "close")
}
