package alone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/follow"
)

// follower follows a set by what a backend answers.
type follower struct {
	door.Followed
	resets []string
	named  []string // what was reported as removed, by name
	dead   uint64   // dots that were reported as dead, without a name
	parts  int
}

// next asks once, and reports whether the answer ended at its limit.
func (f *follower) next(t rapid.TB, b *Backend, limit int) (more bool) {
	t.Helper()
	done := false
	for c, err := range b.Changes(context.Background(), door.Changes{Set: []byte("set"), Since: f.Since(), Limit: limit}) {
		if err != nil {
			t.Fatalf("changes: %v", err)
		}
		if done {
			t.Fatal("a part after the last")
		}
		f.parts++
		if c.Reset != "" {
			f.resets = append(f.resets, c.Reset)
		}
		for _, e := range c.Removed {
			f.named = append(f.named, string(e.Name))
		}
		f.dead += c.Dead.Len()
		f.Apply(&c, nil)
		if done = c.Done; done {
			more = c.More
		} else if len(c.Next) > 0 || c.More {
			t.Fatal("a token before the last part")
		}
	}
	if !done {
		t.Fatal("an answer without its last part")
	}
	return more
}

// catchUp asks until nothing is left.
func (f *follower) catchUp(t rapid.TB, b *Backend, limit int) {
	t.Helper()
	for n := 0; f.next(t, b, limit); n++ {
		if n > 10_000 {
			t.Fatal("the answers do not end")
		}
	}
}

// shows returns what the follower has.
func (f *follower) shows() string { return strings.Join(slices.Sorted(f.Elements()), " ") }

// reads returns what a read shows.
func reads(t rapid.TB, b *Backend) string {
	t.Helper()
	var all []string
	for p, err := range b.Read(context.Background(), door.Read{Set: []byte("set")}) {
		if errors.Is(err, bigset.ErrNotFound) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Elements {
			all = append(all, string(e.Name))
		}
	}
	return strings.Join(all, " ")
}

func (f *follower) same(t rapid.TB, b *Backend) {
	t.Helper()
	if got, want := f.shows(), reads(t, b); got != want {
		t.Fatalf("the follower has %q, and the set %q", got, want)
	}
}

// world is a store with another one that writes to the same set, and followers.
type world struct {
	disk      *testkit.Disk
	b         *Backend
	s, peer   *engine.Store
	followers []*follower
	opt       follow.Options
	dir       string // of the store
	older     []string
	copies    int
	deltas    []bigset.Delta
	met       map[string]int // resets, by why they were
}

func openOn(t rapid.TB, disk *testkit.Disk, dir string) *engine.Store {
	t.Helper()
	s, err := engine.Open(dir, &engine.Options{FS: disk, Durability: bigset.NoSync, BackgroundInterval: -1, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) begin(t rapid.TB) {
	w.s = openOn(t, w.disk, w.dir)
	w.b = New(w.s)
	w.b.kept.Options = w.opt
}

func (w *world) write(t *rapid.T) {
	var ops []bigset.Op
	for range rapid.IntRange(1, 6).Draw(t, "ops") {
		e := fmt.Appendf(nil, "e%02d", rapid.IntRange(0, 40).Draw(t, "element"))
		op := bigset.Op{Kind: rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind"), Element: e}
		if rapid.IntRange(0, 3).Draw(t, "context") == 0 {
			c, err := w.s.Look(context.Background(), []byte("set"), e)
			if err != nil {
				t.Fatal(err)
			}
			op.Context = c.Context
		}
		ops = append(ops, op)
	}
	policy := rapid.SampledFrom([]bigset.Policy{bigset.PolicyCoordinator, bigset.PolicyEmpty}).Draw(t, "policy")
	at := []*engine.Store{w.s, w.s, w.peer}[rapid.IntRange(0, 2).Draw(t, "store")]
	r, err := at.Write(context.Background(), []byte("set"), ops, bigset.WriteOptions{Policy: policy, Durability: rapid.SampledFrom([]bigset.Durability{bigset.Sync, bigset.NoSync}).Draw(t, "sync")})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Delta.Empty() {
		w.deltas = append(w.deltas, r.Delta)
	}
}

// exchange has one of the two stores learn from the other: by a delta, late or again, or by facts.
func (w *world) exchange(t *rapid.T) {
	to, from := w.s, w.peer
	if rapid.IntRange(0, 2).Draw(t, "to the peer") == 0 {
		to, from = from, to
	}
	if len(w.deltas) > 0 && rapid.Bool().Draw(t, "delta") {
		if err := to.Replica().ApplyDelta(context.Background(), w.deltas[rapid.IntRange(0, len(w.deltas)-1).Draw(t, "which")], bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil && !errors.Is(err, bigset.ErrDelta) {
			t.Fatal(err)
		}
		return
	}
	has, err := from.Replica().State(context.Background(), []byte("set"))
	if errors.Is(err, bigset.ErrNotFound) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range from.Replica().Locate(context.Background(), []byte("set"), has.Seen) {
		if err == nil {
			_, err = to.Replica().ApplyFacts(context.Background(), f, bigset.ApplyOptions{Durability: bigset.NoSync})
		}
		if err != nil && !errors.Is(err, bigset.ErrFacts) {
			t.Fatal(err)
		}
	}
}

func (w *world) drop(t *rapid.T) {
	if _, err := w.s.Drop(context.Background(), []byte("set"), bigset.DropOptions{Durability: bigset.NoSync}); err != nil && !errors.Is(err, bigset.ErrNotFound) {
		t.Fatal(err)
	}
}

func (w *world) compact(t *rapid.T) {
	if _, err := w.s.Compact(context.Background(), engine.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
}

// copy makes a copy of the store, which may take its place later.
func (w *world) copy(t *rapid.T) {
	if w.copies == 3 {
		t.Skip("enough copies")
	}
	w.copies++
	dir := fmt.Sprintf("copy%d", w.copies)
	if err := w.s.Checkpoint(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	w.older = append(w.older, dir)
}

// stop ends the store, in order, by a power cut, or because an older copy takes its place, and opens what is left.
func (w *world) stop(t *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(t, "end") {
	case 0:
		w.close(t)
	case 1:
		disk := w.disk.CrashClone(rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "survives"), rapid.Uint64().Draw(t, "seed"))
		w.close(t)
		w.disk = disk
	case 2:
		if len(w.older) == 0 {
			t.Skip("no copy")
		}
		w.close(t)
		w.dir, w.older = w.older[0], w.older[1:]
	}
	w.begin(t)
}

func (w *world) close(t *rapid.T) {
	if err := w.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// follow has a follower ask, perhaps with the token of the answer before, or have its answer break off.
func (w *world) follow(t *rapid.T) {
	f := w.followers[rapid.IntRange(0, len(w.followers)-1).Draw(t, "follower")]
	limit := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "limit")
	resets := len(f.resets)
	switch rapid.IntRange(0, 5).Draw(t, "answer") {
	case 0:
		f.breakOff(t, w.b, limit, rapid.IntRange(1, 3).Draw(t, "parts"))
	case 1: // it was lost, whole
		for _, err := range w.b.Changes(context.Background(), door.Changes{Set: []byte("set"), Since: f.Since(), Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	case 2:
		f.next(t, w.b, limit)
	default:
		f.catchUp(t, w.b, limit)
		f.same(t, w.b)
	}
	for _, r := range f.resets[resets:] {
		w.met[r]++
	}
}

// breakOff takes some parts of an answer, whose end is lost.
func (f *follower) breakOff(t rapid.TB, b *Backend, limit, parts int) {
	for c, err := range b.Changes(context.Background(), door.Changes{Set: []byte("set"), Since: f.Since(), Limit: limit}) {
		if err != nil {
			t.Fatal(err)
		}
		c.Next, c.Done, c.More = nil, false, false
		f.Apply(&c, nil)
		if parts--; parts == 0 {
			return
		}
	}
}

// TestFollowers: a follower that applies what it receives has what a read shows, after whatever has happened: adds, removes with contexts and without, two writers, deltas
// that come late or twice, drops, compactions, crashes that take what was not synced, and older copies that take the place of the store.
func TestFollowers(t *testing.T) {
	t.Parallel()
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		opt := follow.Options{
			TokenBytes: rapid.SampledFrom([]int{0, 1}).Draw(t, "token bytes"),
			BytesMax:   rapid.SampledFrom([]int64{0, 0, 2000}).Draw(t, "bytes"),
			LocateDots: rapid.SampledFrom([]uint64{0, 1}).Draw(t, "located"),
		}
		w := &world{disk: testkit.NewDisk(), dir: "db", peer: openOn(t, testkit.NewDisk(), "peer"), met: met, opt: opt, followers: []*follower{{}, {}}}
		w.begin(t)
		defer func() {
			w.s.Close()
			w.peer.Close()
		}()
		t.Repeat(map[string]func(*rapid.T){
			"write": w.write, "write more": w.write, "exchange": w.exchange, "drop": w.drop, "compact": w.compact, "copy": w.copy, "stop": w.stop,
			"follow": w.follow, "follow more": w.follow,
		})
		for _, f := range w.followers {
			f.catchUp(t, w.b, 2)
			f.same(t, w.b)
		}
	})
	t.Log(met)
}

// TestChangesNames: what was removed has a name as far as the store remembers it, and is reported as dead dots otherwise.
func TestChangesNames(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	s := openOn(t, disk, "db")
	b := New(s)
	var f follower
	write(t, b, adds("set", "a", "b", "c"))
	f.next(t, b, 0)
	write(t, b, removes("set", "a", nil))
	f.next(t, b, 0)
	if fmt.Sprint(f.named) != "[a]" || f.dead > 0 {
		t.Errorf("%q were removed, and %d dots without a name", f.named, f.dead)
	}
	write(t, b, removes("set", "b", nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openOn(t, disk, "db")
	defer s.Close()
	b = New(s)
	write(t, b, removes("set", "c", nil))
	f.next(t, b, 0)
	if fmt.Sprint(f.named) != "[a]" || f.dead != 2 || f.Len() > 0 || fmt.Sprint(f.resets) != "[begin]" {
		t.Errorf("%q were removed, and %d dots without a name; %q are left; resets %v", f.named, f.dead, f.shows(), f.resets)
	}
}

// TestChangesWait: an answer waits for something to report, and ends with nothing when its time is up.
func TestChangesWait(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	var f follower
	f.next(t, b, 0)
	ask := func(wait time.Duration) (took time.Duration) {
		begin := time.Now()
		for c, err := range b.Changes(t.Context(), door.Changes{Set: []byte("set"), Since: f.Since(), Wait: wait}) {
			if err != nil {
				t.Fatal(err)
			}
			f.Apply(&c, nil)
		}
		return time.Since(begin)
	}
	if took := ask(200 * time.Millisecond); took < 150*time.Millisecond || f.Len() > 0 {
		t.Errorf("%v of nothing", took)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = b.Write(context.Background(), adds("set", "a"))
	}()
	if took := ask(time.Minute); took > 40*time.Second || f.Len() != 1 {
		t.Errorf("%v, and %q", took, f.shows())
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	for _, err := range b.Changes(ctx, door.Changes{Set: []byte("set"), Since: f.Since(), Wait: 30 * time.Second}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

// TestChangesRefused: what a store alone does not answer.
func TestChangesRefused(t *testing.T) {
	t.Parallel()
	b, _ := open(t, nil)
	other, _ := open(t, nil)
	open, _ := open(t, &engine.Options{KeepContexts: true})
	var f follower
	f.next(t, other, 0)
	_, wide, _ := read(t, func() *Backend { write(t, b, adds("set", "a")); return b }(), door.Read{Set: []byte("set")})
	for what, c := range map[string]struct {
		b    *Backend
		q    door.Changes
		want error
	}{
		"two replicas":               {b, door.Changes{Set: []byte("set"), R: 2}, door.ErrQuorum},
		"unresolved contexts":        {open, door.Changes{Set: []byte("set")}, bigset.ErrUnresolved},
		"the token of another store": {b, door.Changes{Set: []byte("set"), Since: f.Since()}, keyscheme.ErrTokenDomain},
		"a context":                  {b, door.Changes{Set: []byte("set"), Since: wide}, keyscheme.ErrTokenForm},
		"no name":                    {b, door.Changes{}, bigset.ErrRequest},
		"a long wait":                {b, door.Changes{Set: []byte("set"), Wait: time.Hour}, bigset.ErrRequest},
	} {
		n := 0
		for _, err := range c.b.Changes(t.Context(), c.q) {
			if n++; !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d parts", what, n)
		}
	}
}
