package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/bench/result"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	"bigset/bench/system"
)

// parse reads a workload.
func parse(t *testing.T, text string) *spec.Workload {
	t.Helper()
	w, err := parser.Parse("test.yaml", []byte(text), parser.Known{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// everyKind has every kind that all systems do, by several clients and all distributions, and every step.
const everyKind = `
name: every-kind
about: every kind of operation
size: 2000
systems: [bigset, pebble, blob]
strategies: [run, point-deletes]
sets: {count: 3}
phases:
  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 100}
  - {name: change, first: [settle], clients: 3, ops: 50%, mix: {add: 2, replace: 1, remove: 1, exchange: 1}, batch: 7, choose: zipfian, settle: true}
  - {name: look, first: [verify, restart], clients: 2, ops: 300, mix: {hit: 1, miss: 1, dead: 1, range: 1, prefix: 1, read: 1, first: 1, count: 1}, limit: 20, choose: latest}
  - {name: none, first: [kill, verify], ops: 100, mix: {replace: 1, remove: 1}, context: none, choose: {kind: young, share: 10%, choices: 90%}}
  - {name: main, first: [compact, bottom], ops: 200, mix: {exchange: 1}, choose: sawtooth, compact: true, settle: true, rest: true}
  - {name: take, ops: 30, mix: {add: 5, take: 1}, turns: true, limit: 3}
  - {name: fresh, first: [fresh, verify], ops: 100, mix: {hit: 1, remove: 1}, choose: {kind: timeline, window: 50}}
  - {name: again, first: [empty], ops: 100, mix: {add: 1}}
  - {name: dropped, first: [drop], ops: 100, mix: {add: 1, count: 1}}
`

// TestEveryKind: all systems do every kind and step rightly, with the same operations in each round. So does one system of them on one processor;
// with another seed it does others.
func TestEveryKind(t *testing.T) {
	w := parse(t, everyKind)
	hashes := func(o Options) (list []string) {
		o.Sizes = []int{900} // which the blob has, too
		for _, r := range small(t, w, o) {
			if r.StreamHash == "" {
				t.Errorf("row %s of %s has no hash", r.Workload, r.System)
			}
			list = append(list, r.Workload+" "+r.StreamHash)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	first := hashes(Options{Rounds: 2})
	if len(first) != len(w.Rows()) {
		t.Errorf("%d hashes of %d rows: systems did not do the same: %v", len(first), len(w.Rows()), first)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := Options{Systems: []spec.System{spec.Bigset}, Strategies: []string{""}}
	if again := hashes(one); !slices.Equal(first, again) {
		t.Errorf("another run, on one processor, did other operations: %v, %v", first, again)
	}
	one.Seed = 2
	for _, h := range hashes(one) {
		if slices.Contains(first, h) {
			t.Errorf("another seed did the same operations: %s", h)
		}
	}
}

// wrongful is a system with a wrong answer.
type wrongful struct {
	system.System
	set func(system.Set) system.Set
}

func (w wrongful) Set(name string) system.Set { return w.set(w.System.Set(name)) }

type losing struct{ system.Set }

// Change drops the last of several new elements.
func (l losing) Change(c *system.Change) error {
	d := *c
	if len(d.Fresh) > 1 {
		d.Fresh, d.FreshDots = d.Fresh[1:], d.FreshDots[min(1, len(d.FreshDots)):]
	}
	return l.Set.Change(&d)
}

type finding struct{ system.Set }

// Contains finds everything.
func (finding) Contains([]byte) (bool, error) { return true, nil }

type blind struct{ system.Set }

// Contains finds nothing.
func (blind) Contains([]byte) (bool, error) { return false, nil }

type short struct{ system.Set }

// Read leaves an element out.
func (s short) Read(limit int, each func(int)) error {
	first := true
	return s.Set.Read(limit, func(n int) {
		if first {
			n--
		}
		first = false
		each(n)
	})
}

type shifted struct{ system.Set }

// Scan begins with another element.
func (s shifted) Scan(q system.Query, dst []byte) (int, []byte, error) {
	n, first, err := s.Set.Scan(q, dst)
	if len(first) > 0 {
		first[len(first)-1]++
	}
	return n, first, err
}

// TestWrongAnswers: systems that answer wrongly are found.
func TestWrongAnswers(t *testing.T) {
	const load = "name: wrong\nabout: wrong answers\nsize: 500\nphases:\n  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 100}\n"
	for name, c := range map[string]struct {
		main string
		set  func(system.Set) system.Set
	}{
		"loses":      {"mix: {first: 1}", func(s system.Set) system.Set { return losing{s} }},
		"finds all":  {"mix: {miss: 1}", func(s system.Set) system.Set { return finding{s} }},
		"finds none": {"mix: {hit: 1}", func(s system.Set) system.Set { return blind{s} }},
		"reads less": {"mix: {read: 1}", func(s system.Set) system.Set { return short{s} }},
		"begins off": {"mix: {range: 1}, limit: 5", func(s system.Set) system.Set { return shifted{s} }},
	} {
		w := parse(t, load+"  - {name: main, ops: 50, "+c.main+"}\n")
		if _, err := tiny(t, w, Options{Sizes: []int{500}}); err != nil {
			t.Fatalf("%s: a right system: %v", name, err)
		}
		_, err := tiny(t, w, Options{Sizes: []int{500}, wrap: func(s system.System) system.System { return wrongful{s, c.set} }})
		if !errors.Is(err, ErrWrong) {
			t.Errorf("a system that %s: got %v", name, err)
		}
	}
}

// TestCancel: a run that is cancelled at any time gives the rows of what was finished, leaves no folder and no goroutine.
func TestCancel(t *testing.T) {
	w := parse(t, `
name: cancelled
about: a run that ends early
size: 3000
phases:
  - {name: load, ops: 100%, mix: {add: 1}}
  - name: main
    duration: 1h
    roles:
      - {name: slow, rate: 0.5, mix: {add: 1}}
      - {name: fast, clients: 2, mix: {hit: 1}}
`)
	before := runtime.NumGoroutine()
	loaded := false
	for _, after := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second, 30 * time.Second} {
		if loaded {
			break
		}
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(context.Background(), after)
		began := time.Now()
		rows, err := Run(ctx, w, Options{Rounds: 1, Dir: dir})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: got %v", after, err)
		}
		if took := time.Since(began) - after; took > 20*time.Second {
			t.Errorf("%v: it ended %v after it was cancelled", after, took)
		}
		if loaded = after > 500*time.Millisecond && len(rows) > 0; loaded && (len(rows) != 1 || rows[0].Workload != "cancelled/load") {
			t.Errorf("%v: got rows %v, want that of the load", after, rows)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", after, left, err)
		}
	}
	if !loaded {
		t.Error("no run got beyond its load")
	}
	for until := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			buf := make([]byte, 1<<20)
			t.Fatalf("goroutines are left: %s", buf[:runtime.Stack(buf, true)])
		}
	}
}

// watching is an observer that reads all that it may, from another goroutine.
type watching struct {
	Nobody
	mu     sync.Mutex
	began  []string
	ended  []string
	open   int
	ops    uint64
	taken  int64
	groups []*sample.Latencies
}

func (w *watching) Opened(_ At, _ system.System, groups []*sample.Latencies) {
	w.open++
	w.groups = groups
}

func (w *watching) Closing(s system.System) {
	w.open--
	if _, err := s.Usage(); err != nil { // it may be used here
		panic(err)
	}
}

func (w *watching) PhaseBegan(p *Phase) {
	w.began = append(w.began, p.Name)
	go func() {
		for range 20 {
			w.mu.Lock()
			for _, role := range p.Roles {
				role.Read(make([]float64, len(role.Columns())))
				role.Ops()
			}
			p.Progress()
			w.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
}

func (w *watching) PhaseEnded(p *Phase, rows []result.Row) {
	w.ended = append(w.ended, p.Name)
	for _, role := range p.Roles {
		ops, _ := role.Ops()
		w.ops += ops
		if p.Name == "look" { // its operations are of one element each
			w.taken += role.Total().TotalCount() - int64(ops)
		}
	}
	if (len(rows) > 0) != p.Measured {
		panic("rows of an unmeasured phase")
	}
}

// TestObserver: an observer sees all phases and stores, may read while clients act, and takes nothing from the figures.
func TestObserver(t *testing.T) {
	w, o := parse(t, everyKind), &watching{}
	rows := small(t, w, Options{Observer: o, Systems: []spec.System{spec.Bigset}, Strategies: []string{""}})
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.began) != len(w.Phases) || !slices.Equal(o.began, o.ended) || o.open != 0 {
		t.Errorf("began %v, ended %v, %d stores are open", o.began, o.ended, o.open)
	}
	values := make([]float64, len(o.groups[0].Columns()))
	o.groups[0].Read(values)
	if o.taken != 0 || o.ops == 0 || values[0] != float64(o.ops) || len(o.groups) != 1 {
		t.Errorf("%d latencies more than calls, %d operations in all phases, a sampler sees %v", o.taken, o.ops, values)
	}
	for _, r := range rows {
		if r.P50 == nil || r.Ops == 0 {
			t.Errorf("row %s has no latencies", r.Workload)
		}
	}
}

// TestPaced: a role with a rate does as many operations as are due, and latencies count from when they were due. If a system stops once
// for a moment, all that were due in that moment are late.
func TestPaced(t *testing.T) {
	w := parse(t, "name: paced\nabout: a rate\nsize: 100\nphases:\n  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, duration: 1s, rate: 1000, clients: 2, mix: {hit: 1}}\n")
	for tries := 1; ; tries++ {
		stop := &stopping{at: 200, pause: 300 * time.Millisecond}
		rows := small(t, w, Options{Sizes: []int{100}, wrap: func(s system.System) system.System {
			return wrongful{s, func(set system.Set) system.Set { return stop.of(set) }}
		}})
		r := rows[0]
		if r.StreamHash != "" {
			t.Errorf("a phase that ends by time has the hash %s", r.StreamHash)
		}
		// One client of two stopped for 300 ms: about 150 of 1,000 operations waited, evenly up to that.
		if r.Ops > 1000 || r.P99 == nil || *r.P99 < 200_000 {
			t.Fatalf("got %d operations, want about 1,000; p99 %v µs: want a tail that waited", r.Ops, *r.P99)
		}
		if r.Ops >= 950 && *r.P50 <= 50_000 {
			break
		} else if tries == 10 { // this machine may have stopped, too
			t.Fatalf("got %d operations, want about 1,000; p50 %v µs: want a fast half", r.Ops, *r.P50)
		}
	}
}

// TestLate: operations that were due and not begun when a phase ended are counted, of all clients; where the rate was kept there are none.
func TestLate(t *testing.T) {
	w := parse(t, "name: late\nabout: a rate\nsize: 100\nphases:\n  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, duration: 300ms, rate: 2000, clients: 2, mix: {hit: 1}}\n  - {name: free, duration: 50ms, mix: {hit: 1}}\n")
	rows := small(t, w, Options{Sizes: []int{100}, wrap: func(s system.System) system.System {
		return wrongful{s, func(set system.Set) system.Set { return slowSet{set} }}
	}})
	if r := rows[0]; r.Late == nil || r.Ops+*r.Late != 600 || *r.Late < 100 {
		t.Errorf("%d operations, late %v: together they should be 600", r.Ops, r.Late)
	}
	if rows[1].Late != nil {
		t.Errorf("%d late operations without a rate", *rows[1].Late)
	}
}

type slowSet struct{ system.Set }

func (s slowSet) Contains(e []byte) (bool, error) {
	time.Sleep(2 * time.Millisecond)
	return s.Set.Contains(e)
}

type stopping struct {
	mu    sync.Mutex
	calls int
	at    int
	pause time.Duration
}

type stoppingSet struct {
	system.Set
	*stopping
}

func (s *stopping) of(set system.Set) system.Set { return stoppingSet{set, s} }

func (s stoppingSet) Contains(e []byte) (bool, error) {
	s.mu.Lock()
	s.calls++
	stop := s.calls == s.at
	s.mu.Unlock()
	if stop {
		time.Sleep(s.pause)
	}
	return s.Set.Contains(e)
}

// TestResume: a run goes on after its last finished round, with the rows that it had.
func TestResume(t *testing.T) {
	w := parse(t, "name: resume\nabout: rounds\nsize: 200\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n")
	var last *result.Unfinished
	stop := errors.New("stopped")
	_, err := tiny(t, w, Options{Sizes: []int{200}, Rounds: 3, Keep: func(u *result.Unfinished) error {
		last = u
		if u.Done == 2 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || last.Done != 2 {
		t.Fatalf("got %v", err)
	}
	var said []string
	rows := small(t, w, Options{Sizes: []int{200}, Rounds: 3, Unfinished: last, Progress: func(s string) { said = append(said, s) }})
	if len(said) != 1 || !strings.Contains(said[0], "round 3 of 3") || len(rows) != 1 || len(rows[0].Rounds) != 3 {
		t.Errorf("did %v, got %d rounds", said, len(rows[0].Rounds))
	}
	if _, err := tiny(t, w, Options{Sizes: []int{200}, Rounds: 3, Seed: 2, Unfinished: last}); !errors.Is(err, ErrWrong) {
		t.Errorf("rounds of other operations: got %v", err)
	}
}

// TestJudge: verdicts of a ratio, of a difference, of the smallest row, and of figures that nobody knows.
func TestJudge(t *testing.T) {
	row := func(system string, elements int, speeds ...float64) result.Row {
		r := result.Row{Workload: "w", System: system, Elements: elements}
		for _, s := range speeds {
			r.Rounds = append(r.Rounds, result.Figures{OpsPerSecond: s, BytesWritten: new(uint64(2 * s)), BytesWAL: new(uint64(s))})
		}
		r.Figures = result.Medians(r.Rounds)
		return r
	}
	rows := []result.Row{row("bigset", 10, 50, 60, 70), row("pebble", 10, 100, 100, 100), row("bigset", 50, 40, 40, 40), row("bigset", 100, 30, 30)}
	w := parse(t, `
name: w
about: verdicts
size: [10, 50, 100]
systems: [bigset, pebble]
phases: [{name: main, ops: 1, mix: {add: 1}}]
assert:
  - ops_per_s(main, bigset) / ops_per_s(main, pebble) >= 0.6
  - ops_per_s(main, bigset) / ops_per_s(main, bigset, smallest) >= 0.6
  - ops_per_s(main, bigset, smallest) / ops_per_s(main, bigset) <= 3
  - bytes_written(main, bigset, smallest) / bytes_wal(main, bigset, smallest) <= 3
  - bytes_written(main, pebble) - bytes_wal(main, bigset) <= 140
  - bytes_below_log(main, pebble) <= 99
  - p99(main, bigset) <= 1
`)
	var got []string
	for _, v := range Judge(w, rows, "") {
		v.Means = "x"
		got = append(got, v.String())
	}
	want := []string{
		"x: 0.6 (0.5..0.7), wanted >= 0.6: met",
		"x: 0.6667 (0.5714..0.8), wanted >= 0.6: met",
		"x: 0.5 (0.5..0.6), wanted >= 0.6: missed", // a round that only one row has is in neither end of the spread
		"x: 2 (1.667..2), wanted <= 3: met",        // beside the greatest size
		"x: 2 (2..2), wanted <= 3: met",
		"x: 140 (130..150), wanted <= 140: met",
		"x: 100 (100..100), wanted <= 99: missed",
		"x: no figure (wanted <= 1)", "x: no figure (wanted <= 1)", "x: no figure (wanted <= 1)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTurns: the order of the systems changes from round to round, so that each comes first.
func TestTurns(t *testing.T) {
	w := parse(t, "name: turns\nabout: order\nsize: 10\nsystems: [bigset, pebble, blob]\nphases:\n  - {name: main, ops: 10, mix: {add: 1}}\n")
	first := map[string]bool{}
	said := 0
	small(t, w, Options{Sizes: []int{10}, Rounds: 6, Progress: func(s string) {
		if said%3 == 0 {
			_, name, _ := strings.Cut(s, ": ")
			first[name] = true
		}
		said++
	}})
	if said != 18 || len(first) != 3 {
		t.Errorf("%d turns, of which the first were those of %v", said, first)
	}
}

// TestSameOps: systems that did other operations are not compared.
func TestSameOps(t *testing.T) {
	r := &runner{hashes: map[string]string{}}
	row := func(elements int, hash string) *result.Row {
		return &result.Row{Workload: "w", Elements: elements, StreamHash: hash}
	}
	for _, ok := range []*result.Row{row(1, "a"), row(1, "a"), row(2, "b"), row(1, "")} {
		if err := r.sameOps(ok); err != nil {
			t.Error(err)
		}
	}
	if err := r.sameOps(row(1, "b")); !errors.Is(err, ErrWrong) {
		t.Errorf("got %v", err)
	}
}

type slow struct{ system.Set }

// First takes long.
func (s slow) First(q system.Query) (bool, error) {
	time.Sleep(200 * time.Millisecond)
	return s.Set.First(q)
}

// TestProbe: the clock of the others stands still while a probe acts, and its row has its own time.
func TestProbe(t *testing.T) {
	w := parse(t, `
name: probed
about: a probe
size: 1000
phases:
  - name: main
    ops: 100%
    roles: [{mix: {add: 1}}, {name: look, mix: {first: 1}, every: 10%}]
`)
	for tries := 1; ; tries++ {
		rows := small(t, w, Options{Sizes: []int{1000}, wrap: func(s system.System) system.System {
			return wrongful{s, func(set system.Set) system.Set { return slow{set} }}
		}})
		main, look := rows[0], rows[1]
		if main.Ops != 1000 || look.Workload != "probed/look" || look.Ops != 10 {
			t.Fatalf("got %d operations, and %d of %s", main.Ops, look.Ops, look.Workload)
		}
		if look.OpsPerSecond > 5 || *look.P50 < 200_000 {
			t.Fatalf("the probe: %.1f a second, p50 %.0f µs", look.OpsPerSecond, *look.P50)
		}
		if main.OpsPerSecond >= 1000 && *main.P999 <= 150_000 { // with the probes' time it would be 500
			break
		} else if tries == 10 { // this machine may be slow for a moment, too
			t.Fatalf("%.0f a second; p999 %.0f µs", main.OpsPerSecond, *main.P999)
		}
	}
}

// TestBlobSizes: a system that runs sizes above its greatest at that runs them once.
func TestBlobSizes(t *testing.T) {
	w := parse(t, "name: sizes\nabout: sizes\nsize: [10, 20, 30]\nblob-size: 15\nsystems: [bigset, blob]\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n")
	var got []string
	for _, r := range small(t, w, Options{Sizes: []int{10, 20, 30}}) {
		got = append(got, fmt.Sprint(r.System, r.Elements, "x", len(r.Rounds)))
	}
	if want := "bigset10x1 blob10x1 bigset20x1 blob15x1 bigset30x1"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestPebbleOptions: systems take the options of the LSM that files may set.
func TestPebbleOptions(t *testing.T) {
	var names []string
	for _, o := range spec.Options() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, system.PebbleOptions()) {
		t.Errorf("files have %v, systems %v", names, system.PebbleOptions())
	}
	w := parse(t, "name: options\nabout: options\nsize: 500\nsystems: [bigset, pebble]\nstore: {pebble: {block-size: 4KiB, bloom-bits: 0, target-file-size: 64KiB, compactions: 1}}\n"+
		"phases:\n  - {name: main, ops: 100%, mix: {add: 1}, settle: true}\n")
	if rows := small(t, w, Options{Sizes: []int{500}}); len(rows) != 2 {
		t.Errorf("got %d rows", len(rows))
	}
	w.Store.Pebble["no-such"] = 1
	if _, err := tiny(t, w, Options{}); err == nil {
		t.Error("an option that there is not was taken")
	}
}

// TestBadOptions: options that can't be run are refused before anything is made.
func TestBadOptions(t *testing.T) {
	w := parse(t, everyKind)
	for name, o := range map[string]Options{
		"size": {Sizes: []int{-1}}, "strategy": {Strategies: []string{"none-such"}}, "system": {Systems: []spec.System{"other"}},
		"size twice": {Sizes: []int{10, 20, 10}}, "rounds": {Rounds: -1}, "memtable": {MemTableBytes: 5}, "unfinished": {Unfinished: &result.Unfinished{Workload: "other"}},
	} {
		if _, err := tiny(t, w, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// steps is an Observer of phases and steps, by their texts.
type steps struct {
	Nobody
	list *[]string
}

func (s steps) PhaseBegan(p *Phase)   { *s.list = append(*s.list, p.Name) }
func (s steps) StepBegan(text string) { *s.list = append(*s.list, text) }

// TestSteps: whatever can take long beside the operations of phases has a name.
func TestSteps(t *testing.T) {
	w := parse(t, `
name: steps
about: all that is done beside operations
size: 100
phases:
  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 10}
  - {name: main, first: [settle, bottom], ops: 20, mix: {remove: 1}, compact: true, settle: true, rest: true}
  - {name: opened, first: [fresh], reopen: restart}
  - {name: gone, ops: 1, mix: {drop: 1}, space-back: 50%}
`)
	var got []string
	if _, err := tiny(t, w, Options{Observer: steps{list: &got}, Sizes: []int{100}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"load", "before main: settling", "before main: moving everything to the bottommost level", "main", "main: compacting", "main: settling", "main: resting",
		"before opened: loading a new store", "opened", "opened: closing and opening the store", "gone", "gone: waiting for space", "verifying the store", "closing the store"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// ends is an Observer of what the clients of phases have done.
type ends struct {
	Nobody
	counts map[string][3]uint64 // operations, calls, bytes
}

func (e ends) PhaseEnded(p *Phase, _ []result.Row) {
	ops, bytes := p.Roles[0].Ops()
	e.counts[p.Name] = [3]uint64{ops, uint64(p.Roles[0].Total().TotalCount()), bytes}
}

// Elements count, whatever the batch: an exchange of one element for another counts 2, one of two counts 4.
func TestElementsCount(t *testing.T) {
	w := parse(t, `
name: counted
about: exchanges of one and of two elements
size: 100
phases:
  - {name: load, ops: 100%, mix: {add: 1}, batch: 10}
  - {name: one, ops: 20, mix: {exchange: 1}}
  - {name: two, ops: 20, mix: {exchange: 1}, batch: 2}
`)
	got := ends{counts: map[string][3]uint64{}}
	if _, err := tiny(t, w, Options{Observer: got, Sizes: []int{100}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][3]uint64{
		"load": {100, 10, 1600}, "one": {20, 10, 320}, "two": {20, 5, 320},
	} {
		if got.counts[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got.counts[name], want)
		}
	}
}

// dropped drops a set, opens what a crash would leave, and makes checkpoints beside writers.
const dropped = `
name: dropped
about: drops, crashes and checkpoints
size: 20k
systems: [bigset, pebble, blob]
sets: {count: 2}
phases:
  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 50}
  - {name: settled, first: [settle]}
  - {name: one, ops: 1, mix: {drop: 1}, space-back: 40%}
  - {name: other, ops: 1, mix: {drop: 1}, space-back: 98%}
  - {name: more, unmeasured: true, ops: 10%, mix: {add: 1}, batch: 5}
  - name: copies
    ops: 40
    roles: [{name: made, mix: {checkpoint: 1}}, {name: written, clients: 3, mix: {add: 1}}]
  - {name: crashed, reopen: kill}
  - {name: closed, first: [verify], reopen: restart}
  - {name: removed, first: [verify], ops: 5%, mix: {remove: 1}, batch: 10}
assert:
  - bytes_on_disk(one) / bytes_on_disk(settled) <= 60%
  - bytes_on_disk(other) / bytes_on_disk(settled) <= 5%
  - seconds(crashed) <= 60
  - ops(copies/made) >= 10
  - ops(copies/written) >= 30
`

// A phase that waits for space ends when there is space; stores are opened again with all that was in them; of checkpoints nothing is left.
func TestDropped(t *testing.T) {
	w := parse(t, dropped)
	rows := small(t, w, Options{Sizes: []int{20_000}})
	for _, s := range w.Systems {
		for i := range w.Assertions {
			w.Assertions[i].Of.System = s
			if w.Assertions[i].To != (spec.Ref{}) {
				w.Assertions[i].To.System = s
			}
		}
		for _, v := range Judge(w, rows, "") {
			if v.State != Met && (s == spec.Bigset || v.Of.Figure != "bytes_on_disk") { // a blob is much smaller
				t.Errorf("%s: %s", s, v)
			}
		}
	}
	for _, r := range rows {
		if name := strings.TrimPrefix(r.Workload, "dropped/"); (name == "crashed" || name == "closed") && (r.Ops != 1 || r.P50 == nil || *r.P50 <= 0 || r.BytesWAL == nil) {
			t.Errorf("%s of %s: %+v", name, r.System, r.Figures)
		}
	}
}

// TestUnequalParts: a batch that is nearly a whole set, whose elements several clients added unequally, ends.
func TestUnequalParts(t *testing.T) {
	w := parse(t, "name: parts\nabout: unequal parts\nsize: 200\nsets: {count: 10}\nphases:\n  - {name: load, unmeasured: true, clients: 4, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, ops: 100%, mix: {replace: 1}, batch: 50}\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Run(ctx, w, Options{Rounds: 1, Dir: t.TempDir(), MemTableBytes: 1 << 20}); err != nil {
		t.Error(err)
	}
}

// TestSlowRate: a phase with a rate that ends by time takes that time, also if its last call is due earlier; what was late is counted in
// operations.
func TestSlowRate(t *testing.T) {
	w := parse(t, "name: slow\nabout: a low rate\nsize: 100\nphases:\n  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, duration: 400ms, rate: 4, mix: {hit: 1}}\n  - {name: batches, duration: 200ms, rate: 1000, mix: {replace: 1}, batch: 10}\n")
	for tries := 1; ; tries++ {
		rows := small(t, w, Options{Sizes: []int{100}, wrap: func(s system.System) system.System {
			return wrongful{s, func(set system.Set) system.Set { return slowWrites{set} }}
		}})
		if r := rows[1]; r.Late == nil || r.Ops+*r.Late != 2000 {
			t.Errorf("%d operations, late %v: together they should be 2,000", r.Ops, r.Late)
		}
		if r := rows[0]; r.Ops == 2 && r.OpsPerSecond <= 5.1 {
			break
		} else if r.Ops > 2 || tries == 10 { // this machine may have stopped for a moment
			t.Fatalf("%d operations, %v a second: want the 2 of 400 ms", r.Ops, r.OpsPerSecond)
		}
	}
}

type slowWrites struct{ system.Set }

func (s slowWrites) Change(c *system.Change) error {
	time.Sleep(5 * time.Millisecond)
	return s.Set.Change(c)
}
