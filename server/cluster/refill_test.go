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
	"bigset/engine"
	"bigset/internal/ring"
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

// TestLacksAlone: a member that may have lost what it has acknowledged, where an acknowledgement needs no other member, takes what the others have, if there
// are any, and counts again.
func TestLacksAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members int
		s       ring.Settings
	}{{1, ring.Settings{}}, {3, ring.Settings{N: 1}}, {2, ring.Settings{N: 2, W: 1}}, {3, ring.Settings{N: 3, W: 1}}} {
		log := &lines{}
		w := newTrio(t, tt.members)
		w.settings, w.log = tt.s, slog.New(slog.NewTextHandler(log, nil))
		w.birth()
		for i := range 12 {
			must(t, w.procs[i%tt.members].add(t, fmt.Sprint("set", i%4), fmt.Sprintf("e%02d", i)))
		}
		w.procs[0].stop()
		w.disks[0].sets, w.disks[0].filters = true, true
		w.start(0)
		until(t, fmt.Sprintf("a member of %+v that may lack something", tt), w.whole)
		for _, p := range w.procs {
			for i := range 4 {
				if got, want := fmt.Sprint(p.read(t, fmt.Sprint("set", i))), fmt.Sprintf("[e%02d e%02d e%02d]", i, i+4, i+8); got != want {
					t.Errorf("%+v: node %d reads %s, want %s", tt, p.i, got, want)
				}
			}
		}
		if sets, filters := w.disks[0].MayLack(); sets || filters {
			t.Errorf("%+v: it still may lack sets %v, filters %v", tt, sets, filters)
		}
		if said := log.text(); !strings.Contains(said, "what was acknowledged last may be missing") {
			t.Errorf("%+v: the log says\n%s", tt, said)
		}
	}
}

// TestNewDiskAlone: a member with a new disk, where an acknowledgement needs no other member, waits for a person. A restore accepts the loss.
func TestNewDiskAlone(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 1)
	w.birth()
	must(t, w.procs[0].add(t, "s", "e"))
	w.procs[0].stop()
	w.disks[0] = w.disks[0].clone("a copy")
	status := w.start(0).member.Status
	until(t, "a sentence that says what to do", func() bool {
		return strings.Contains(status().Waits, ": a joined with new ones") && strings.Contains(status().Waits, "bigset cluster restore")
	})
	if status().Sets {
		t.Error("it answers reads")
	}
	w.procs[0].stop()
	w.disks[0].sets = true // it has taken a write, and lost it in a crash: what the old disk had is lost still
	status = w.start(0).member.Status
	until(t, "the same sentence under the next epoch", func() bool {
		return status().Epoch == 3 && strings.Contains(status().Waits, ": a joined with new ones")
	})
	if status().Sets {
		t.Error("it answers reads after a crash")
	}
	w.procs[0].stop()
	_, err := PrepareRestore(context.Background(), w.disks[0])
	must(t, err)
	w.start(0)
	until(t, "a restored member", w.whole)
	if got := fmt.Sprint(w.procs[0].read(t, "s")); got != "[e]" {
		t.Errorf("it reads %s", got)
	}
}

// TestOriginLacks: the member that holds the data at the birth of a cluster may have lost some of it in a crash, before the birth or since. What all have
// together is the data of the cluster: the others may have what was acknowledged since the birth.
func TestOriginLacks(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 3, 5} { // of five, three own a range
		ctx, sets := context.Background(), 12
		w := newTrio(t, members)
		w.around = func(h wire.Handler) wire.Handler { // the others look more often than the one with the data, whose filters they must wait for
			return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
				if r.Verb == verbState && r.From.Name == "a" {
					time.Sleep(150 * time.Millisecond)
				}
				return h(ctx, r, send)
			}
		}
		keys := keysOf("k%d", 100)
		for n := range members {
			s, err := engine.Open("db", &engine.Options{FS: w.files[n], BackgroundInterval: -1})
			must(t, err)
			for i := range sets {
				element := "lost"
				if n == 0 {
					element = "kept"
				}
				_, err := s.Write(ctx, fmt.Append(nil, "set", i), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(element)}}, bigset.WriteOptions{})
				must(t, err)
			}
			if n == 0 {
				f, err := s.Filters().Create(ctx, []byte("mine"), bigset.FilterOptions{})
				must(t, err)
				must(t, f.MarkAll(ctx, keys, make([]bool, len(keys))))
			}
			must(t, s.Close())
		}
		w.disks[0].data, w.disks[0].sets, w.disks[0].filters = true, true, true
		w.birth()
		want := "[kept lost]"
		if members == 1 {
			want = "[kept]"
		}
		for i := range sets {
			name := fmt.Sprint("set", i)
			for _, p := range w.procs {
				if got := fmt.Sprint(p.read(t, name)); got != want {
					t.Errorf("of %d members, node %d reads %s of %s, want %s", members, p.i, got, name, want)
				}
			}
			if has, err := w.procs[0].store.Contains(ctx, []byte(name), []byte("lost")); err != nil || has != (members > 1) {
				t.Errorf("of %d members, the one that answered reads alone had in %s what the others had: %t, %v", members, name, has, err)
			}
		}
		for _, p := range w.procs {
			if n := p.has(t, "mine", keys); n != len(keys) {
				t.Errorf("of %d members, node %d has %d of %d keys", members, p.i, n, len(keys))
			}
		}
	}
}
