package engine

import (
	"context"
	"errors"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// promising is a store on a disk of its own whose promises are looked at.
type promising struct {
	*Store
	disk *testkit.Disk
}

func openPromising(t *testing.T, disk *testkit.Disk) promising {
	t.Helper()
	s, err := Open("db", &Options{FS: disk, BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	return promising{s, disk}
}

func (p promising) add(t *testing.T, d bigset.Durability) {
	t.Helper()
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("e")}}
	if _, err := p.Write(context.Background(), []byte("s"), ops, bigset.WriteOptions{Durability: d}); err != nil {
		t.Fatal(err)
	}
}

func (p promising) mark(t *testing.T, name string, o bigset.FilterOptions) {
	t.Helper()
	f, err := p.Filters().Create(context.Background(), []byte(name), o)
	if errors.Is(err, bigset.ErrFilterExists) {
		f, err = p.Filters().Get([]byte(name))
	}
	if err == nil {
		_, err = f.Mark(context.Background(), []byte("key"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// crash closes the store, and opens what a crash of the process at that moment would have left, or of the machine.
func (p promising) crash(t *testing.T, machine bool) promising {
	t.Helper()
	clone := p.disk.CrashClone(0, 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	q := openPromising(t, clone)
	if !machine {
		return q
	}
	given, _, err := q.db.Get([]byte("q"))
	if err == nil && len(given) > 0 { // as an earlier boot would have written it, and nothing of this open has
		err = errors.Join(q.db.Pebble().Set([]byte("q"), append(given[:1:1], "another boot"...), nil), q.Close())
		q = openPromising(t, clone)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (p promising) want(t *testing.T, sets, filters bool) {
	t.Helper()
	if s, f := p.Replica().MayLack(); s != sets || f != filters {
		t.Errorf("may lack sets %v, filters %v; want %v and %v", s, f, sets, filters)
	}
}

// TestPromises: what a store has answered is on disk as a promise where a crash may take it back, and only there.
func TestPromises(t *testing.T) {
	t.Parallel()
	filter := func(o bigset.FilterOptions) func(*testing.T, promising) {
		return func(t *testing.T, p promising) { p.mark(t, "f", o) }
	}
	with := func(d bigset.FilterDurability) func(*testing.T, promising) {
		return filter(bigset.FilterOptions{Durability: d})
	}
	for _, c := range []struct {
		what          string
		do            func(*testing.T, promising)
		machine       bool
		sets, filters bool
	}{
		{"a synced write", func(t *testing.T, p promising) { p.add(t, bigset.Sync) }, true, false, false},
		{"a write that is not synced", func(t *testing.T, p promising) { p.add(t, bigset.NoSync) }, false, true, false},
		{"one after a synced one", func(t *testing.T, p promising) { p.add(t, bigset.Sync); p.add(t, bigset.NoSync) }, false, true, false},
		{"what another replica tells", func(t *testing.T, p promising) {
			f := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{{Name: []byte("told"), Dots: []clock.Dot{{Actor: "another", Counter: 1}}}}}
			if _, err := p.Replica().ApplyFacts(t.Context(), f, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
				t.Fatal(err)
			}
		}, true, false, false},
		{"what another replica tells, and then writes", func(t *testing.T, p promising) {
			dot := clock.Dot{Actor: "another", Counter: 1}
			f := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{{Name: []byte("told"), Dots: []clock.Dot{dot}}}}
			if _, err := p.Replica().ApplyFacts(t.Context(), f, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
				t.Fatal(err)
			}
			d := bigset.Delta{Set: []byte("s"), Actor: dot.Actor, First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("told")}}}
			if err := p.Replica().ApplyDelta(t.Context(), d, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
				t.Fatal(err)
			}
		}, true, true, false},
		{"a mark that is flushed later", with(bigset.FilterInterval), false, false, true},
		{"a mark in the log, the process crashes", with(bigset.FilterLog), false, false, false},
		{"a mark in the log, the machine crashes", with(bigset.FilterLog), true, false, true},
		{"a synced mark", with(bigset.FilterSync), true, false, false},
		{"a mark in memory only", filter(bigset.FilterOptions{InMemory: true}), true, false, false},
		{"marks of all kinds, and both kinds of writes", func(t *testing.T, p promising) {
			p.mark(t, "a", bigset.FilterOptions{Durability: bigset.FilterSync})
			p.mark(t, "b", bigset.FilterOptions{Durability: bigset.FilterLog})
			p.mark(t, "c", bigset.FilterOptions{Durability: bigset.FilterInterval})
			p.add(t, bigset.Sync)
			p.add(t, bigset.NoSync)
		}, false, true, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p := openPromising(t, testkit.NewDisk())
			c.do(t, p)
			p.want(t, false, false)
			p = p.crash(t, c.machine)
			p.want(t, c.sets, c.filters)
			p.add(t, bigset.Sync)
			p = p.crash(t, false) // it is reported until it was made good
			p.want(t, c.sets, c.filters)
			if err := p.Replica().MadeGood(true, true); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			p = openPromising(t, p.disk)
			p.want(t, false, false)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPromisesKept: a close in order ends what was promised, and a promise in the log goes on after a crash of the process.
func TestPromisesKept(t *testing.T) {
	t.Parallel()
	p := openPromising(t, testkit.NewDisk())
	p.mark(t, "f", bigset.FilterOptions{Durability: bigset.FilterInterval})
	p.add(t, bigset.NoSync)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = openPromising(t, p.disk)
	p.want(t, false, false)
	p.mark(t, "g", bigset.FilterOptions{Durability: bigset.FilterLog})
	p = p.crash(t, false)
	p.want(t, false, false)
	p.add(t, bigset.Sync) // this open promises nothing; what the one before has may not have reached the disk
	p = p.crash(t, true)
	p.want(t, false, true)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMarkNowPromises: marks that don't wait for the disk are none before the promise is on disk.
func TestMarkNowPromises(t *testing.T) {
	t.Parallel()
	p := openPromising(t, testkit.NewDisk())
	ctx := context.Background()
	f, err := p.Filters().Create(ctx, []byte("f"), bigset.FilterOptions{Durability: bigset.FilterInterval})
	if err != nil {
		t.Fatal(err)
	}
	keys, added := [][]byte{[]byte("a")}, []bool{false}
	if n, err := f.MarkNow(keys, added); n != 0 || err != nil {
		t.Errorf("%d marks before the promise, %v", n, err)
	}
	if err := f.MarkAll(ctx, keys, added); err != nil {
		t.Fatal(err)
	}
	if n, err := f.MarkNow(keys, added); n != 1 || err != nil {
		t.Errorf("%d marks after the promise, %v", n, err)
	}
	p = p.crash(t, false)
	p.want(t, false, true)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPromisesOfFailedClose: a close that could not write what was in memory breaks what was promised.
func TestPromisesOfFailedClose(t *testing.T) {
	t.Parallel()
	p := openPromising(t, testkit.NewDisk())
	p.add(t, bigset.NoSync)
	unwritten := errors.New("unwritten")
	if err := p.db.Close(func() error { return errors.Join(p.shut(), unwritten) }); !errors.Is(err, unwritten) {
		t.Fatal(err)
	}
	p = openPromising(t, p.disk)
	p.want(t, true, false)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncSets: Sync needs no filter to sync what was written to sets.
func TestSyncSets(t *testing.T) {
	t.Parallel()
	for _, synced := range []bool{false, true} {
		p := openPromising(t, testkit.NewDisk())
		p.add(t, bigset.NoSync)
		if synced {
			if err := p.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		p = p.crash(t, true)
		if _, err := p.Replica().State(context.Background(), []byte("s")); synced != (err == nil) {
			t.Errorf("synced %v: %v", synced, err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSync: after Sync a power cut takes back nothing that was acknowledged before it.
func TestSync(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := openPromising(t, testkit.NewDisk())
	p.mark(t, "f", bigset.FilterOptions{Durability: bigset.FilterInterval})
	p.mark(t, "g", bigset.FilterOptions{Durability: bigset.FilterLog})
	p.add(t, bigset.NoSync)
	if err := p.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	p = p.crash(t, true)
	if st, err := p.Replica().State(ctx, []byte("s")); err != nil || st.Seen.Len() != 1 {
		t.Errorf("the set has %v, %v", st.Seen, err)
	}
	for _, name := range []string{"f", "g"} {
		f, err := p.Filters().Get([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		if has, err := f.Check([]byte("key")); err != nil || !has {
			t.Errorf("filter %s has the key: %v, %v", name, has, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Sync(ctx); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("sync of a closed store: %v", err)
	}
}
