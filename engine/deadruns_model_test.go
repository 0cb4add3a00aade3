package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/keyscheme"
)

// runsMachine interleaves the steps of writers, finders and readers of one set in every order that the engine allows. A key
// is known by its counter.
type runsMachine struct {
	prefix  keyscheme.Prefix
	runs    *deadRuns
	keys    [][]byte          // by counter
	applied map[int]bool      // keys that an iterator would show
	dead    map[int]uint64    // key -> the version in which it died
	version uint64            // of dead
	batch   []int             // split at and not applied yet
	finders []*modelFinder    // that have opened their iterators, or are about to
	readers []*modelReader    // in the middle of opening
	seen    map[string]uint64 // what the runs have come to
}

// modelReader has taken a view, and may have opened its iterator.
type modelReader struct {
	version uint64
	shown   map[int]bool // by its iterator; nil before it is open
}

type modelFinder struct {
	modelReader
	f *runFinder
}

const runsMachineElements = 40

func runElement(i int) []byte { return fmt.Appendf(nil, "e%02d", i) }

// live returns the keys that are live for a reader, ascending.
func (m *runsMachine) live(r *modelReader) (keys [][]byte) {
	for n := range r.shown {
		if v, died := m.dead[n]; !died || v > r.version {
			keys = append(keys, m.keys[n])
		}
	}
	slices.SortFunc(keys, comparator.Compare)
	return keys
}

func (m *runsMachine) split(t *rapid.T) {
	if m.batch != nil {
		t.Skip("one batch at a time")
	}
	var keys []keptKey
	for _, e := range rapid.SliceOfN(rapid.IntRange(0, runsMachineElements-1), 1, 3).Draw(t, "elements") {
		n := len(m.keys)
		m.keys = append(m.keys, m.prefix.AppendElement(nil, runElement(e), clock.Dot{Actor: "n", Counter: uint64(n + 1)}, keyscheme.OpAdd))
		m.batch, keys = append(m.batch, n), append(keys, newKept(m.keys[n], keyscheme.ResolvedValue))
	}
	m.runs.split(len(m.prefix), keys)
}

func (m *runsMachine) apply(t *rapid.T) {
	if m.batch == nil {
		t.Skip("no batch")
	}
	for _, n := range m.batch {
		m.applied[n] = true
	}
	m.batch = nil
	m.runs.applied()
}

// kill lets most keys die: runs are long.
func (m *runsMachine) kill(t *rapid.T) {
	m.version++
	stays := rapid.IntRange(0, 5).Draw(t, "stays")
	for _, n := range slices.Sorted(maps.Keys(m.applied)) {
		if _, died := m.dead[n]; !died && n%6 != stays {
			m.dead[n] = m.version
		}
	}
}

func (m *runsMachine) find(t *rapid.T) {
	f := m.runs.find()
	if (f == nil) != (len(m.finders) == findersMax) {
		t.Fatalf("a finder %v beside %d", f, len(m.finders))
	}
	if f == nil {
		m.runs.leave(m.finders[0].f)
		m.finders = m.finders[1:]
	} else {
		m.finders = append(m.finders, &modelFinder{modelReader{version: m.version}, f})
	}
}

func (m *runsMachine) view(*rapid.T) {
	m.readers = append(m.readers, &modelReader{version: m.version})
}

// open opens the iterator of a finder or of a reader.
func (m *runsMachine) open(t *rapid.T) {
	all := slices.Clone(m.readers)
	for _, f := range m.finders {
		all = append(all, &f.modelReader)
	}
	all = slices.DeleteFunc(all, func(r *modelReader) bool { return r.shown != nil })
	if len(all) == 0 {
		t.Skip("nobody opens")
	}
	rapid.SampledFrom(all).Draw(t, "reader").shown = maps.Clone(m.applied)
}

// learn has a finder remember one of its gaps, whole or in part.
func (m *runsMachine) learn(t *rapid.T) {
	i := slices.IndexFunc(m.finders, func(f *modelFinder) bool { return f.shown != nil })
	if i < 0 {
		t.Skip("no finder")
	}
	f := m.finders[i]
	whole := m.prefix.Elements()
	edges := [][]byte{whole.Lower}
	for _, k := range m.live(&f.modelReader) {
		before, behind := elementBounds(len(m.prefix), k)
		edges = append(edges, before, behind)
	}
	edges = append(edges, whole.Upper)
	gap := 2 * rapid.IntRange(0, len(edges)/2-1).Draw(t, "gap")
	run := deadRun{from: edges[gap], to: edges[gap+1], version: f.version, keys: rapid.IntRange(8, 64).Draw(t, "keys")}
	if at := m.prefix.AppendElementBound(nil, runElement(rapid.IntRange(0, runsMachineElements).Draw(t, "from"))); rapid.Bool().Draw(t, "a part") {
		run.from = later(run.from, at)
	}
	if comparator.Compare(run.from, run.to) < 0 {
		m.runs.learn(f.f, run)
	}
	if rapid.Bool().Draw(t, "leaves") {
		m.runs.leave(f.f)
		m.finders = slices.Delete(m.finders, i, i+1)
	}
}

// learnHead makes a finder remember a range in which it has read all live keys.
func (m *runsMachine) learnHead(t *rapid.T) {
	i := slices.IndexFunc(m.finders, func(f *modelFinder) bool { return f.shown != nil })
	if i < 0 {
		t.Skip("no finder")
	}
	f := m.finders[i]
	from, to := rapid.IntRange(0, runsMachineElements/2).Draw(t, "from"), rapid.IntRange(1, runsMachineElements).Draw(t, "to")
	h := &headRun{deadRun{from: m.prefix.AppendElementBound(nil, runElement(from)), to: m.prefix.AppendElementBound(nil, runElement(to)),
		version: f.version, keys: 20}, &clock.Clock{}}
	if comparator.Compare(h.from, h.to) >= 0 {
		t.Skip("nothing")
	}
	for _, k := range m.live(&f.modelReader) {
		if comparator.Compare(k, h.from) >= 0 && comparator.Compare(k, h.to) < 0 {
			_, actor, counter, _, _ := keyscheme.DecodeElement(len(m.prefix), k)
			h.live.Add(clock.Dot{Actor: clock.Actor(actor), Counter: counter})
		}
	}
	m.runs.learnHead(f.f, h)
}

// viewOf returns the view of a reader.
func (m *runsMachine) viewOf(r *modelReader) *view {
	v := &view{dead: &clock.Clock{}, version: r.version}
	for n, died := range m.dead {
		if died <= r.version {
			v.dead.Add(clock.Dot{Actor: "n", Counter: uint64(n + 1)})
		}
	}
	return v
}

// take has a reader take the runs that it will seek over: none may hold a key that is live for it.
func (m *runsMachine) take(t *rapid.T) {
	i := slices.IndexFunc(m.readers, func(r *modelReader) bool { return r.shown != nil })
	if i < 0 {
		t.Skip("no reader")
	}
	r := m.readers[i]
	m.readers = slices.Delete(m.readers, i, i+1)
	head := m.runs.head
	runs := m.runs.within(m.prefix.Elements(), m.viewOf(r))
	if m.runs.head != head {
		m.seen["heads"]++
	}
	for _, run := range runs {
		for _, k := range m.live(r) {
			if comparator.Compare(k, run.from) >= 0 && comparator.Compare(k, run.to) < 0 {
				t.Fatalf("%s is live and in the run %s to %s", comparator.Format(k), comparator.Format(run.from), comparator.Format(run.to))
			}
		}
	}
	m.seen["taken"] += uint64(len(runs))
}

func (m *runsMachine) check(t *rapid.T) {
	var bytesOf int64
	for i, r := range m.runs.list {
		bytesOf += r.heapBytes()
		if comparator.Compare(r.from, r.to) >= 0 || i > 0 && comparator.Compare(m.runs.list[i-1].to, r.from) > 0 {
			t.Fatalf("run %d of %v", i, m.runs.list)
		}
	}
	if m.runs.head != nil {
		bytesOf += m.runs.head.heapBytes()
	}
	if len(m.runs.list) > runsMax || bytesOf != m.runs.bytes || len(m.runs.finders) != len(m.finders) {
		t.Fatalf("%d runs, %d bytes, counted %d, %d finders, want %d", len(m.runs.list), bytesOf, m.runs.bytes, len(m.runs.finders), len(m.finders))
	}
}

// TestDeadRunsModel: no reader takes a run with a key that is live for it, however the steps of writers, finders and readers
// fall.
func TestDeadRunsModel(t *testing.T) {
	t.Parallel()
	seen := map[string]uint64{}
	for range 20 {
		rapid.Check(t, func(t *rapid.T) {
			m := &runsMachine{prefix: keyscheme.NewPrefix([]byte("s")), runs: &deadRuns{keysMin: 4},
				applied: map[int]bool{}, dead: map[int]uint64{}, seen: seen}
			for range 4 {
				t.Repeat(map[string]func(*rapid.T){
					"split": m.split, "apply": m.apply, "kill": m.kill, "find": m.find, "view": m.view,
					"open": m.open, "open2": m.open, "learn": m.learn, "learn2": m.learn, "learnHead": m.learnHead, "take": m.take, "": m.check,
				})
			}
		})
	}
	if seen["taken"] == 0 || seen["heads"] == 0 {
		t.Error("no reader took a run, or none made one of a head")
	}
	t.Logf("%d runs taken, %d heads died", seen["taken"], seen["heads"])
}

// TestDeadRunsBounded: a set keeps a limited number of runs, the newest ones, and none with very long bounds.
func TestDeadRunsBounded(t *testing.T) {
	p := keyscheme.NewPrefix([]byte("s"))
	d := &deadRuns{keysMin: runKeysMin}
	f := d.find()
	run := func(i int) deadRun {
		return deadRun{from: p.AppendElementBound(nil, fmt.Appendf(nil, "%06d", i)), to: p.AppendElementAfter(nil, fmt.Appendf(nil, "%06d", i)), keys: 1000}
	}
	for i := range 10 * runsMax {
		d.learn(f, run(i))
	}
	if last := run(10*runsMax - 1); len(d.list) == 0 || len(d.list) > runsMax || !bytes.Equal(d.list[len(d.list)-1].from, last.from) {
		t.Errorf("%d runs", len(d.list))
	}
	before := len(d.list)
	d.learn(f, deadRun{from: p.Elements().Lower, to: p.AppendElementBound(nil, make([]byte, 2*runBytesMax)), keys: 1000})
	if len(d.list) != before {
		t.Error("a run with very long bounds was kept")
	}
}

// TestDeadRunsBeginBetweenBatches: a set begins to remember runs when no batch is under way: nothing reported the keys of one that is.
func TestDeadRunsBeginBetweenBatches(t *testing.T) {
	st := &set{}
	st.queue = []*request{newRequest(&dropping{}, bigset.NoSync), newRequest(&dropping{}, bigset.NoSync)}
	st.led = true
	if st.takeGroup(); st.runs.Load() != nil {
		t.Fatal("runs that nobody asked for")
	}
	st.watchRuns(4)
	st.watchRuns(4)
	if st.runs.Load() != nil {
		t.Error("runs in the middle of a batch")
	}
	st.queue = []*request{newRequest(&dropping{}, bigset.NoSync)}
	if st.takeGroup(); st.runs.Load() == nil {
		t.Error("no runs at the next batch")
	}
	idle := &set{}
	idle.watchRuns(4)
	first := idle.runs.Load()
	if idle.watchRuns(4); first == nil || idle.runs.Load() != first {
		t.Error("an idle set does not begin at once, or begins again")
	}
}
