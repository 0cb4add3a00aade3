package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// filterCluster is some replicas of slices, reached by a network that may fail.
type filterCluster struct {
	t      testing.TB
	s      *sched
	links  []*sliceLink
	events []coord.Event
}

// sliceLink is the way to a replica of slices.
type sliceLink struct {
	*local.Replica
	wire
	store   *engine.Store
	disk    *testkit.Disk
	minted  []bigset.Marks // that its replica has made, whether or not a coordinator heard of them
	marks   []bigset.Marks // those that a coordinator received from a replica that was still Normal
	apply   func()         // before marks are applied
	short   bool           // it answers about all keys but the last
	fewer   bool           // it answers about all slices that it was given marks of but the last
	twist   func(*bigset.Marks)
	joins   bool                     // its answers say that it is Joining, though it gives them
	near    bool                     // it answers checks at once where nothing is wrong with it, as one in the coordinator's process
	frames  int                      // about many slices that it was given
	asked   int                      // keys that these asked about
	stamps  int                      // that it was asked for instead of keys
	digests int                      // of filters that it was asked for
	older   bool                     // its program knows no stamps
	looking func()                   // if not nil: before it looks for keys at once
	looked  func()                   // if not nil: after that
	hold    coord.Signal             // if not nil: digests of filters wait for it
	spoil   func(slice uint32) bool  // slices about which it has an error among many
	sick    func(slice uint32) error // slices that it does nothing about (ErrUnavailable), or does, and returns an error all the same
}

func (l *sliceLink) Member() peer.Member {
	m := l.Replica.Member()
	if l.joins {
		m.State = peer.Joining
	}
	return m
}

func newFilterCluster(t testing.TB, s *sched, n int) *filterCluster {
	c := &filterCluster{t: t, s: s}
	for i := range n {
		name, disk := fmt.Sprintf("node%d", i), testkit.NewDisk()
		store := newSliceStore(t, disk)
		c.links = append(c.links, &sliceLink{Replica: replicaOf(t, name, store), store: store, wire: newWire(s, name), disk: disk, apply: func() {}})
	}
	return c
}

// newSliceReplica returns a replica over the store on a disk.
func newSliceReplica(t testing.TB, node string, disk *testkit.Disk) *local.Replica {
	return replicaOf(t, node, newSliceStore(t, disk))
}

func newSliceStore(t testing.TB, disk *testkit.Disk) *engine.Store {
	store, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func replicaOf(t testing.TB, node string, store *engine.Store) *local.Replica {
	replica, err := local.New(node, store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	replica.SetSeat(bloomslice.Seat(node[len(node)-1] - '0'))
	return replica
}

// place returns the replicas of a slice: all in order, beginning with another one for each slice.
func (c *filterCluster) place(_ []byte, slice uint32) (all []peer.SliceReplica) {
	for i := range c.links {
		all = append(all, c.links[(i+int(slice))%len(c.links)])
	}
	return all
}

// coordinator returns one with all of the cluster.
func (c *filterCluster) coordinator(o coord.Options) *coord.Coordinator {
	o.Place = coord.List(func([]byte) []peer.Replica { return nil })
	if o.PlaceSlice == nil {
		o.PlaceSlice = coord.ListSlices(c.place)
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
func (c *filterCluster) saw(kind coord.EventKind) (n int) {
	for _, e := range c.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (l *sliceLink) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (m bigset.Marks, added []bool, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		if err := l.refuses(spec.Slice); err != nil {
			return err
		}
		m, added, _, err = l.Replica.Mark(ctx, spec, hashes)
		if err = errors.Join(err, l.spoils(spec.Slice)); err == nil {
			l.minted = append(l.minted, m)
		}
		return err
	})
	if err == nil && l.short {
		m.Marks = m.Marks[:len(m.Marks)-1]
	}
	if err == nil && l.twist != nil {
		l.twist(&m)
	}
	by := l.Member()
	if err == nil && by.State == peer.Normal { // a coordinator takes no marks of one that is Joining: it may not know what its layers hold
		l.marks = append(l.marks, m)
	}
	return m, added, by, err
}

func (l *sliceLink) ApplyMarks(ctx context.Context, m bigset.Marks) (added []bool, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		l.apply()
		if err := l.refuses(m.Slice); err != nil {
			return err
		}
		added, _, err = l.Replica.ApplyMarks(context.WithoutCancel(ctx), m)
		return errors.Join(err, l.spoils(m.Slice))
	})
	return added, l.Member(), err
}

func (l *sliceLink) Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (present []bool, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		if err := l.refuses(spec.Slice); err != nil {
			return err
		}
		present, _, err = l.Replica.Check(ctx, spec, hashes)
		if err = errors.Join(err, l.spoils(spec.Slice)); l.short && err == nil {
			present = present[:len(present)-1]
		}
		return err
	})
	return present, l.Member(), err
}

func (l *sliceLink) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	err := l.over(ctx, func() error {
		_, err := l.Replica.DropGeneration(context.WithoutCancel(ctx), name, slices, generation)
		return err
	})
	return l.Member(), err
}

// refuses returns the error of a slice about which nothing is done.
func (l *sliceLink) refuses(slice uint32) error {
	if l.sick == nil {
		return nil
	}
	if err := l.sick(slice); errors.Is(err, peer.ErrUnavailable) {
		return err
	}
	return nil
}

// spoils returns the error of a slice about which something is done.
func (l *sliceLink) spoils(slice uint32) error {
	if l.sick == nil {
		return nil
	}
	if err := l.sick(slice); !errors.Is(err, peer.ErrUnavailable) {
		return err
	}
	return nil
}

// some does what is asked about many slices at those that are not sick, one at a time, and returns the answers in the order of the groups.
func some[G, A any](l *sliceLink, groups []G, slice func(*G) uint32, fail func(error) A, failed func(*A) error, do func([]G) ([]A, error)) ([]A, error) {
	if l.sick == nil {
		return do(groups)
	}
	all := make([]A, len(groups))
	for i := range groups {
		s := slice(&groups[i])
		if err := l.refuses(s); err != nil {
			all[i] = fail(err)
			continue
		}
		one, err := do(groups[i : i+1])
		if err != nil {
			return nil, err
		}
		if all[i] = one[0]; failed(&one[0]) == nil && l.spoils(s) != nil {
			all[i] = fail(l.spoils(s))
		}
	}
	return all, nil
}

func sliceOfKeys(g *peer.SliceKeys) uint32    { return g.Slice }
func sliceOfMarks(g *peer.SliceMarks) uint32  { return g.Slice }
func noMarks(err error) peer.SliceMarked      { return peer.SliceMarked{Err: err} }
func noAnswers(err error) peer.SliceAnswers   { return peer.SliceAnswers{Err: err} }
func errOfMarked(a *peer.SliceMarked) error   { return a.Err }
func errOfAnswers(a *peer.SliceAnswers) error { return a.Err }

func (l *sliceLink) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) (all []peer.SliceMarked, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		l.frames++
		all, err = some(l, groups, sliceOfKeys, noMarks, errOfMarked, func(groups []peer.SliceKeys) ([]peer.SliceMarked, error) {
			all, _, err := l.Replica.MarkMany(ctx, spec, groups)
			return all, err
		})
		for i := range all {
			if all[i].Err == nil {
				l.minted = append(l.minted, all[i].Of(spec))
			}
		}
		return err
	})
	by := l.Member()
	for i := range all {
		if err != nil || all[i].Err != nil {
			continue
		}
		m := all[i].Of(spec)
		if l.short {
			m.Marks = m.Marks[:len(m.Marks)-1]
		}
		if l.twist != nil {
			l.twist(&m)
		}
		if all[i].Layers, all[i].Marks = m.Layers, m.Marks; by.State == peer.Normal {
			l.marks = append(l.marks, m)
		}
		if l.spoil != nil && l.spoil(all[i].Slice) {
			all[i] = peer.SliceMarked{Err: errSpoilt}
		}
	}
	return all, by, err
}

func (l *sliceLink) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) (all []peer.SliceAnswers, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		l.frames++
		l.apply()
		all, err = some(l, groups, sliceOfMarks, noAnswers, errOfAnswers, func(groups []peer.SliceMarks) ([]peer.SliceAnswers, error) {
			all, _, err := l.Replica.ApplyMarksMany(context.WithoutCancel(ctx), spec, groups)
			return all, err
		})
		return err
	})
	if l.fewer && err == nil {
		all = all[:len(all)-1]
	}
	for i := range all {
		if l.spoil != nil && l.spoil(groups[i].Slice) {
			all[i] = peer.SliceAnswers{Err: errSpoilt}
		}
	}
	return all, l.Member(), err
}

// CheckManyNow hides that of the replica, which knows of no faults.
func (l *sliceLink) CheckManyNow(spec bigset.SliceSpec, groups []peer.SliceKeys, present []bool) bool {
	if !l.near || l.down || l.joins || l.short || l.fault() != "" {
		return false
	}
	bad := slices.ContainsFunc(groups, func(g peer.SliceKeys) bool {
		return l.spoil != nil && l.spoil(g.Slice) || l.sick != nil && l.sick(g.Slice) != nil
	})
	if l.looking != nil {
		l.looking()
	}
	known := l.Replica.CheckManyNow(spec, groups, present)
	if l.looked != nil {
		l.looked()
	}
	if bad {
		for i := range present {
			present[i] = true // it says nothing
		}
	}
	return known && !bad
}

// StampNow hides that of the replica, as CheckManyNow does.
func (l *sliceLink) StampNow(spec bigset.SliceSpec) (number uint64, ok bool) {
	if !l.near {
		return 0, false
	}
	return l.Replica.StampNow(spec)
}

func (l *sliceLink) Stamp(ctx context.Context, spec bigset.SliceSpec, digest bool) (s peer.Stamp, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		if digest {
			l.digests++
		} else {
			l.frames++
			l.stamps++
		}
		if l.older {
			return peer.ErrFrameKind
		}
		if digest && l.hold != nil {
			_ = l.hold.Wait(ctx)
		}
		s, _, err = l.Replica.Stamp(ctx, spec, digest)
		return err
	})
	return s, l.Member(), err
}

func (l *sliceLink) CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) (all []peer.SliceAnswers, _ peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		l.frames++
		for i := range groups {
			l.asked += len(groups[i].Hashes)
		}
		all, err = some(l, groups, sliceOfKeys, noAnswers, errOfAnswers, func(groups []peer.SliceKeys) ([]peer.SliceAnswers, error) {
			all, _, err := l.Replica.CheckMany(ctx, spec, groups)
			return all, err
		})
		return err
	})
	for i := range all {
		if n := len(all[i].Answers); l.short && n > 0 {
			all[i].Answers = all[i].Answers[:n-1]
		}
		if l.spoil != nil && l.spoil(groups[i].Slice) {
			all[i] = peer.SliceAnswers{Err: errSpoilt}
		}
	}
	return all, l.Member(), err
}

// errSpoilt is the error of one slice among many.
var errSpoilt = errors.New("a disk can't be read")

// has reports whether a replica itself has a key.
func (l *sliceLink) has(t testing.TB, f coord.Filter, key string) bool {
	t.Helper()
	h := bloomslice.Sum([]byte(key))
	spec := bigset.SliceSpec{Name: f.Name, Slice: h.Slice(f.Options.Slices), Generation: f.Generation, Options: f.Options}
	present, _, err := l.Replica.Check(ctx, spec, []bloomslice.Hash{h})
	if err != nil {
		t.Fatal(err)
	}
	return present[0]
}

// afterCut returns a replica over what a power cut would leave.
func (l *sliceLink) afterCut(t testing.TB) *sliceLink {
	return &sliceLink{Replica: newSliceReplica(t, l.node, l.disk.CrashClone(0, 1))}
}

// holds counts the replicas that have a key.
func (c *filterCluster) holds(f coord.Filter, key string) (n int) {
	for _, l := range c.links {
		if l.has(c.t, f, key) {
			n++
		}
	}
	return n
}

// filterOf returns a filter of some slices, in a generation.
func filterOf(slices uint32, generation uint64) coord.Filter {
	return coord.Filter{Name: []byte("filter"), Generation: generation, Options: bigset.FilterOptions{
		Options:    bloomslice.Options{Capacity: 20_000, Probability: 1e-6, Scale: 4, Reduction: 0.9, Slices: slices, Owners: 3},
		Durability: bigset.FilterSync,
	}}
}

func hashesOf(m bigset.Marks) (hashes []bloomslice.Hash) {
	for i := range m.Marks {
		hashes = append(hashes, m.Marks[i].Hash)
	}
	return hashes
}

func keysOf(f coord.Filter, keys ...string) coord.FilterKeys {
	r := coord.FilterKeys{Filter: f}
	for _, key := range keys {
		r.Keys = append(r.Keys, []byte(key))
	}
	return r
}

// newHints returns hints on a disk of their own.
func (c *filterCluster) newHints(disk *testkit.Disk) *coord.Hints {
	tell := func(e coord.Event) { c.events = append(c.events, e) }
	return openHints(c.t, newFolder(c.t, disk), coord.HintOptions{Now: c.s.Now, Events: tell})
}

const second = time.Second
