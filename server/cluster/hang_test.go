package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// stuck lets its first caller wait until it is released, and every other one pass.
type stuck struct {
	once    sync.Once
	held    chan struct{} // closed when a caller waits
	release chan struct{}
}

func newStuck() *stuck { return &stuck{held: make(chan struct{}), release: make(chan struct{})} }

func (s *stuck) wait() {
	s.once.Do(func() {
		close(s.held)
		<-s.release
	})
}

// soon wants f to return although something hangs.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits for what hangs", what)
	}
}

// TestMemberHangs: a member whose disk hangs while it saves a record, or that waits for the writes of the former epoch, still says what it is, and
// is what it was before. What would change something else fails when its time has passed.
func TestMemberHangs(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"a save", "the end of the former view"} {
		w, s := newNet(t, 3), newStuck()
		w.startAll()
		if waits := w.rounds(4); waits != "" {
			t.Fatal(waits)
		}
		w.stop(1)
		if what == "a save" {
			w.disks[1].hangs = s.wait
		}
		b, err := w.start(1, func(c *MembershipConfig) {
			changed := c.Changed
			c.Changed = func(v View) {
				if what != "a save" && v.Epoch() == 2 {
					s.wait()
				}
				changed(v)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if waits := w.rounds(2); waits != "" {
			t.Fatal(waits)
		}
		w.stop(2)
		w.disks[2] = newDisk("c2") // it joins under a new epoch
		w.tick(time.Minute)
		c, err := w.start(2)
		if err != nil {
			t.Fatal(err)
		}
		round := make(chan struct{})
		go func() {
			defer close(round)
			c.Round(context.Background())
		}()
		<-s.held
		soon(t, "a question", func() {
			now, err := b.State(context.Background())
			if err != nil || now.Committed == nil || now.Committed.Epoch != 1 || !now.Sets {
				t.Errorf("during %s it says %+v, %v", what, now, err)
			}
			if v := b.View(); !v.Serves || v.Epoch() != 1 {
				t.Errorf("during %s the view is %+v", what, v)
			}
			b.Waits()
			if _, err := b.other("a"); err != nil {
				t.Error(err)
			}
			if err := b.twin("a", 1, 2); err != nil {
				t.Error(err)
			}
		})
		soon(t, "a request to change something", func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := b.commit(ctx, b.View().Record.clone()); err != nil {
				t.Errorf("during %s, of the record that it has: %v", what, err)
			}
			next := b.View().Record.clone()
			next.Epoch++
			for _, err := range []error{b.forget(ctx, "a"), b.commit(ctx, next), b.agree(ctx, b.View().Record.clone())} {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("during %s: %v", what, err)
				}
			}
		})
		close(s.release)
		<-round
		if waits := w.rounds(6); waits != "" || b.View().Record.Epoch != 2 {
			t.Errorf("after %s: epoch %d, %s", what, b.View().Record.Epoch, waits)
		}
	}
}

// TestFillFromAnother: a member is filled from another one if the first one that it asks answers pings, but nothing else.
func TestFillFromAnother(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	w.settings.W, w.patience = 3, 200*time.Millisecond // every write is on all, so that one source is enough
	var armed atomic.Bool
	var hung atomic.Int32 // 1 more than the member that hangs: the first that is asked
	for i := range w.procs {
		w.around = func(h wire.Handler) wire.Handler {
			return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
				if r.From.Name == "c" && r.Verb == remote.VerbExport && armed.Load() && (hung.CompareAndSwap(0, int32(i+1)) || hung.Load() == int32(i+1)) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return h(ctx, r, send)
			}
		}
		w.start(i)
	}
	until(t, "birth", w.listed)
	must(t, w.procs[0].add(t, "s", "x", "y"))
	w.procs[2].stop()
	w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
	time.Sleep(cloneTime)
	armed.Store(true)
	p := w.start(2)
	until(t, "a member that is filled", w.whole)
	if hung.Load() == 0 {
		t.Error("nothing was copied")
	}
	if has, err := p.store.Contains(context.Background(), []byte("s"), []byte("x")); !has || err != nil {
		t.Errorf("it has x: %v, %v", has, err)
	}
}

// TestUniteGivesUp: members that all may lack something say so if one of them hangs, and go on when it answers again.
func TestUniteGivesUp(t *testing.T) {
	t.Parallel()
	log := &lines{}
	w := newTrio(t, 3)
	w.log, w.patience = slog.New(slog.NewTextHandler(log, nil)), 100*time.Millisecond
	var hangs atomic.Bool
	w.around = func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if r.Verb == remote.VerbRangeDigests && hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return h(ctx, r, send)
		}
	}
	w.birth()
	must(t, w.procs[0].add(t, "s", "x"))
	for i := range w.procs {
		w.procs[i].stop()
		w.disks[i].sets = true
	}
	hangs.Store(true)
	for i := range w.procs {
		w.start(i)
	}
	until(t, "a member that can't unite", func() bool {
		return strings.Contains(log.text(), "a can't unite with it: coord: exchange with a: nothing came within ")
	})
	hangs.Store(false)
	until(t, "members that have united", w.whole)
	if n := len(w.procs[1].read(t, "s")); n != 1 {
		t.Errorf("%d elements of 1", n)
	}
}

// stalls is a replica that answers with some parts and then nothing more.
type stalls struct {
	replica
	parts int
}

func (s *stalls) Digests(ctx context.Context, _, _ keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		for range s.parts {
			if !yield(bigset.SetDigest{}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(bigset.SetDigest{}, ctx.Err())
	}
}

func (s *stalls) Export(ctx context.Context, _, _ []byte, _ int) (*bigset.Portion, peer.Member, error) {
	<-ctx.Done()
	return nil, peer.Member{}, fmt.Errorf("lost: %v", ctx.Err())
}

func (s *stalls) RangeDigests(ctx context.Context, _, _ keyscheme.Slot, _ int) ([]bigset.RangeDigest, peer.Member, error) {
	<-ctx.Done()
	return nil, peer.Member{}, ctx.Err()
}

func (s *stalls) ApplyFacts(ctx context.Context, _ bigset.Facts, _ bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	<-ctx.Done()
	return bigset.FactsResult{}, peer.Member{}, ctx.Err()
}

func (s *stalls) DropGeneration(ctx context.Context, _ []byte, _ uint32, _ uint64) (peer.Member, error) {
	<-ctx.Done()
	return peer.Member{}, ctx.Err()
}

func (s *stalls) MergePages(ctx context.Context, _ bigset.SlicePages) (peer.Member, error) {
	<-ctx.Done()
	return peer.Member{}, ctx.Err()
}

// TestPatience: a copy gives up a source that sends nothing for a time. What the copy itself takes for a part does not count.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = time.Minute
		p := &patient{&stalls{parts: 3}, coord.Goroutines{}, most}
		began, parts := time.Now(), 0
		for _, err := range p.Digests(t.Context(), 0, 0) {
			if err == nil {
				parts++
				time.Sleep(3 * most)
				continue
			}
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || parts != 3 || took != 10*most {
				t.Errorf("after %v and %d parts: %v", took, parts, err)
			}
		}
		began = time.Now()
		if _, _, err := p.Export(t.Context(), nil, nil, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != most {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for what, ask := range map[string]func(context.Context) error{
			"facts":  func(ctx context.Context) error { _, _, err := p.ApplyFacts(ctx, bigset.Facts{}, 0); return err },
			"a drop": func(ctx context.Context) error { _, err := p.DropGeneration(ctx, nil, 0, 0); return err },
			"pages":  func(ctx context.Context) error { _, err := p.MergePages(ctx, bigset.SlicePages{}); return err },
		} {
			began = time.Now()
			if err := ask(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != most {
				t.Errorf("%s: after %v: %v", what, time.Since(began), err)
			}
		}
		began = time.Now()
		if _, _, err := p.RangeDigests(t.Context(), 0, 0, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != searchTimes*most {
			t.Errorf("digests of ranges: after %v: %v", time.Since(began), err)
		}
	})
	f := filling{slow: map[int]int{}}
	sources := []int{2, 0, 1}
	f.failed(2, errors.New("damaged"))
	f.failed(0, fmt.Errorf("nothing came: %w", context.DeadlineExceeded))
	if f.order(sources); !slices.Equal(sources, []int{2, 1, 0}) {
		t.Errorf("sources in the order %v", sources)
	}
}
