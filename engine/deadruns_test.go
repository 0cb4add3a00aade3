package engine_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// runStore opens a store of large memtables without background work. Its dead runs are those of a real one.
func runStore(t *testing.T, strategy compaction.Strategy) *engine.Store {
	t.Helper()
	record := compaction.Merge
	if strategy.WorksOn(record) != nil {
		record = compaction.Set
	}
	s, err := engine.Open(t.TempDir(), &engine.Options{Record: record, Strategy: strategy, BackgroundInterval: -1, Durability: bigset.NoSync})
	must(t, err, "open")
	t.Cleanup(func() { must(t, s.Close(), "close") })
	return s
}

func runNames(format string, n int) (names [][]byte) {
	for i := range n {
		names = append(names, fmt.Appendf(nil, format, i))
	}
	return names
}

// leaveDead leaves a set with a live element on each side of n dead keys.
func leaveDead(t *testing.T, s *engine.Store, set []byte, n int) {
	t.Helper()
	dead := runNames("m%06d", n)
	for _, elements := range [][][]byte{{[]byte("a"), []byte("z")}, dead} {
		_, err := s.Add(bg, set, elements, bigset.WriteOptions{})
		must(t, err, "add")
	}
	_, err := s.Remove(bg, set, dead, bigset.WriteOptions{})
	must(t, err, "remove")
}

var runSet = []byte("s")

// steps reads and returns how many keys that took; the elements must be those wanted.
func steps(t *testing.T, s *engine.Store, o bigset.ReadOptions, want ...string) (n, runs int) {
	t.Helper()
	n, runs, got, err := s.ReadSteps(runSet, o)
	must(t, err, "read")
	if !slices.Equal(got, want) {
		t.Fatalf("read %+v: %q, want %q", o, got, want)
	}
	return n, runs
}

// TestDeadRunsAreSkipped: the first reader steps over all dead keys, the second remembers them, and those after seek over
// them: in both directions, from all bounds, whether the drop filter hides the keys or not, in chunks of any size, counting or
// reading.
func TestDeadRunsAreSkipped(t *testing.T) {
	t.Parallel()
	const n = 5000
	for _, c := range []struct {
		what     string
		strategy compaction.Strategy
		publish  bool
	}{
		{"seen", compaction.Default(), false},
		{"hidden", compaction.Default(), true},
		{"deleted", compaction.PointDeletes(), false},
	} {
		for _, learning := range []bigset.ReadOptions{{}, {Reverse: true}, {BatchSize: 1}, {BatchSize: 1, Reverse: true}} {
			t.Run(fmt.Sprintf("%s %+v", c.what, learning), func(t *testing.T) {
				s := runStore(t, c.strategy)
				leaveDead(t, s, runSet, n)
				if c.publish {
					for range 2 {
						must(t, s.PublisherRound(), "publish")
					}
				}
				both := []string{"a", "z"}
				if learning.Reverse {
					both = []string{"z", "a"}
				}
				for i := range 2 {
					if took, _ := steps(t, s, learning, both...); took < n {
						t.Fatalf("read %d took %d steps", i, took)
					}
				}
				for _, o := range []bigset.ReadOptions{{}, {BatchSize: 1}, {From: []byte("b")}, {From: []byte("m000100")},
					{After: []byte("m000100")}, {To: []byte("m000200")}, {From: []byte("m0001"), To: []byte("m0002")},
					{Prefix: []byte("m")}, {Prefix: []byte("z")}, {Limit: 1}} {
					for _, reverse := range []bool{false, true} {
						if o.Reverse = reverse; reverse && o.After != nil {
							continue
						}
						var want []string
						for _, e := range both {
							if (o.From == nil || e >= string(o.From)) && (o.To == nil || e < string(o.To)) && strings.HasPrefix(e, string(o.Prefix)) &&
								(o.After == nil || e > string(o.After)) {
								want = append(want, e)
							}
						}
						slices.Sort(want)
						if reverse {
							slices.Reverse(want)
						}
						if o.Limit > 0 {
							want = want[:1]
						}
						if took, runs := steps(t, s, o, want...); took > 8 {
							all, _ := s.DeadRuns(runSet)
							t.Errorf("%+v took %d steps, %d runs passed; there are %q", o, took, runs, all)
						}
						count, err := s.Count(bg, runSet, engine.CountOptions{ReadOptions: o})
						must(t, err, "count")
						if o.Limit == 0 && count.Elements != uint64(len(want)) {
							t.Errorf("count of %+v is %d, want %d", o, count.Elements, len(want))
						}
					}
				}
			})
		}
	}
}

// TestDeadRunsOfQueue: what is taken from the head joins the existing run, what is added at the end does not disturb it,
// and a queue that was emptied is read at once.
func TestDeadRunsOfQueue(t *testing.T) {
	s := runStore(t, compaction.Default())
	names := runNames("e%06d", 20_000)
	added, taken := 0, 0
	for taken < len(names) {
		if added < len(names) {
			_, err := s.Add(bg, runSet, names[added:added+500], bigset.WriteOptions{})
			must(t, err, "add")
			added += 500
		}
		if added-taken < 1000 && added < len(names) {
			continue
		}
		var want []string
		for _, e := range names[taken : taken+150] {
			want = append(want, string(e))
		}
		took, _ := steps(t, s, bigset.ReadOptions{Limit: 150}, want...)
		if taken > 1000 && took > 200 {
			runs, _ := s.DeadRuns(runSet)
			t.Fatalf("with %d taken, reading 150 at the head took %d steps; runs %q", taken, took, runs)
		}
		var ops []bigset.Op
		for _, e := range names[taken : taken+150] {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpRemove, Element: e})
		}
		_, err := s.Write(bg, runSet, ops, bigset.WriteOptions{})
		must(t, err, "remove")
		if taken += 150; taken+150 > len(names) {
			_, err := s.Remove(bg, runSet, names[taken:], bigset.WriteOptions{})
			must(t, err, "remove the rest")
			break
		}
	}
	for range 2 {
		must(t, s.PublisherRound(), "publish")
	}
	steps(t, s, bigset.ReadOptions{})
	if took, _ := steps(t, s, bigset.ReadOptions{}); took > 2 {
		t.Errorf("reading the empty queue took %d steps", took)
	}
	runs, finders := s.DeadRuns(runSet)
	if len(runs) != 1 || finders != 0 {
		t.Errorf("%d finders left, and the runs %q", finders, runs)
	}
}

// TestDeadRunsAreSplit: an element that any kind of write puts into a run is present, and the rest of the run is
// still seeked over.
func TestDeadRunsAreSplit(t *testing.T) {
	other := runStore(t, compaction.Default())
	s := runStore(t, compaction.Default())
	leaveDead(t, s, runSet, 5000)
	for range 2 {
		steps(t, s, bigset.ReadOptions{}, "a", "z")
	}
	_, err := s.Add(bg, runSet, [][]byte{[]byte("m002500")}, bigset.WriteOptions{})
	must(t, err, "add")
	if took, _ := steps(t, s, bigset.ReadOptions{}, "a", "m002500", "z"); took > 10 {
		t.Errorf("with one run split in two, a read took %d steps", took)
	}
	res, err := other.Add(bg, runSet, [][]byte{[]byte("m001000"), []byte("m001000x"), []byte("m004999")}, bigset.WriteOptions{})
	must(t, err, "add elsewhere")
	must(t, s.Replica().ApplyDelta(bg, res.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
	want := []string{"a", "m001000", "m001000x", "m002500", "m004999", "z"}
	steps(t, s, bigset.ReadOptions{}, want...)
	slices.Reverse(want)
	steps(t, s, bigset.ReadOptions{Reverse: true}, want...)
}

// TestDeadRunsOfLaterChunks: only the first chunk after a run is taken for the head of a queue; and a head of which a part
// is removed keeps the rest.
func TestDeadRunsOfLaterChunks(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		s := runStore(t, compaction.Default())
		names := runNames("e%06d", 300)
		_, err := s.Add(bg, runSet, names, bigset.WriteOptions{})
		must(t, err, "add")
		gone := map[string]bool{}
		remove := func(names [][]byte) {
			_, err := s.Remove(bg, runSet, names, bigset.WriteOptions{})
			must(t, err, "remove")
			for _, e := range names {
				gone[string(e)] = true
			}
		}
		remove(names[:100])
		remove(names[200:])
		for range 10 {
			for _, batch := range []int{3, 3, 3} {
				var want []string
				for _, e := range names {
					if !gone[string(e)] {
						want = append(want, string(e))
					}
				}
				if reverse {
					slices.Reverse(want)
				}
				steps(t, s, bigset.ReadOptions{BatchSize: batch, Reverse: reverse}, want...)
			}
			var left [][]byte
			for _, e := range names {
				if !gone[string(e)] {
					left = append(left, e)
				}
			}
			if reverse {
				slices.Reverse(left)
			}
			last := (len(left) - 1) / 3 * 3 // where the last chunk of the last read began
			remove(left[last:])
			remove([][]byte{left[5], left[1]})
		}
	}
}

// TestDeadRunFoundTooLate: a reader that began before an element was written into what is a run for it does not have the
// run remembered.
func TestDeadRunFoundTooLate(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		s := runStore(t, compaction.Default())
		leaveDead(t, s, runSet, 5000)
		steps(t, s, bigset.ReadOptions{}, "a", "z") // from here on finders look out
		next, stop := iter.Pull2(s.Read(bg, runSet, bigset.ReadOptions{BatchSize: 1, Reverse: reverse}))
		if chunk, err, ok := next(); err != nil || !ok || len(chunk.Elements) != 1 {
			t.Fatalf("first chunk: %v, %v, %v", chunk, err, ok)
		}
		for i := range 40 { // more than a finder keeps apart
			_, err := s.Add(bg, runSet, [][]byte{fmt.Appendf(nil, "m%06d", 100*i)}, bigset.WriteOptions{})
			must(t, err, "add")
		}
		for ok := true; ok; {
			var chunk *fold.Chunk
			var err error
			if chunk, err, ok = next(); ok {
				must(t, err, "next")
				if n := len(chunk.Elements); n > 1 || n == 1 && strings.HasPrefix(string(chunk.Elements[0].Name), "m") {
					t.Fatalf("the reader from before sees %q", chunk.Elements)
				}
			}
		}
		stop()
		_, _, elements, err := s.ReadSteps(runSet, bigset.ReadOptions{})
		must(t, err, "read")
		if runs, finders := s.DeadRuns(runSet); len(elements) != 42 || finders != 0 {
			t.Errorf("%d elements, want 42; runs %q, %d finders", len(elements), runs, finders)
		}
	}
}

// TestDeadRunsUnderWriters: pairs of an element within a run and one outside are added and removed, each pair by one batch,
// while readers look for runs, use them, and find each pair whole or not at all, in one chunk that is one moment.
func TestDeadRunsUnderWriters(t *testing.T) {
	t.Parallel()
	const pairs, dead = 8, 300
	p := newPair("runs")
	busy(p)
	p.open(t)
	defer p.close(t)
	s := p.store
	leaveDead(t, s, runSet, dead)
	pair := func(i int) [][]byte {
		return [][]byte{fmt.Appendf(nil, "b%02d", i), fmt.Appendf(nil, "m%06d", dead*(2*i+1)/(2*pairs)), fmt.Appendf(nil, "y%02d", i)}
	}
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	r := tier.Random(t)
	for w := range 2 {
		seed := r.Uint64()
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range tier.Times(3000) {
				elements := pair(2*rng.IntN(pairs/2) + w)
				write, adds := s.Add, rng.IntN(2) == 0
				if !adds {
					write = s.Remove
				}
				if _, err := write(bg, runSet, elements, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(4) > 0 { // nobody else writes these
					continue
				}
				found, err := s.Count(bg, runSet, engine.CountOptions{ReadOptions: bigset.ReadOptions{From: elements[1], To: append(slices.Clone(elements[1]), 0)}})
				if err != nil || (found.Elements == 1) != adds {
					t.Errorf("%q, added %v, counts %d times: %v", elements[1], adds, found.Elements, err)
				}
			}
		})
	}
	for i := range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for chunk, err := range s.Read(bg, runSet, bigset.ReadOptions{Reverse: i == 1}) {
					if err != nil {
						t.Error(err)
						return
					}
					have := map[string]bool{}
					for _, e := range chunk.Elements {
						have[string(e.Name)] = true
					}
					for i := range pairs {
						e := pair(i)
						if have[string(e[0])] != have[string(e[1])] || have[string(e[1])] != have[string(e[2])] {
							t.Errorf("%s: %v, %s: %v, %s: %v", e[0], have[string(e[0])], e[1], have[string(e[1])], e[2], have[string(e[2])])
							return
						}
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if s.RunsPassed() == 0 {
		t.Error("no run was seeked over")
	}
	t.Logf("%d runs seeked over", s.RunsPassed())
}
