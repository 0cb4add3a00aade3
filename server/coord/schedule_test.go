package coord_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

var seedFlag = flag.Uint64("coord.seed", 0, "run this schedule alone")

// schedule is a cluster with clients, two coordinators and a network that loses, doubles, delays and cuts off. What was answered
// is compared with what the replicas have, at the moment of the answer and at the end, when hints alone have brought the rest.
type schedule struct {
	*cluster
	t     *testing.T
	cos   []*coord.Coordinator
	hints []*coord.Hints
	seen  []bigset.Context // of elements, that clients hold
	names []string         // of the elements of seen

	requests int
	tally    *tally
	together bool // writes go to the coordinators together, where they meet
	doors    [2][]coord.WriteCall
}

// tally counts what schedules have met.
type tally struct{ ok, unknown, noQuorum, hinted, orphans, behind, retried, elsewhere, lateDisks, together int }

func runSchedule(t *testing.T, seed uint64, total *tally) {
	s := newSched(seed)
	s.Hurry = []int{0, 30, 100}[s.rng.IntN(3)]
	sc := &schedule{cluster: newCluster(t, s, 3), t: t, tally: total, together: seed%2 == 0}
	faults := []string{"lost", "mute", "twice", "down"}
	s.rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	faults = faults[:s.rng.IntN(len(faults)+1)]
	for _, l := range sc.links {
		l.fault = func() string {
			if len(faults) == 0 || s.rng.IntN(5) > 0 {
				return ""
			}
			f := faults[s.rng.IntN(len(faults))]
			if f == "down" {
				l.down = s.rng.IntN(2) == 0
				return ""
			}
			return f
		}
	}
	for range 2 {
		h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
		order := s.rng.Perm(3)
		place := func([]byte) (all []peer.Replica) {
			for _, i := range order {
				all = append(all, sc.links[i])
			}
			return all
		}
		sc.hints = append(sc.hints, h)
		o := coord.Options{Place: coord.List(place), Hints: h, HintInterval: time.Minute}
		if s.rng.IntN(2) == 0 {
			o.Place = sc.placeAtHand(order[0], func() error {
				s.Sleep(time.Duration(s.rng.IntN(100)) * time.Millisecond)
				if s.rng.IntN(10) > 0 {
					return nil
				}
				sc.tally.lateDisks++
				return bigset.ErrFailed
			})
		}
		sc.cos = append(sc.cos, sc.coordinator(o))
	}
	s.run(t, time.Hour, func() {
		clients := 3
		for range clients {
			s.Go(func() {
				for range 6 {
					sc.step()
				}
				clients--
			})
		}
		s.Yield(func() bool { return clients == 0 })
	})
	for _, l := range sc.links { // all is well again, and hints are tried every minute
		l.down, l.fault = false, func() string { return "" }
	}
	s.Hurry = 0
	s.run(t, time.Hour, func() {})
	for _, d := range sc.orphan { // hints can't help; anti-entropy would
		for _, l := range sc.links {
			if _, err := l.Replica.Apply(ctx, d, bigset.Sync); err != nil {
				t.Error(err)
			}
		}
	}
	sc.compare(seed)
}

// step does one operation of a client.
func (sc *schedule) step() {
	rng := sc.s.rng
	element := string(rune('a' + rng.IntN(3)))
	w := coord.Write{Set: set, Ops: add(element), Quorum: coord.Quorum{W: 1 + rng.IntN(3), DW: 1 + rng.IntN(3)}}
	at := rng.IntN(2)
	co := sc.cos[at]
	switch rng.IntN(8) {
	case 0, 1, 2:
		w.Ops[0].Kind = keyscheme.OpRemove
	case 3:
		w.Ops = append(w.Ops, add("z")...)
	case 4:
		wide := sc.links[rng.IntN(3)].state().Seen.Clone()
		w.Ops[0].Context = bigset.SawAll(wide)
	case 5:
		if len(sc.seen) > 0 {
			i := rng.IntN(len(sc.seen))
			w.Ops[0] = bigset.Op{Kind: keyscheme.OpRemove, Element: []byte(sc.names[i]), Context: sc.seen[i]}
		}
	case 6:
		r, err := co.Drop(ctx, coord.Drop{Set: set})
		if err == nil {
			sc.minted = append(sc.minted, r.Delta)
		} else if errors.Is(err, coord.ErrUnknown) && !r.Delta.Empty() {
			sc.minted = append(sc.minted, r.Delta)
		}
		sc.judge(r, err, coord.Quorum{W: 2, DW: 2})
		return
	}
	if rng.IntN(2) == 0 {
		sc.requests++
		w.Request = fmt.Append(nil, "request ", sc.requests)
	}
	r, err := sc.write(at, w)
	sc.judge(r, err, w.Quorum)
	for try := 0; try < 2 && errors.Is(err, coord.ErrUnknown) && w.Request != nil; try++ {
		sc.tally.retried++
		before := r.Dots
		w.Retry = true
		r, err = sc.write(rng.IntN(2), w)
		sc.judge(r, err, w.Quorum)
		if err == nil && before != nil && !slices.Equal(r.Dots, before) {
			sc.tally.elsewhere++
		}
	}
	if err == nil && r.Dots[0] != (clock.Dot{}) && w.Ops[0].Kind == keyscheme.OpAdd {
		sc.seen, sc.names = append(sc.seen, bigset.Saw(r.Dots[0])), append(sc.names, string(w.Ops[0].Element))
	}
}

// write gives a write to a coordinator: by itself or, in some schedules, together with those that come to the same one within some milliseconds.
func (sc *schedule) write(at int, w coord.Write) (r coord.Result, err error) {
	if !sc.together {
		return sc.cos[at].Write(ctx, w)
	}
	answered, n := sc.s.NewSignal(), 0
	sc.doors[at] = append(sc.doors[at], coord.WriteCall{Context: ctx, Write: w, Done: func(result coord.Result, failed error) {
		if r, err, n = result, failed, n+1; n > 1 {
			sc.t.Error("a write was answered twice")
		}
		answered.Set()
	}})
	if len(sc.doors[at]) == 1 {
		sc.s.Go(func() {
			sc.s.Sleep(30 * time.Millisecond)
			all := sc.doors[at]
			sc.doors[at] = nil
			if len(all) > 1 {
				sc.tally.together++
			}
			sc.cos[at].WriteMany(all)
		})
	}
	if waited := answered.Wait(ctx); waited != nil {
		sc.t.Error(waited)
	}
	return r, err
}

// judge looks at an answer.
func (sc *schedule) judge(r coord.Result, err error, q coord.Quorum) {
	switch {
	case err == nil && r.Delta.Empty():
	case err == nil:
		sc.tally.ok++
		if n := sc.holds(r.Delta); r.Acked < q.W || r.Durable < q.DW || n < max(r.Acked, r.Durable) {
			sc.t.Errorf("answered with %d acknowledged, %d durable, of %+v; %d replicas have %+v", r.Acked, r.Durable, q, n, r.Delta)
		}
	case errors.Is(err, coord.ErrUnknown):
		sc.tally.unknown++
		if n := sc.holds(r.Delta); !r.Delta.Empty() && n < r.Acked {
			sc.t.Errorf("%v: %d replicas have it", err, n)
		}
	case errors.Is(err, bigset.ErrBehind):
		sc.tally.behind++
	case errors.Is(err, coord.ErrNoQuorum), errors.Is(err, bigset.ErrNotFound):
		sc.tally.noQuorum++
	default:
		sc.t.Errorf("%v", err)
	}
}

// compare looks at the replicas when everything has arrived: each has all that any replica did, and shows what that comes to.
func (sc *schedule) compare(seed uint64) {
	for i, h := range sc.hints {
		if nodes := h.Nodes(); len(nodes) > 0 {
			sc.t.Errorf("seed %d: coordinator %d still has hints for %v", seed, i, nodes)
		}
	}
	sc.tally.hinted += sc.saw(coord.EventNotSent)
	sc.tally.orphans += len(sc.orphan)
	want := testkit.Specified(sc.minted)
	for _, l := range sc.links {
		st := l.state()
		if !want.Seen.Equal(st.Seen) || !want.Dead.Equal(st.Dead) {
			sc.t.Errorf("seed %d: %v has Seen %v Dead %v, want %v %v", seed, l.Member(), st.Seen, st.Dead, want.Seen.Clock(), want.Dead.Clock())
		}
		if err := testkit.SameElements(l.elements(), want.Elements()); err != nil {
			sc.t.Errorf("seed %d: %v: %v", seed, l.Member(), err)
		}
	}
}

func TestSchedules(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 30
	}
	var total tally
	for seed := uint64(1); seed <= uint64(n) && !t.Failed(); seed++ {
		if *seedFlag != 0 {
			seed, n = *seedFlag, 0
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runSchedule(t, seed, &total) })
	}
	t.Logf("%+v", total)
	if n > 100 && (total.ok < 500 || total.unknown < 50 || total.hinted < 50 || total.noQuorum < 5 || total.lateDisks < 20 || total.together < 20) {
		t.Errorf("schedules met too little: %+v", total)
	}
}
