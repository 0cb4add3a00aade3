package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// TestDeadlineCrosses: a peer learns how long the coordinator waits for its answer.
func TestDeadlineCrosses(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	var mu sync.Mutex
	type asked struct {
		bounded bool
		left    time.Duration
	}
	seen := map[wire.Verb]asked{}
	w.around = func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			end, ok := ctx.Deadline()
			mu.Lock()
			seen[r.Verb] = asked{ok, time.Until(end)}
			mu.Unlock()
			return h(ctx, r, send)
		}
	}
	w.birth()
	co, ctx, set := w.procs[0].member.Coordinator(), context.Background(), []byte("s")
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}
	_, err := co.Write(ctx, coord.Write{Set: set, Ops: ops, Request: []byte("id"), Retry: true, Quorum: coord.Quorum{W: 3}})
	must(t, err)
	_, err = co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte("a")}, Quorum: coord.Quorum{R: 3}})
	must(t, err)
	w.procs[0].create(t, "f")
	for _, key := range keysOf("k%d", 4) { // one at a time: not many slices in a frame
		w.procs[0].mark(t, "f", [][]byte{key})
		w.procs[0].has(t, "f", [][]byte{key})
	}
	mu.Lock()
	defer mu.Unlock()
	for what, verbs := range map[string][]wire.Verb{
		"a retry": {remote.VerbKnows}, "a delta": {remote.VerbApply, remote.VerbApply + wire.Verb(bigset.Sync), remote.VerbApply + wire.Verb(bigset.NoSync)},
		"a lookup": {remote.VerbLookup}, "marks": {remote.VerbApplyMarks, remote.VerbApplyMarksMany}, "a check": {remote.VerbCheck, remote.VerbCheckMany},
	} {
		some := false
		for _, v := range verbs {
			a, ok := seen[v]
			some = some || ok
			if ok && (!a.bounded || a.left > time.Minute) {
				t.Errorf("verb %d of %s came with a deadline: %v, in %v", v, what, a.bounded, a.left)
			}
		}
		if !some {
			t.Errorf("%s did not reach a peer", what)
		}
	}
}
