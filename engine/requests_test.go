package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// asked does operations with a request's id, past the model.
func (p *pair) asked(t *testing.T, id string, d bigset.Durability, ops ...bigset.Op) bigset.Result {
	t.Helper()
	res, err := p.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{Request: []byte(id), Durability: d})
	must(t, err, p.label+": write with an id")
	return res
}

func addOp(element string) bigset.Op {
	return bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(element)}
}
func rmOp(element string) bigset.Op {
	return bigset.Op{Kind: keyscheme.OpRemove, Element: []byte(element)}
}

func sameResult(t *testing.T, got, want bigset.Result) {
	t.Helper()
	if err := testkit.SameDelta(got.Delta, want.Delta); err != nil || string(got.Delta.Request) != string(want.Delta.Request) {
		t.Errorf("%v; request %q, want %q", err, got.Delta.Request, want.Delta.Request)
	}
	if got.Removed != want.Removed || !testkit.SameDots(got.Dots, want.Dots) {
		t.Errorf("%d removed, dots %v, want %d, %v", got.Removed, got.Dots, want.Removed, want.Dots)
	}
}

func (p *pair) has(t *testing.T, element string, want bool) {
	t.Helper()
	got, err := p.store.Look(bg, []byte("s"), []byte(element))
	if err != nil || got.Present != want {
		t.Errorf("%s has %q: %v, %v, want %v", p.label, element, got.Present, err, want)
	}
}

// TestRequestComesAgain: a request that comes again, here or at a store that has its delta, is the same events. So an add that
// somebody has removed in between does not come back.
func TestRequestComesAgain(t *testing.T) {
	a, b := newPair("first"), newPair("second")
	a.open(t)
	b.open(t)
	a.asked(t, "before", bigset.NoSync, addOp("y"))
	ops := []bigset.Op{addOp("x"), rmOp("absent"), addOp("x"), rmOp("y"), addOp("z")}
	first := a.asked(t, "id", bigset.NoSync, ops...)
	if len(first.Delta.Items) != 4 || string(first.Delta.Request) != "id" {
		t.Fatalf("delta %+v", first.Delta)
	}
	was := a.known(t, "s")
	sameResult(t, a.asked(t, "id", bigset.Sync, ops...), first)
	if st := a.known(t, "s"); !st.Seen.Equal(was.Seen) || !st.Dead.Equal(was.Dead) {
		t.Errorf("again: %+v, was %+v", st, was)
	}
	must(t, b.store.Replica().ApplyDelta(bg, first.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
	rm, err := b.store.Remove(bg, []byte("s"), [][]byte{[]byte("x")}, bigset.WriteOptions{})
	must(t, err, "remove")
	sameResult(t, b.asked(t, "id", bigset.NoSync, ops...), first)
	b.has(t, "x", false)
	must(t, a.store.Replica().ApplyDelta(bg, rm.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
	sameResult(t, a.asked(t, "id", bigset.NoSync, ops...), first)
	a.has(t, "x", false)
	a.asked(t, "another", bigset.NoSync, addOp("x"))
	a.has(t, "x", true)
	for _, p := range []*pair{a, b} {
		must(t, p.store.Close(), "close")
		p.open(t)
		sameResult(t, p.asked(t, "id", bigset.NoSync, ops...), first)
		p.verify(t)
		must(t, p.store.Close(), "close")
	}
}

// TestKnowsRequest: a store knows the requests that it keeps, by set and id, and nothing else; asking makes no event.
func TestKnowsRequest(t *testing.T) {
	a, b := newPair("first"), newPair("second")
	now := time.UnixMilli(1_000_000_000)
	for _, p := range []*pair{a, b} {
		p.opt.Now = func() time.Time { return now }
		p.opt.RequestAge = time.Minute
		p.open(t)
	}
	knows := func(p *pair, set, id string, want bool, wantErr error) {
		t.Helper()
		if got, err := p.store.Replica().KnowsRequest(bg, []byte(set), []byte(id)); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%s knows %q to %.10q: %v, %v, want %v, %v", p.label, id, set, got, err, want, wantErr)
		}
	}
	knows(a, "s", "id", false, nil)
	if _, err := a.store.Replica().State(bg, []byte("s")); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("asking has made a set: %v", err)
	}
	first := a.asked(t, "id", bigset.NoSync, addOp("x"))
	a.asked(t, "nothing", bigset.NoSync, rmOp("absent")) // is no event, and done again it is none
	was := a.known(t, "s")
	for id, want := range map[string]bool{"id": true, "i": false, "id2": false, "": false, "nothing": false} {
		knows(a, "s", id, want, nil)
	}
	knows(a, "other", "id", false, nil)
	knows(b, "s", "id", false, nil)
	must(t, b.store.Replica().ApplyDelta(bg, first.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
	knows(b, "s", "id", true, nil)
	knows(a, "", "id", false, bigset.ErrRequest)
	knows(a, strings.Repeat("s", bigset.SetNameBytesMax+1), "id", false, bigset.ErrLimit)
	knows(a, "s", strings.Repeat("i", 65), false, bigset.ErrLimit)
	if st := a.known(t, "s"); !st.Seen.Equal(was.Seen) || !st.Dead.Equal(was.Dead) {
		t.Errorf("asking has changed %+v to %+v", was, st)
	}
	answer := make(chan bool, 1)
	must(t, a.store.HoldingWriters([]byte("s"), func() error { // a write that waits for its turn counts
		go func() {
			_, _ = a.store.Write(bg, []byte("s"), []bigset.Op{addOp("y")}, bigset.WriteOptions{Request: []byte("queued")})
		}()
		a.queued(t, "s", 1)
		go func() {
			known, err := a.store.Replica().KnowsRequest(bg, []byte("s"), []byte("queued"))
			answer <- known && err == nil
		}()
		<-settled(a)
		return nil
	}), "hold")
	if !<-answer {
		t.Error("the answer did not wait for a write before it")
	}
	now = now.Add(2 * time.Minute)
	knows(a, "s", "id", false, nil)
	b.disk.SetHook("fail", func(op errorfs.Op) error {
		if testkit.IsWrite(op) {
			return syscall.EIO
		}
		return nil
	})
	if _, err := b.store.Write(bg, []byte("s"), []bigset.Op{addOp("y")}, bigset.WriteOptions{}); err == nil {
		t.Fatal("the disk has not failed")
	}
	knows(b, "s", "id", false, bigset.ErrFailed)
	b.disk.SetHook("fail", nil)
	_ = b.store.Close()
	a.close(t)
	knows(a, "s", "id", false, bigset.ErrClosed)
	q := openPair(t, "unresolved contexts")
	defer q.close(t)
	knows(q, "s", "id", false, bigset.ErrRequest)
}

// TestRequestsOfOneGroup: a request that comes twice at a time is one.
func TestRequestsOfOneGroup(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	p.asked(t, "before", bigset.NoSync, addOp("a"))
	results := make(chan bigset.Result, 3)
	must(t, p.store.HoldingWriters([]byte("s"), func() error {
		for range cap(results) {
			go func() {
				res, err := p.store.Write(bg, []byte("s"), []bigset.Op{addOp("x")}, bigset.WriteOptions{Request: []byte("id"), Policy: bigset.PolicyEmpty})
				if err != nil {
					t.Error(err)
				}
				results <- res
			}()
		}
		p.queued(t, "s", cap(results))
		return nil
	}), "hold")
	first := <-results
	for range cap(results) - 1 {
		sameResult(t, <-results, first)
	}
	if n := p.known(t, "s").Seen.Len(); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// TestRequestsRefused: an id of another request, one that is too long, one of a delta.
func TestRequestsRefused(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	p.asked(t, "id", bigset.NoSync, addOp("a"), rmOp("a"))
	was := p.known(t, "s")
	long := make([]byte, 65)
	for what, c := range map[string]struct {
		id   string
		ops  []bigset.Op
		want error
	}{
		"another element": {"id", []bigset.Op{addOp("b"), rmOp("a")}, bigset.ErrRequest},
		"another kind":    {"id", []bigset.Op{rmOp("a"), rmOp("a")}, bigset.ErrRequest},
		"less":            {"id", []bigset.Op{addOp("a")}, bigset.ErrRequest},
		"more":            {"id", []bigset.Op{addOp("a"), rmOp("a"), addOp("a")}, bigset.ErrRequest},
		"nothing":         {"id", nil, bigset.ErrRequest},
		"too long":        {string(long), []bigset.Op{addOp("b")}, bigset.ErrLimit},
	} {
		res, err := p.store.Write(bg, []byte("s"), c.ops, bigset.WriteOptions{Request: []byte(c.id)})
		if !errors.Is(err, c.want) || !res.Delta.Empty() {
			t.Errorf("%s: %v, %v, want %v", what, res, err, c.want)
		}
	}
	d := bigset.Delta{Set: []byte("s"), Actor: "x", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}, Request: long}
	if err := p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("delta: %v", err)
	}
	d.Request, d.Items[0].Wide = long[:1], clock.Of()
	if err := p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}); !errors.Is(err, bigset.ErrDelta) {
		t.Errorf("delta with a wide context: %v", err)
	}
	if st := p.known(t, "s"); !st.Seen.Equal(was.Seen) || !st.Dead.Equal(was.Dead) {
		t.Errorf("something has changed: %+v, was %+v", st, was)
	}
	q := openPair(t, "unresolved contexts")
	defer q.close(t)
	if _, err := q.store.Write(bg, []byte("s"), []bigset.Op{addOp("a")}, bigset.WriteOptions{Request: []byte("id")}); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("with unresolved contexts: %v", err)
	}
}

// TestRequestsAreForgotten: what is kept is bounded by age and by number, also over a restart, and space comes back.
func TestRequestsAreForgotten(t *testing.T) {
	p := newPair("store")
	now := time.UnixMilli(1_000_000_000)
	p.opt.Now = func() time.Time { return now }
	p.opt.RequestAge, p.opt.RequestsKept = time.Minute, 20
	p.open(t)
	kept := func(want int) {
		t.Helper()
		if n, err := p.store.KeptRequests(); err != nil || n != want {
			t.Errorf("%d requests are kept, want %d, %v", n, want, err)
		}
	}
	again := func(id string, want bool) {
		t.Helper()
		before := p.known(t, "s").Seen.Len()
		p.asked(t, id, bigset.NoSync, addOp("a"))
		if same := p.known(t, "s").Seen.Len() == before; same != want {
			t.Errorf("request %q is known: %v, want %v", id, same, want)
		}
	}
	kept(0)
	for i := range 50 { // each set has its own slot
		_, err := p.store.Write(bg, fmt.Appendf(nil, "set %d", i), []bigset.Op{addOp("a")}, bigset.WriteOptions{Request: []byte("id")})
		must(t, err, "write")
	}
	again("one", false)
	if n, err := p.store.KeptRequests(); err != nil || n > 24 {
		t.Errorf("%d requests are kept of 20, %v", n, err)
	}
	must(t, p.store.RunnerTick(bg), "tick")
	kept(20)
	now = now.Add(40 * time.Second)
	again("two", false)
	again("one", true)
	now = now.Add(30 * time.Second)
	again("two", true)
	again("one", false) // and from now on again
	again("one", true)
	p.close(t)
	p.open(t)
	now = now.Add(40 * time.Second)
	again("one", true)
	again("two", false)
	p.flush(t)
	must(t, p.store.RunnerTick(bg), "tick")
	kept(2)
	if sets := len(digests(t, p.store, 0, keyscheme.SlotMax)); sets != 51 {
		t.Errorf("%d sets, want 51", sets)
	}
	now = now.Add(2 * time.Minute)
	must(t, p.store.RunnerTick(bg), "tick")
	kept(0)
	again("one", false)
	p.verify(t)
	p.close(t)
}

// TestRequestsOfAFailedBatch: what a batch was to delete, and was not written, is deleted by a later one.
func TestRequestsOfAFailedBatch(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	now := time.UnixMilli(1_000_000_000)
	p.opt.Now = func() time.Time { return now }
	p.opt.RequestAge, p.opt.BlockCacheBytes = time.Minute, 1
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
	p.flush(t)
	must(t, p.store.CompactTables(bg), "settle")
	for i := range 3 {
		p.asked(t, fmt.Sprint("old ", i), bigset.NoSync, bigset.Op{Kind: keyscheme.OpAdd, Element: []byte("a"), Context: bigset.Saw()})
	}
	must(t, p.store.RunnerTick(bg), "tick") // looks at the disk, once
	now = now.Add(time.Hour)
	results := make(chan error, 2)
	must(t, p.store.HoldingWriters([]byte("s"), func() error { // two requests of one group; the second can't be done
		for i, o := range []bigset.Op{
			{Kind: keyscheme.OpAdd, Element: []byte("a"), Context: bigset.Saw()}, {Kind: keyscheme.OpAdd, Element: []byte(bulkName(70))},
		} {
			go func() {
				_, err := p.store.Write(bg, []byte("s"), []bigset.Op{o}, bigset.WriteOptions{Request: fmt.Append(nil, "new ", i), Durability: bigset.NoSync})
				results <- err
			}()
			p.queued(t, "s", i+1)
		}
		p.disk.SetHook("fail", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
				return syscall.EIO
			}
			return nil
		})
		return nil
	}), "hold")
	for range 2 {
		if err := <-results; !errors.Is(err, syscall.EIO) {
			t.Errorf("the group was written: %v", err)
		}
	}
	p.disk.SetHook("fail", nil)
	must(t, p.store.Failed(), "a read failed")
	if n, err := p.store.KeptRequests(); err != nil || n != 3 {
		t.Errorf("%d requests are kept, %v, want 3", n, err)
	}
	must(t, p.store.RunnerTick(bg), "tick")
	if n, err := p.store.KeptRequests(); err != nil || n != 0 {
		t.Errorf("%d requests are kept, %v, want none", n, err)
	}
	must(t, p.store.Close(), "close")
}

// TestRequestsBesideTheFilter: records of requests come right after the elements of a set in the order of keys. Where the
// filter has left out the last of those, Pebble must not trip over a deleted record, nor over one that was written again.
func TestRequestsBesideTheFilter(t *testing.T) {
	for _, last := range []string{"delete", "set", "both"} {
		p := newPair(last)
		now := time.UnixMilli(1_000_000_000)
		p.opt.Now = func() time.Time { return now }
		p.opt.Strategy = compaction.Filter()
		p.open(t)
		for range 4 {
			p.asked(t, "a", bigset.NoSync, addOp("x"))
			p.asked(t, "b", bigset.NoSync, addOp("y"))
			must(t, p.store.CompactTables(bg), "compact") // the records are at the bottom
			p.asked(t, "", bigset.NoSync, addOp("z"), rmOp("z"), rmOp("x"), rmOp("y"))
			now = now.Add(time.Hour)
			if last != "set" {
				must(t, p.store.RunnerTick(bg), "tick")
			}
			if last != "delete" {
				p.asked(t, "a", bigset.NoSync, addOp("z"), rmOp("z"))
			}
			for range 2 {
				must(t, p.store.PublisherRound(), "publish")
			}
			p.flush(t)
			must(t, p.store.CompactTables(bg), "compact")
			now = now.Add(time.Hour)
		}
		if p.store.Filtered() == 0 {
			t.Error("nothing was filtered")
		}
		p.verify(t)
		must(t, p.store.Close(), "close")
	}
}

// TestRequestsCrash crashes at every operation on the disk while requests are made, kept and forgotten. A client that asks again gets
// the events that were acknowledged, if they were acknowledged as durable, and never two.
func TestRequestsCrash(t *testing.T) {
	for at := int64(0); ; at++ {
		p := newPair(fmt.Sprintf("crash at %d", at))
		now := time.UnixMilli(1_000_000_000)
		p.opt.Now = func() time.Time { return now }
		p.opt.RequestsKept = 4
		p.open(t)
		crash := p.disk.CrashAt(at, []int{0, 50, 100}[at%3], uint64(at))
		var writes atomic.Int64
		p.disk.SetHook("count", func(op errorfs.Op) error {
			if testkit.IsWrite(op) {
				writes.Add(1)
			}
			return nil
		})
		told, durable := map[string]bigset.Result{}, map[string]bool{}
		op := func(id string) bigset.Op {
			return bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(id), Context: bigset.Saw()}
		}
		for i := range 8 {
			id := fmt.Sprintf("id %d", i)
			sync := []bigset.Durability{bigset.NoSync, bigset.Sync}[i%2]
			res := p.asked(t, id, sync, op(id))
			if writes.Load() <= at { // the power has not gone yet
				told[id] = res
				durable[id] = sync == bigset.Sync
			}
			if i%3 == 2 {
				must(t, p.store.FlushTables(), "flush")
			}
		}
		must(t, p.store.RunnerTick(bg), "tick")
		left := crash()
		_ = p.store.Close()
		if left == nil {
			return
		}
		p.disk = left
		p.open(t)
		for id, was := range told {
			res := p.asked(t, id, bigset.Sync, op(id))
			got, err := p.store.Look(bg, []byte("s"), []byte(id))
			must(t, err, "contains")
			if id >= "id 4" && len(got.Context.Dots) != 1 || len(got.Context.Dots) > 2 {
				t.Errorf("%s: %q has the dots %v", p.label, id, got.Context.Dots)
			}
			if durable[id] && id >= "id 4" {
				sameResult(t, res, was)
			}
		}
		p.verify(t)
		must(t, p.store.Close(), "close")
	}
}

// TestRequestsBesideSweeps: what is kept of a request that comes while a sweep copies its set's neighbours is not swapped out.
func TestRequestsBesideSweeps(t *testing.T) {
	p := smallSets(t, 60, nil)
	var first bigset.Result
	ops, o := []bigset.Op{addOp("x")}, bigset.WriteOptions{Request: []byte("id"), Durability: bigset.NoSync}
	stop := p.whileCopied(func() {
		for i := range 60 {
			first = p.write(t, smallName(i), ops, o)
		}
	})
	for from := []byte(nil); ; {
		pass, _, err := p.store.RewriteSets(bg, from, 1)
		must(t, err, "sweep")
		if from = pass.Next; from == nil {
			break
		}
	}
	if !stop() {
		t.Fatal("nothing was swept")
	}
	if n, err := p.store.KeptRequests(); err != nil || n != 60 {
		t.Errorf("%d requests are kept, want 60, %v", n, err)
	}
	again, err := p.store.Write(bg, []byte(smallName(59)), ops, o)
	must(t, err, "again")
	sameResult(t, again, first)
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestRequestsMissed: a request that the disk has is never taken for a new one without a look at the disk, whatever was forgotten, written again and opened; and most new ones are.
func TestRequestsMissed(t *testing.T) {
	missed := 0
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair("store")
		now := time.UnixMilli(1_000_000_000)
		p.opt.Now = func() time.Time { return now }
		p.opt.RequestAge, p.opt.RequestsKept = time.Minute, 6
		p.open(t)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "write", "time", "tick", "open"}).Draw(rt, "step") {
			case "write":
				set, id := rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "set"), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "id")
				_, err := p.store.Write(bg, []byte(set), []bigset.Op{addOp("x")}, bigset.WriteOptions{Request: []byte(id)})
				must(t, err, "write")
			case "time":
				now = now.Add(time.Duration(rapid.IntRange(1, 50).Draw(rt, "seconds")) * time.Second)
			case "tick":
				must(t, p.store.RunnerTick(bg), "tick")
			case "open":
				must(t, p.store.Close(), "close")
				p.open(t)
			}
			for _, set := range []string{"s", "t"} {
				for _, id := range []string{"a", "b", "c", "d", "never"} {
					found, err := p.store.RequestOnDisk([]byte(set), []byte(id))
					must(t, err, "look")
					if p.store.MissesRequest([]byte(set), []byte(id)) {
						if missed++; found {
							rt.Fatalf("request %s of set %s is on disk, and taken for a new one", id, set)
						}
					}
				}
			}
		}
		must(t, p.store.Close(), "close")
	})
	if missed == 0 {
		t.Error("each request was looked for on disk")
	}
}

// TestRequestsOfNoBatch: a request whose batch could not be written is known by nothing, and the log of requests holds nothing for it.
func TestRequestsOfNoBatch(t *testing.T) {
	p := newPair("store")
	now := time.UnixMilli(1_000_000_000)
	p.opt.Now = func() time.Time { return now }
	p.opt.RequestAge = time.Minute
	p.open(t)
	var broken atomic.Bool
	broken.Store(true)
	p.disk.SetHook("identity", func(op errorfs.Op) error { // which is written before the first batch
		if broken.Load() && strings.Contains(op.Path, "IDENTITY") && op.Kind == errorfs.OpCreate {
			return syscall.EIO
		}
		return nil
	})
	ops, o := []bigset.Op{addOp("x")}, bigset.WriteOptions{Request: []byte("id")}
	for range 3 {
		if _, err := p.store.Write(bg, []byte("s"), ops, o); !errors.Is(err, syscall.EIO) || p.store.Failed() != nil {
			t.Fatalf("write: %v, store: %v", err, p.store.Failed())
		}
		if !p.store.MissesRequest([]byte("s"), o.Request) {
			t.Fatal("what was not written is looked for on disk")
		}
	}
	broken.Store(false)
	_, err := p.store.Write(bg, []byte("s"), ops, o)
	must(t, err, "write")
	if p.store.MissesRequest([]byte("s"), o.Request) {
		t.Error("what was written is not looked for")
	}
	now = now.Add(2 * time.Minute)
	must(t, p.store.RunnerTick(bg), "tick")
	if !p.store.MissesRequest([]byte("s"), o.Request) {
		t.Error("what was deleted is looked for on disk")
	}
	must(t, p.store.Close(), "close")
}
