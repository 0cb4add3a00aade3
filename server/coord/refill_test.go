package coord_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/handoff"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

// refill gives a replica an empty disk, and copies into it from as many others as it takes to have all that was acknowledged.
func (c *cluster) refill(i int) {
	c.t.Helper()
	l := c.links[i]
	disk := testkit.NewDisk()
	store, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1, MemTableBytes: 1 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = store.Close() })
	replica, err := local.New(l.Replica.Member().Node, store, peer.Joining)
	if err != nil {
		c.t.Fatal(err)
	}
	mover, err := transfer.New(replica, transfer.Options{ChunkBytes: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, from := range c.links {
		if from == l {
			continue
		}
		if _, err := mover.Copy(ctx, from.Replica, handoff.Range{Last: keyscheme.SlotMax}); err != nil {
			c.t.Fatal(err)
		}
	}
	replica.SetState(peer.Normal)
	l.here, l.store, l.disk = here{replica}, store, disk
}

// TestRetriesAfterRefills writes with request ids, a replica away at a time, loses disks and fills them again, and sends requests again: each is
// one event, for ever, whichever replica is away, and whatever has removed what it added.
func TestRetriesAfterRefills(t *testing.T) {
	t.Parallel()
	type asked struct {
		w       coord.Write
		first   coord.Result
		removed bool
	}
	total := map[string]int{}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := newCluster(t, newSched(seed), 3)
		co := c.coordinator(coord.Options{})
		var all []*asked
		away := func(f func()) { // one replica at most
			if i := rng.IntN(4); i < 3 {
				c.links[i].down = true
				defer func() { c.links[i].down = false }()
			}
			c.s.run(t, minute, f)
		}
		for range 40 {
			k := rng.IntN(10)
			if len(all) == 0 {
				k = 0
			}
			a := new(asked)
			switch {
			case k < 4: // something new
				a.w = coord.Write{Set: set, Ops: add(fmt.Sprint("e", len(all)), "all"), Request: fmt.Append(nil, "id ", len(all)), Quorum: coord.Quorum{W: 2, DW: 2}}
				away(func() {
					var err error
					if a.first, err = co.Write(ctx, a.w); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				})
				all = append(all, a)
			case k < 5: // something is removed
				a = all[rng.IntN(len(all))]
				a.removed = true
				rm := bigset.Op{Kind: keyscheme.OpRemove, Element: a.w.Ops[0].Element, Context: bigset.Saw(a.first.Dots[0])}
				away(func() {
					if _, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{rm}, Quorum: coord.Quorum{W: 2, DW: 2}}); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				})
			case k < 7:
				c.refill(rng.IntN(3))
				total["refills"]++
			default: // something comes again
				a = all[rng.IntN(len(all))]
				w := a.w
				w.Retry = true
				away(func() {
					r, err := co.Write(ctx, w)
					if err != nil || fmt.Sprint(r.Dots) != fmt.Sprint(a.first.Dots) {
						t.Fatalf("seed %d: request %q has the dots %v, the first time %v, %v", seed, w.Request, r.Dots, a.first.Dots, err)
					}
				})
				total["retries"]++
			}
		}
		for i := range c.links { // a retry at each member alone, which has been filled since or not
			c.refill(i)
			for _, a := range all {
				r, m, err := c.links[i].Replica.Write(ctx, set, a.w.Ops, bigset.WriteOptions{Request: a.w.Request})
				if err != nil || fmt.Sprint(r.Dots) != fmt.Sprint(a.first.Dots) {
					t.Fatalf("seed %d: %v: request %q has the dots %v, the first time %v, %v", seed, m, a.w.Request, r.Dots, a.first.Dots, err)
				}
				if a.removed && c.links[i].has(string(a.w.Ops[0].Element)) {
					t.Errorf("seed %d: %v has %q again", seed, m, a.w.Ops[0].Element)
				}
			}
		}
	}
	if total["refills"] < 30 || total["retries"] < 30 {
		t.Errorf("%v", total)
	}
}
