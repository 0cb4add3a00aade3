package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
)

// TestRetryAfterRefill: requests of which only members know that have lost their disks since and were filled again, are answered as they were the
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
	write(0, removed) // which a second event of the request would bring back
	for _, i := range []int{2, 0} {
		w.procs[i].stop()
		w.disks[i], w.files[i] = newDisk(fmt.Sprintf("%c2", 'a'+i)), testkit.NewDisk()
		time.Sleep(cloneTime)
		w.start(i)
		until(t, "a member that lost its disk", w.whole)
		for id, of := range requests {
			if known, err := w.procs[i].store.KnowsRequest(ctx, of.Set, []byte(id)); !known || err != nil {
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
