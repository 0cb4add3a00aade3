package coord_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// filterSchedule is a cluster with clients of filters of one name, two coordinators that come and go, and a network that loses, doubles,
// delays, reorders and cuts off. Every answer is compared with what was known when it was asked for.
type filterSchedule struct {
	*filterCluster
	rt    *rapid.T
	q     coord.Quorum
	disks []*testkit.Disk
	hints []*coord.Hints
	cos   []*coord.Coordinator
	last  uint64 // generation
	gens  map[uint64]*generation
	tally *filterTally
}

// generation is what is known of a filter.
type generation struct {
	begun, acked map[string]bool // marks of keys
	news         map[string]int  // how often a key was called new
	drop         bool            // one was begun
	dropped      bool            // one was acknowledged
}

// filterTally counts what schedules have met.
type filterTally struct{ marked, unknown, failed, checked, gone, drops, restarts, hinted, refused int }

// cleaning is a test whose clean-up runs on demand.
type cleaning struct {
	testing.TB
	todo []func()
}

func (c *cleaning) Cleanup(f func()) { c.todo = append(c.todo, f) }

func (c *cleaning) clean() {
	for _, f := range c.todo {
		f()
	}
}

// TestFilterSchedules: with R+W > N no key that was acknowledged is ever denied, and with 2W > N none is new twice; of a filter that was
// dropped nothing is seen any more, nor in the one that takes its place; hints bring all replicas what a coordinator knows of, and
// anti-entropy brings the rest.
func TestFilterSchedules(t *testing.T) {
	var total filterTally
	some := func(rt *rapid.T) {
		s := newSched(rapid.Uint64().Draw(rt, "seed"))
		s.Hurry = rapid.SampledFrom([]int{0, 30, 100}).Draw(rt, "hurry")
		q := rapid.SampledFrom([]coord.Quorum{{R: 2, W: 2}, {R: 1, W: 3}, {R: 3, W: 1}, {R: 2, W: 3}}).Draw(rt, "quorum")
		faults := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"lost", "mute", "reset", "twice", "late", "down", "joining"}), rapid.ID).Draw(rt, "faults")
		clients := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 15), 1, 10), 1, 4).Draw(rt, "clients")
		tb := &cleaning{TB: t}
		defer tb.clean()
		sc := &filterSchedule{filterCluster: newFilterCluster(tb, s, 3), rt: rt, q: q, last: 1, gens: map[uint64]*generation{}, tally: &total}
		sc.trouble(faults)
		sc.run(clients)
	}
	for range 5 { // a draw may have too few cases of one kind
		if rapid.Check(t, some); t.Failed() || total.enough() {
			break
		}
	}
	t.Logf("%+v", total)
	if !total.enough() && !testing.Short() {
		t.Errorf("schedules met too little: %+v", total)
	}
}

// enough reports whether schedules have met everything that they are for.
func (y *filterTally) enough() bool {
	return y.marked >= 80 && y.unknown >= 10 && y.checked >= 40 && y.drops >= 1 && y.restarts >= 3 && y.hinted >= 10 && y.refused >= 1
}

// trouble gives the links their faults.
func (sc *filterSchedule) trouble(faults []string) {
	for _, l := range sc.links {
		l.fault = func() string {
			if len(faults) == 0 || sc.s.rng.IntN(4) > 0 {
				return ""
			}
			f := faults[sc.s.rng.IntN(len(faults))]
			switch f {
			case "down":
				l.down = sc.s.rng.IntN(2) == 0
				return ""
			case "joining":
				l.SetState([]peer.MemberState{peer.Normal, peer.Joining}[sc.s.rng.IntN(2)])
				return ""
			}
			return f
		}
	}
}

func (sc *filterSchedule) run(clients [][]int) {
	for i := range 2 {
		sc.disks, sc.hints, sc.cos = append(sc.disks, testkit.NewDisk()), append(sc.hints, nil), append(sc.cos, nil)
		sc.start(i)
	}
	sc.s.run(sc.t, 2*time.Hour, func() {
		left := len(clients)
		for _, ops := range clients {
			sc.s.Go(func() {
				for _, op := range ops {
					sc.step(op)
				}
				left--
			})
		}
		sc.s.Yield(func() bool { return left == 0 })
	})
	for _, l := range sc.links { // all is well again, and hints are tried every minute
		l.down, l.fault = false, func() string { return "" }
		l.SetState(peer.Normal)
	}
	sc.s.Hurry = 0
	sc.s.run(sc.t, time.Hour, func() {})
	sc.compare()
}

// start makes a coordinator, over the hints that the one before has left. Each has an order of its own.
func (sc *filterSchedule) start(i int) {
	sc.hints[i] = sc.newHints(sc.disks[i])
	sc.cos[i] = sc.coordinator(coord.Options{Hints: sc.hints[i], HintInterval: time.Minute, Quorum: sc.q,
		PlaceSlice: coord.ListSlices(func(name []byte, slice uint32) []peer.SliceReplica { return sc.place(name, slice+uint32(2*i)) })})
}

func (sc *filterSchedule) generation(n uint64) *generation {
	if sc.gens[n] == nil {
		sc.gens[n] = &generation{begun: map[string]bool{}, acked: map[string]bool{}, news: map[string]int{}}
	}
	return sc.gens[n]
}

var scheduleKeys = []string{"a", "b", "c", "d", "e", "f"}

// step does one operation of a client.
func (sc *filterSchedule) step(op int) {
	rng := sc.s.rng
	n, i := sc.last, rng.IntN(2)
	if n > 1 && rng.IntN(4) == 0 {
		n-- // one that does not know the new one
	}
	f := filterOf(2, n)
	switch {
	case op < 7:
		var keys []string
		for range 1 + rng.IntN(3) {
			keys = append(keys, scheduleKeys[rng.IntN(len(scheduleKeys))])
		}
		sc.mark(sc.cos[i], f, keys)
	case op < 13:
		sc.check(sc.cos[i], f)
	case op == 13:
		sc.drop(sc.cos[i], f)
	case op == 14:
		sc.last++
	default:
		sc.tally.restarts++
		co, h := sc.cos[i], sc.hints[i]
		if err := co.Close(ctx); err != nil {
			sc.rt.Errorf("close: %v", err)
		}
		if sc.cos[i] == co { // nobody else has done so in between
			if err := h.Close(); err != nil {
				sc.rt.Errorf("close: %v", err)
			}
			sc.start(i)
		}
	}
}

func (sc *filterSchedule) mark(co *coord.Coordinator, f coord.Filter, keys []string) {
	g := sc.generation(f.Generation)
	for _, key := range keys {
		g.begun[key] = true
	}
	dropped := g.dropped
	added, err := co.MarkFilter(ctx, keysOf(f, keys...))
	lost := map[int]bool{}
	var fe *coord.FilterError
	switch {
	case err == nil:
	case errors.As(err, &fe):
		for _, i := range fe.Keys {
			lost[i] = true
		}
		sc.judge(f.Generation, err)
	case errors.Is(err, coord.ErrClosed):
		return
	default:
		sc.rt.Errorf("mark: %v", err)
		return
	}
	for i, key := range keys {
		if lost[i] {
			continue
		}
		sc.tally.marked++
		if dropped && 2*sc.q.W > 3 {
			sc.rt.Errorf("%q was marked in generation %d, which was dropped", key, f.Generation)
		}
		if g.acked[key] = true; added[i] {
			g.news[key]++
		}
		if g.news[key] > 1 && 2*sc.q.W > 3 {
			sc.rt.Errorf("%q was new twice", key)
		}
	}
}

// judge looks at an error.
func (sc *filterSchedule) judge(n uint64, err error) {
	switch {
	case errors.Is(err, bigset.ErrNoFilter):
		sc.tally.gone++
		for m, g := range sc.gens {
			if m > n || m == n && g.drop {
				return
			}
		}
		sc.rt.Errorf("generation %d: %v", n, err)
	case errors.Is(err, coord.ErrUnknown):
		sc.tally.unknown++
	case errors.Is(err, coord.ErrNoQuorum), errors.Is(err, coord.ErrClosed):
		sc.tally.failed++
	default:
		sc.rt.Errorf("%v", err)
	}
}

func (sc *filterSchedule) check(co *coord.Coordinator, f coord.Filter) {
	g := sc.generation(f.Generation)
	acked, dropped := maps.Clone(g.acked), g.dropped
	present, err := co.CheckFilter(ctx, keysOf(f, scheduleKeys...))
	lost := map[int]bool{}
	var fe *coord.FilterError
	if errors.As(err, &fe) {
		for _, i := range fe.Keys {
			lost[i] = true
		}
	}
	if err != nil {
		sc.judge(f.Generation, err)
	}
	if present == nil {
		return
	}
	for i, key := range scheduleKeys {
		switch {
		case lost[i]:
		case dropped:
			sc.rt.Errorf("generation %d was dropped, and answers about %q", f.Generation, key)
		case present[i] && !g.begun[key]:
			sc.rt.Errorf("generation %d has %q, which nobody has marked", f.Generation, key)
		case !present[i] && acked[key]:
			sc.rt.Errorf("generation %d denies %q, which was acknowledged", f.Generation, key)
		default:
			sc.tally.checked++
		}
	}
}

func (sc *filterSchedule) drop(co *coord.Coordinator, f coord.Filter) {
	g := sc.generation(f.Generation)
	g.drop = true
	err := co.DropFilter(ctx, coord.FilterDrop{Filter: f})
	if err == nil {
		g.dropped = true
		sc.tally.drops++
		return
	}
	sc.judge(f.Generation, err)
}

// compare looks at the replicas when everything has arrived: each has what any Normal replica has sent to a coordinator, for the coordinator
// has sent it to the others or kept a hint. Hints do not bring marks whose answer was lost, or came from a replica that was Joining by then:
// no coordinator has them, and their keys were acknowledged only if another replica marked them, too. After an exchange each replica has
// those as well, and all replicas are equal.
func (sc *filterSchedule) compare() {
	for i, h := range sc.hints {
		if nodes := h.Nodes(); len(nodes) > 0 {
			sc.rt.Errorf("coordinator %d still has hints for %v", i, nodes)
		}
	}
	sc.tally.hinted += sc.saw(coord.EventHintReplayed)
	sc.tally.refused += sc.saw(coord.EventRefused)
	sc.has("after the hints", func(l *sliceLink) []bigset.Marks { return l.marks })
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {0, 2}} {
		if _, err := coord.ExchangeSlices(ctx, sc.links[pair[0]].Replica, sc.links[pair[1]].Replica, 0, keyscheme.SlotMax); err != nil {
			sc.rt.Errorf("exchange of %v: %v", pair, err)
		}
	}
	sc.has("after the exchange", func(l *sliceLink) []bigset.Marks { return l.minted })
	want := sc.newest(sc.links[0])
	for _, l := range sc.links[1:] {
		if got := sc.newest(l); got != want {
			sc.rt.Errorf("after the exchange %s has\n%.2000s\n--- and node0\n%.2000s", l.node, got, want)
		}
	}
}

// newest is all that a replica has, without the drops of generations that a later one has replaced: a replica of the later one refuses
// the earlier ones in any case, and notes no drop of them.
func (sc *filterSchedule) newest(l *sliceLink) string {
	all := dumpSlices(sc.rt, l.Replica)
	if !strings.Contains(all, "dropped false") {
		return all
	}
	lines := slices.DeleteFunc(strings.Split(all, "\n"), func(line string) bool { return strings.HasSuffix(line, "dropped true") })
	return strings.Join(lines, "\n")
}

// has checks that all replicas have the marks of each, in the newest generation.
func (sc *filterSchedule) has(when string, marks func(*sliceLink) []bigset.Marks) {
	newest := uint64(0)
	for n := range sc.gens {
		newest = max(newest, n)
	}
	if g := sc.gens[newest]; g == nil || g.drop {
		return
	}
	for _, from := range sc.links {
		for _, m := range marks(from) {
			for _, l := range sc.links {
				if m.Generation == newest && !sc.all(l, m) {
					sc.rt.Errorf("%s: %s does not have all marks of %s", when, l.node, from.node)
				}
			}
		}
	}
}

// all reports whether a replica has all marks.
func (sc *filterSchedule) all(l *sliceLink, m bigset.Marks) bool {
	present, _, err := l.Replica.Check(ctx, m.SliceSpec, hashesOf(m))
	return err == nil && !slices.Contains(present, false)
}
