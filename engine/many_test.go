package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// foreign returns n deltas of another replica, each with one add of an element of its own.
func foreign(set string, first uint64, n int) (all []bigset.Delta) {
	for i := range n {
		counter := first + uint64(i)
		all = append(all, bigset.Delta{Set: []byte(set), Actor: "F1", First: counter, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "f%06d", counter)}}})
	}
	return all
}

// TestApplyDeltas: several deltas do what they do one by one, in one sync, and one that is refused leaves the others alone.
func TestApplyDeltas(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	syncs := 0
	disk.SetHook("count", func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			syncs++
		}
		return nil
	})
	many, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
	must(t, err, "open")
	defer many.Close()
	each, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	must(t, err, "open")
	defer each.Close()
	_, err = many.Add(bg, []byte("s"), [][]byte{[]byte("own")}, bigset.WriteOptions{Durability: bigset.Sync})
	must(t, err, "add")

	all := foreign("s", 1, 6)
	all[1].Items[0].Context = []clock.Dot{{Actor: "F1", Counter: 1}} // kills what comes before it in the same batch
	all[1].Items[0].Element = all[0].Items[0].Element
	all[2].Set = []byte("other")
	all[4] = bigset.Delta{Set: []byte("s"), Actor: many.Replica().Actor(), First: 9, Items: all[4].Items} // it has issued no such dot
	all[5].Items = append(all[5].Items, bigset.Item{Kind: keyscheme.OpRemove, Element: []byte("f000004"), Context: []clock.Dot{{Actor: "F1", Counter: 4}}})
	before := syncs
	errs := many.Replica().ApplyDeltas(bg, []byte("s"), all, bigset.ApplyOptions{Durability: bigset.Sync})
	if syncs != before+1 {
		t.Errorf("%d syncs, want 1", syncs-before)
	}
	for i := range all {
		if refused := i == 2 || i == 4; errors.Is(errs[i], bigset.ErrDelta) != refused || (errs[i] != nil) != refused {
			t.Errorf("delta %d: %v", i, errs[i])
		}
		if i != 2 && i != 4 {
			must(t, each.Replica().ApplyDelta(bg, all[i], bigset.ApplyOptions{Durability: bigset.Sync}), "apply")
		}
	}
	var elements [][]byte
	for i := range 8 {
		elements = append(elements, fmt.Appendf(nil, "f%06d", i))
	}
	got, err := many.Subset(bg, []byte("s"), elements)
	must(t, err, "subset")
	want, err := each.Subset(bg, []byte("s"), elements)
	must(t, err, "subset")
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("together %s, one by one %s", g, w)
	}
	if errs := many.Replica().ApplyDeltas(bg, []byte("s"), all[:2], bigset.ApplyOptions{Durability: bigset.Sync}); errs != nil {
		t.Errorf("the same again: %v", errs)
	}
	_, err = many.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
}

// TestApplyDeltasAmongWriters: many that are more than a group takes, beside writers of the set, are all applied, once.
func TestApplyDeltasAmongWriters(t *testing.T) {
	t.Parallel()
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	must(t, err, "open")
	defer s.Close()
	const batches, each, writers, adds = 3, 5000, 4, 50
	var wg sync.WaitGroup
	for b := range batches {
		wg.Go(func() {
			if errs := s.Replica().ApplyDeltas(bg, []byte("s"), foreign("s", uint64(b*each+1), each), bigset.ApplyOptions{Durability: bigset.Sync}); errs != nil {
				t.Errorf("%v", errors.Join(errs...))
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range adds {
				if _, err := s.Add(bg, []byte("s"), [][]byte{fmt.Appendf(nil, "w%d-%d", w, i)}, bigset.WriteOptions{}); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := s.Live(bg, []byte("s")); err != nil || n != batches*each+writers*adds {
		t.Errorf("%d elements, %v, want %d", n, err, batches*each+writers*adds)
	}
}

// TestApplyDeltasFails: where the sync fails nobody knows of any of them, and what can't be begun has not happened.
func TestApplyDeltasFails(t *testing.T) {
	t.Parallel()
	p := newPair("a")
	p.open(t)
	log := holdLog(p.disk)
	done := make(chan []error)
	go func() {
		done <- p.store.Replica().ApplyDeltas(bg, []byte("s"), foreign("s", 1, 3), bigset.ApplyOptions{Durability: bigset.Sync})
	}()
	log.let(errors.New("no sync"))
	for i, err := range <-done {
		if !errors.Is(err, bigset.ErrFailed) {
			t.Errorf("delta %d: %v", i, err)
		}
	}
	errs := p.store.Replica().ApplyDeltas(bg, []byte("s"), foreign("s", 4, 2), bigset.ApplyOptions{Durability: bigset.Sync})
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Errorf("on a store that has failed: %v", errs)
	}
}

// TestGroupIsDone: the functions of a group of writers find each other, and Done comes once, after all of them. A writer alone has no group.
func TestGroupIsDone(t *testing.T) {
	t.Parallel()
	p := newPair("a")
	p.open(t)
	alone := false
	if _, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte("alone")}, bigset.WriteOptions{Durability: bigset.Sync, Applied: func(_ bigset.Result, g *bigset.Group) {
		alone = g == nil
	}}); err != nil || !alone {
		t.Errorf("a writer alone: %v, no group: %v", err, alone)
	}
	order := ""
	tells := bigset.WriteOptions{Durability: bigset.Sync, Applied: func(_ bigset.Result, g *bigset.Group) {
		order += "t"
		if g != nil && g.Value == nil {
			g.Value, g.Done = true, func() { order += "d" }
		}
	}}
	all := make([]bigset.WriteRequest, 4)
	for i := range all { // the third asks to be told nothing
		all[i] = bigset.WriteRequest{Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte{'w', byte(i)}}}, WriteOptions: tells}
	}
	all[2].Applied = nil
	for i, out := range p.store.WriteAll(bg, []byte("s"), all) {
		must(t, out.Err, fmt.Sprint("write ", i, " of a call"))
	}
	if order != "tttd" {
		t.Errorf("the writes of a call were told and done as %q", order)
	}
	const writers = 8
	type seen struct{ told, done int }
	var mu sync.Mutex
	var groups []*seen
	log := holdLog(p.disk)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, err := p.store.Add(bg, []byte("s"), [][]byte{{byte(i)}}, bigset.WriteOptions{Durability: bigset.Sync, Applied: func(_ bigset.Result, g *bigset.Group) {
				mu.Lock()
				defer mu.Unlock()
				if g == nil {
					groups = append(groups, &seen{told: 1, done: 1})
					return
				}
				if g.Value == nil {
					s := &seen{}
					groups = append(groups, s)
					g.Value, g.Done = s, func() { s.done++ }
				}
				s := g.Value.(*seen)
				if s.told++; s.done != 0 {
					t.Error("a group went on after it was done")
				}
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	log.let(nil)
	wg.Wait()
	told := 0
	for _, s := range groups {
		if told += s.told; s.done != 1 {
			t.Errorf("a group of %d was done %d times", s.told, s.done)
		}
	}
	if told != writers {
		t.Errorf("%d were told, want %d", told, writers)
	}
}

// TestWriteAll: writes of one call share a sync, and each is done, refused or repeated as by itself.
func TestWriteAll(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	syncs := 0
	disk.SetHook("count", func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			syncs++
		}
		return nil
	})
	s, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
	must(t, err, "open")
	defer s.Close()
	name := []byte("s")
	_, err = s.Add(bg, name, [][]byte{[]byte("old")}, bigset.WriteOptions{Durability: bigset.Sync})
	must(t, err, "add")
	one := func(kind keyscheme.Op, element, id string) bigset.WriteRequest {
		return bigset.WriteRequest{Ops: []bigset.Op{{Kind: kind, Element: []byte(element)}}, WriteOptions: bigset.WriteOptions{Durability: bigset.Sync, Request: []byte(id)}}
	}
	all := []bigset.WriteRequest{one(keyscheme.OpAdd, "a", "1"), one(keyscheme.OpRemove, "old", "2"), one(keyscheme.OpAdd, "a", "1"), one(keyscheme.OpRemove, "never", "3"),
		one(keyscheme.OpAdd, "b", strings.Repeat("x", 65)), one(keyscheme.Op('z'), "c", "4"), one(keyscheme.OpAdd, "d", "5")}
	all[6].Policy = bigset.PolicyRequired + 1
	for round := range 2 {
		before, applied, groups := syncs, 0, map[*bigset.Group]bool{}
		for i := range all {
			all[i].Applied = func(_ bigset.Result, g *bigset.Group) { applied++; groups[g] = true }
		}
		out := s.WriteAll(bg, name, all)
		if syncs != before+1 && round == 0 {
			t.Errorf("%d syncs, want 1", syncs-before)
		}
		for i, want := range []error{nil, nil, nil, nil, bigset.ErrLimit, bigset.ErrRequest, bigset.ErrRequest} {
			if !errors.Is(out[i].Err, want) || (out[i].Err == nil) != (want == nil) {
				t.Errorf("round %d, write %d: %v, want %v", round, i, out[i].Err, want)
			}
		}
		if out[0].Dots[0] != out[2].Dots[0] || out[0].Dots[0].Counter != 2 || out[1].Removed != 1 || !out[3].Delta.Empty() {
			t.Errorf("round %d: %+v", round, out)
		}
		if round == 0 && (applied != 3 || len(groups) != 1 || groups[nil]) {
			t.Errorf("%d were told what was applied, in groups %v", applied, groups)
		}
	}
	if n, err := s.Live(bg, name); err != nil || n != 1 {
		t.Errorf("%d live, %v", n, err)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	for _, out := range s.WriteAll(ended, name, all[:2]) {
		if !errors.Is(out.Err, context.Canceled) {
			t.Errorf("after its time: %v", out.Err)
		}
	}
}

// TestEventDots: an operation that finds more dots of its element than an event may name is refused, and with it all of its request. None of it is done. Requests
// that are in one batch with it are done.
func TestEventDots(t *testing.T) {
	t.Parallel()
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	must(t, err, "open")
	defer s.Close()
	s.BoundEvents(3)
	name := []byte("s")
	op := func(kind keyscheme.Op, element string) bigset.Op {
		return bigset.Op{Kind: kind, Element: []byte(element)}
	}
	for range 3 {
		_, err = s.Write(bg, name, []bigset.Op{op(keyscheme.OpAdd, "many"), op(keyscheme.OpAdd, "few")}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
		must(t, err, "add")
	}
	_, err = s.Write(bg, name, []bigset.Op{op(keyscheme.OpAdd, "many")}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
	must(t, err, "add")
	seen, err := s.Seen(bg, name)
	must(t, err, "seen")
	request := func(ops ...bigset.Op) bigset.WriteRequest { return bigset.WriteRequest{Ops: ops} }
	out := s.WriteAll(bg, name, []bigset.WriteRequest{request(op(keyscheme.OpRemove, "many")), request(op(keyscheme.OpRemove, "few"))})
	if !errors.Is(out[0].Err, bigset.ErrLimit) || out[1].Err != nil || len(out[1].Delta.Items[0].Context) != 3 {
		t.Errorf("alone in its request: %+v", out)
	}
	many := request(op(keyscheme.OpAdd, "y"), op(keyscheme.OpRemove, "many"))
	out = s.WriteAll(bg, name, []bigset.WriteRequest{request(op(keyscheme.OpAdd, "w")), many, request(op(keyscheme.OpAdd, "x")), many})
	next := seen.Max(out[0].Dots[0].Actor) + 1 // the remove of few took one
	for i, want := range []error{nil, bigset.ErrLimit, nil, bigset.ErrLimit} {
		if !errors.Is(out[i].Err, want) || (out[i].Err == nil) != (want == nil) {
			t.Errorf("write %d after another operation: %v, want %v", i, out[i].Err, want)
		} else if want == nil {
			if next++; out[i].Dots[0].Counter != next || out[i].Delta.First != next || len(out[i].Delta.Items) != 1 {
				t.Errorf("write %d has the dots %v, want %d", i, out[i].Dots, next)
			}
		} else if out[i].Dots != nil || !out[i].Delta.Empty() {
			t.Errorf("write %d was refused, and has %+v", i, out[i].Result)
		}
	}
	now, err := s.Seen(bg, name)
	must(t, err, "seen")
	if live, err := s.Live(bg, name); err != nil || live != 6 || now.Len() != seen.Len()+3 {
		t.Errorf("%d live, %v, %d events, want 6 and %d", live, err, now.Len(), seen.Len()+3)
	}
	_, err = s.Add(bg, name, [][]byte{[]byte("z")}, bigset.WriteOptions{})
	must(t, err, "add")
}

// TestBuiltAgain: a group whose batch is built again, because a request is refused late, does what every other request asks for once, and reports it once.
func TestBuiltAgain(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	now := time.UnixMilli(1_000_000_000)
	p.opt.Now = func() time.Time { return now }
	p.opt.RequestAge = time.Minute
	p.open(t)
	defer p.close(t)
	p.store.BoundEvents(3)
	name, replica := []byte("s"), p.store.Replica()
	facts := func(n uint64) (bigset.FactsResult, error) {
		return replica.ApplyFacts(bg, bigset.Facts{Set: name, Keys: []fold.Element{element("a", clock.Dot{Actor: "x", Counter: n})}, Dead: dotsOf("y", n, n)}, bigset.ApplyOptions{Durability: bigset.NoSync})
	}
	_, err := facts(1)
	must(t, err, "facts")
	for range 4 {
		_, err := p.store.Write(bg, name, []bigset.Op{addOp("many")}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
		must(t, err, "add")
	}
	p.asked(t, "old", bigset.NoSync, addOp("b"))
	must(t, p.store.RunnerTick(bg), "tick") // finds the record
	now = now.Add(time.Hour)                // and by now it may be forgotten

	var wrote bigset.Result
	var learned bigset.FactsResult
	var kept int
	var errs [4]error
	var all sync.WaitGroup
	must(t, p.store.HoldingWriters(name, func() error {
		for i, do := range []func() error{
			func() (err error) {
				wrote, err = p.store.Write(bg, name, []bigset.Op{addOp("c")}, bigset.WriteOptions{Request: []byte("new")})
				return err
			},
			func() (err error) { learned, err = facts(2); return err },
			func() (err error) {
				events := []keyscheme.RequestItem{{Op: keyscheme.OpAdd, Sum: keyscheme.ElementSum([]byte("a")), Context: clock.Of()}}
				kept, err = replica.KeepRequests(bg, []bigset.KeptRequest{{Set: name, ID: []byte("copied"), Actor: "x", First: 1, Events: events}}, bigset.NoSync)
				return err
			},
			func() error {
				_, err := p.store.Write(bg, name, []bigset.Op{addOp("d"), rmOp("many")}, bigset.WriteOptions{})
				return err
			},
		} {
			all.Go(func() { errs[i] = do() })
			p.queued(t, string(name), i+1)
		}
		return nil
	}), "hold")
	all.Wait()
	if err := errors.Join(errs[:3]...); err != nil || !errors.Is(errs[3], bigset.ErrLimit) {
		t.Fatalf("%v; the last is refused: %v", err, errs[3])
	}
	if learned != (bigset.FactsResult{Keys: 1, Dead: 1}) || kept != 1 {
		t.Errorf("learned %+v, kept %d records; want 1 of each", learned, kept)
	}
	if n, err := p.store.KeptRequests(); err != nil || n != 2 {
		t.Errorf("%d records on disk, %v, want the new one and the copied one", n, err)
	}
	sameResult(t, p.asked(t, "new", bigset.NoSync, addOp("c")), wrote)
	if n := p.known(t, "s").Seen.Len(); n != 10 {
		t.Errorf("%d events, want 10", n)
	}
	p.verify(t)
}
