package local_test

import (
	"context"
	"fmt"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// TestApplyManySynced: deltas that were acknowledged together as synced survive a power cut; without a sync they need not.
func TestApplyManySynced(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, durability := range []bigset.Durability{bigset.Sync, bigset.NoSync} {
		disk := testkit.NewDisk()
		store, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := local.New("a", store, peer.Normal)
		if err != nil {
			t.Fatal(err)
		}
		var all []bigset.Delta
		for i := range 5 {
			all = append(all, bigset.Delta{Set: []byte("s"), Actor: "F1", First: uint64(i + 1), Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "e%d", i)}}})
		}
		if _, err := rep.Apply(ctx, bigset.Delta{Set: []byte("s"), Actor: "F2", First: 1, Items: all[0].Items}, bigset.Sync); err != nil {
			t.Fatal(err)
		}
		each, by, err := rep.ApplyMany(ctx, all, durability)
		if each != nil || err != nil || by != rep.Member() {
			t.Fatalf("%v, %v, %v", each, by, err)
		}
		left, err := engine.Open("db", &engine.Options{FS: disk.CrashClone(0, 1), BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := left.Live(ctx, []byte("s"))
		if want := map[bigset.Durability]uint64{bigset.Sync: 6, bigset.NoSync: 1}[durability]; err != nil || n != want {
			t.Errorf("durability %v: %d elements after a power cut, want %d: %v", durability, n, want, err)
		}
		_ = left.Close()
		_ = store.Close()
	}
}
