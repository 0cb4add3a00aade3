package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// inSteps is Write by Begin.
func (p *pair) inSteps(ctx context.Context, name []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, error) {
	r, wait, err := p.store.Begin(ctx, name, ops, o)
	if err == nil && wait != nil {
		err = wait()
	}
	return r, err
}

// TestBegin: during a sync others begin, and what they have added is found. They wait for the disk, and learn when it fails; the store is not closed before.
func TestBegin(t *testing.T) {
	for name, cause := range map[string]error{"synced": nil, "failed": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			p := newPair("store")
			p.open(t)
			log := holdLog(p.disk)
			x := func(i int) []bigset.Op {
				return []bigset.Op{{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, i)}}
			}
			var waits []func() error
			for i := range 3 {
				r, wait, err := p.store.Begin(bg, []byte("s"), x(i), bigset.WriteOptions{})
				must(t, err, "begin")
				if wait == nil || len(r.Dots) != 1 || r.Dots[0].Counter != uint64(i+1) {
					t.Fatalf("%+v, to be waited for: %t", r, wait != nil)
				}
				has, err := p.store.Contains(bg, []byte("s"), x(i)[0].Element)
				if must(t, err, "look"); !has {
					t.Errorf("%d is not found", i)
				}
				waits = append(waits, wait)
			}
			_, wait, err := p.store.Begin(bg, []byte("s"), x(3), bigset.WriteOptions{Durability: bigset.NoSync})
			if must(t, err, "begin without a sync"); wait != nil {
				t.Error("it is to be waited for")
			}
			closed := make(chan error, 1)
			go func() { closed <- p.store.Close() }()
			log.let(cause)
			for _, wait := range waits {
				if err := wait(); (err == nil) != (cause == nil) || cause != nil && !errors.Is(err, bigset.ErrFailed) {
					t.Errorf("wait: %v", err)
				}
			}
			if err := <-closed; (err == nil) != (cause == nil) {
				t.Errorf("close: %v", err)
			}
			if _, _, err := p.store.Begin(bg, []byte("s"), x(4), bigset.WriteOptions{}); !errors.Is(err, bigset.ErrClosed) {
				t.Errorf("begin after close: %v", err)
			}
		})
	}
}

// TestGroupCommit has 64 writers of one set, synced, half of them in two steps: each dot is issued once and none is left out.
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
				ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "e%02d-%03d", id, i)}}
				write := p.store.Write
				if id%2 == 1 {
					write = p.inSteps
				}
				res, err := write(bg, []byte("s"), ops, bigset.WriteOptions{})
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
