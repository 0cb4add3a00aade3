package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// TestRetryAfterRefill: requests that are known only to members which have lost their disks since and were filled again, are answered as they were the
// first time, through every member: what is kept of requests comes with the copy of their sets.
func TestRetryAfterRefill(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	ctx := context.Background()
	write := func(i int, of coord.Write) coord.Result {
		t.Helper()
		r, err := w.procs[i].member.Coordinator().Write(ctx, of)
		must(t, err)
		return r
	}
	requests := map[string]coord.Write{}
	first := map[string]coord.Result{}
	for i := range 12 {
		id := fmt.Sprint("id ", i)
		requests[id] = coord.Write{Set: fmt.Append(nil, "set", i%4), Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, "e", i)}}, Request: []byte(id)}
		first[id] = write(i%3, requests[id])
	}
	removed := requests["id 5"]
	removed.Ops = []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("e5")}}
	removed.Request = nil
	until(t, "node 0 has what it removes", func() bool { // the add went to W members, and to the third a little later
		has, err := w.procs[0].store.Contains(ctx, removed.Set, []byte("e5"))
		must(t, err)
		return has
	})
	write(0, removed) // which a second event of the request would bring back
	for _, i := range []int{2, 0} {
		w.procs[i].stop()
		w.disks[i], w.files[i] = newDisk(fmt.Sprintf("%c2", 'a'+i)), testkit.NewDisk()
		time.Sleep(cloneTime)
		w.start(i)
		until(t, "a member that lost its disk", w.whole)
		for id, of := range requests {
			if known, err := w.procs[i].store.Replica().KnowsRequest(ctx, of.Set, []byte(id)); !known || err != nil {
				t.Errorf("node %d does not know request %q: %v", i, id, err)
			}
		}
	}
	w.procs[1].stop() // the last one that has known them from the start
	for _, i := range []int{0, 2} {
		for id, of := range requests {
			of.Retry = true
			if r := write(i, of); len(r.Dots) != 1 || r.Dots[0] != first[id].Dots[0] {
				t.Errorf("node %d: request %q has the dots %v, the first time %v", i, id, r.Dots, first[id].Dots)
			}
		}
		if got := fmt.Sprint(w.procs[i].read(t, "set1")); got != "[e1 e9]" {
			t.Errorf("node %d: %s", i, got)
		}
	}
}

// lines is a log that is written and read at the same time.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestRefillGoesOn: a member that lost its disk, and that one of the others did not answer for a moment, copies from it again: it learns what only that
// one keeps of a request, and reports no loss.
func TestRefillGoesOn(t *testing.T) {
	t.Parallel()
	testRefillGoesOn(t, 0)
}

// TestRefillTogether is TestRefillGoesOn with a bound, with which two halves of a range are copied at once.
func TestRefillTogether(t *testing.T) {
	t.Parallel()
	testRefillGoesOn(t, 1<<30)
}

func testRefillGoesOn(t *testing.T, rate int64) {
	ctx, set := context.Background(), []byte("s")
	for _, failure := range []error{fmt.Errorf("%w: for now", peer.ErrUnavailable), fmt.Errorf("%w: for now", peer.ErrNotMine)} {
		var fails atomic.Int32
		log := &lines{}
		w := newTrio(t, 3)
		w.log, w.rate = slog.New(slog.NewTextHandler(log, nil)), rate
		w.around = func(h wire.Handler) wire.Handler {
			return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
				if r.Verb == remote.VerbRequests && r.From.Name == "c" && fails.Add(-1) >= 0 {
					return nil, failure
				}
				return h(ctx, r, send)
			}
		}
		w.birth()
		for i, id := range []string{"of a", "of b"} { // each is known to one member alone
			_, err := w.procs[i].store.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(id)}}, bigset.WriteOptions{Request: []byte(id)})
			must(t, err)
		}
		w.procs[2].stop()
		w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
		time.Sleep(cloneTime)
		fails.Store(1)
		w.start(2)
		until(t, "a member that lost its disk", w.whole)
		for _, id := range []string{"of a", "of b"} {
			if known, err := w.procs[2].store.Replica().KnowsRequest(ctx, set, []byte(id)); !known || err != nil {
				t.Errorf("%v: request %q is known: %v, %v", failure, id, known, err)
			}
		}
		if said := log.text(); strings.Contains(said, "may have lost") || fails.Load() >= 0 {
			t.Errorf("%v, %d: the log says\n%s", failure, fails.Load(), said)
		}
	}
}
