package coord_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/coord/turns"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

var set = []byte("set")

// cluster is some replicas over engines in memory, reached by a network that may fail.
type cluster struct {
	t      *testing.T
	s      *sched
	links  []*link
	minted []bigset.Delta // by any replica
	orphan []bigset.Delta // those of them that no coordinator knows of
	events []coord.Event
}

// link is the way to a replica.
type link struct {
	here
	turns.Link
	wire
	c      *cluster
	store  *engine.Store
	disk   *testkit.Disk
	chunks int // that were taken
}

// here is at the other end of the link: calls go over that if it has them.
type here struct{ *local.Replica }

func newCluster(t *testing.T, s *sched, n int) *cluster {
	c := &cluster{t: t, s: s}
	for i := range n {
		disk := testkit.NewDisk()
		// The clock stands still: how many elements the answer to a count covers must not be a question of how busy the machine is.
		still := func() time.Time { return time.Unix(1, 0) }
		store, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1, MemTableBytes: 1 << 20, Now: still})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		replica, err := local.New(fmt.Sprintf("node%d", i), store, peer.Normal)
		if err != nil {
			t.Fatal(err)
		}
		replica.SetSeat(bloomslice.Seat(i))
		l := &link{here: here{replica}, wire: newWire(s, replica.Member().Node), c: c, store: store, disk: disk}
		l.Link = turns.Link{To: func() peer.Replica { return l.Replica }, Over: l.over}
		c.links = append(c.links, l)
	}
	return c
}

// place returns all replicas, in order.
func (c *cluster) place([]byte) (all []peer.Replica) {
	for _, l := range c.links {
		all = append(all, l)
	}
	return all
}

// coordinator returns one with all of the cluster.
func (c *cluster) coordinator(o coord.Options) *coord.Coordinator {
	if o.Place == nil {
		o.Place = coord.List(c.place)
	}
	o.Runner = c.s
	o.Events = func(e coord.Event) { c.events = append(c.events, e) }
	co, err := coord.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	return co
}

// saw counts the events of a kind.
func (c *cluster) saw(kind coord.EventKind) (n int) {
	for _, e := range c.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (l *link) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (r bigset.Result, m peer.Member, err error) {
	o.Applied = nil // no network carries it
	first := true
	err = l.over(ctx, func() error {
		again, _, err := l.Replica.Write(ctx, set, ops, o)
		if err == nil && !again.Delta.Empty() {
			l.c.minted = append(l.c.minted, again.Delta)
		}
		if !first { // what the network has doubled nobody hears of
			if !again.Delta.Empty() {
				l.c.orphan = append(l.c.orphan, again.Delta)
			}
			return err
		}
		r, first = again, false
		return err
	})
	if err != nil && !r.Delta.Empty() {
		l.c.orphan = append(l.c.orphan, r.Delta)
	}
	return r, l.Member(), err
}

// atHand is the replica of a link with no network between it and its coordinator.
type atHand struct {
	*link
	disk func() error // called while the disk is at work on a write that is applied; nil answers at once
}

func (h *atHand) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	if h.down {
		return bigset.Result{}, h.Member(), peer.ErrUnavailable
	}
	r, m, err := h.Replica.Write(ctx, set, ops, o)
	if err != nil {
		return r, m, err
	}
	if !r.Delta.Empty() {
		h.c.minted = append(h.c.minted, r.Delta)
	}
	if h.disk != nil {
		err = h.disk()
	}
	return r, m, err
}

func (h *atHand) WriteMany(ctx context.Context, set []byte, all []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	if h.down {
		return nil, h.Member(), peer.ErrUnavailable
	}
	out, m, err := h.Replica.WriteMany(ctx, set, all)
	for i := range out {
		if out[i].Err == nil && !out[i].Delta.Empty() {
			h.c.minted = append(h.c.minted, out[i].Delta)
		}
	}
	if h.disk == nil || err != nil {
		return out, m, err
	}
	if failed := h.disk(); failed != nil {
		for i := range out {
			out[i].Err = errors.Join(out[i].Err, failed)
		}
	}
	return out, m, nil
}

// WriteMany does nothing: the replica of a link is in another process.
func (l *link) WriteMany(context.Context, []byte, []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	return nil, l.Member(), peer.ErrUnavailable
}

// placeAtHand is place where one of the replicas, the first to be asked, is the coordinator's own.
func (c *cluster) placeAtHand(own int, disk func() error) func([]byte) coord.Placement[peer.Replica] {
	h := &atHand{c.links[own], disk}
	return coord.List(func([]byte) (all []peer.Replica) {
		all = append(all, h)
		for i, l := range c.links {
			if i != own {
				all = append(all, l)
			}
		}
		return all
	})
}

func (l *link) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	err := l.over(ctx, func() error {
		_, err := l.Replica.Apply(ctx, d, durability)
		return err
	})
	return l.Member(), err
}

func (l *link) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) (each []error, _ peer.Member, err error) {
	err = l.over(ctx, func() error {
		each, _, err = l.Replica.ApplyMany(ctx, all, durability)
		return err
	})
	return each, l.Member(), err
}

func (l *link) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		for f, err := range l.Replica.Locate(ctx, set, dots) {
			if e := l.over(ctx, func() error { return err }); !yield(f, e) || e != nil {
				return
			}
		}
	}
}

// state returns what a store knows of the set; nothing when it has never heard of it.
func (l *link) state() bigset.State {
	s, err := l.store.Replica().State(context.Background(), set)
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}
	}
	if err != nil {
		l.c.t.Fatal(err)
	}
	return s
}

// durable reports whether a power cut would leave the set.
func (l *link) durable() bool {
	store, err := engine.Open("db", &engine.Options{FS: l.disk.CrashClone(0, 1), BackgroundInterval: -1})
	if err != nil {
		l.c.t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Replica().State(context.Background(), set)
	return err == nil
}

// elements returns what a store shows of the set.
func (l *link) elements() (all []fold.Element) {
	for c, err := range l.store.Read(context.Background(), set, bigset.ReadOptions{}) {
		if errors.Is(err, bigset.ErrNotFound) {
			return nil
		}
		if err != nil {
			l.c.t.Fatal(err)
		}
		all = append(all, c.Elements...)
	}
	return all
}

func (l *link) has(element string) bool {
	found, err := l.store.Look(context.Background(), set, []byte(element))
	if err != nil {
		l.c.t.Fatal(err)
	}
	return found.Present
}

// holds counts the replicas that have all events of a delta.
func (c *cluster) holds(d bigset.Delta) (n int) {
	for _, l := range c.links {
		seen, all := l.state().Seen, true
		for i := range d.Items {
			all = all && seen.Contains(clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)})
		}
		if all && seen.Descends(d.Clear) {
			n++
		}
	}
	return n
}

func add(elements ...string) (ops []bigset.Op) {
	for _, e := range elements {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	return ops
}

// vfsFolder keeps hints in a file system of the test kit.
type vfsFolder struct {
	fs  vfs.FS
	dir string
}

func newFolder(t testing.TB, fs vfs.FS) vfsFolder {
	t.Helper()
	if err := fs.MkdirAll("hints", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	return vfsFolder{fs, "hints"}
}

func (f vfsFolder) Create(name string) (coord.File, error) {
	return f.fs.Create(path.Join(f.dir, name), vfs.WriteCategoryUnspecified)
}

func (f vfsFolder) Open(name string) (coord.Reader, error) {
	file, err := f.fs.Open(path.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	return struct {
		io.ReaderAt
		io.Closer
	}{file, file}, nil
}

func (f vfsFolder) Remove(name string) error { return f.fs.Remove(path.Join(f.dir, name)) }

func (f vfsFolder) List() ([]string, error) { return f.fs.List(f.dir) }

func (f vfsFolder) Sync() error {
	d, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
