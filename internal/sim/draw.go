package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// draws makes the script of a cluster's schedule. It looks at no replica, so the script is a function of the seed.
type draws struct {
	*rand.Rand
	s       *script
	calls   []string // the faults of calls in this schedule
	rare    int      // one operation in this many has one
	beside  []string // faults that are not faults of calls
	filters int      // one step in this many that concern the filter changes it; 0 is none
	views   []int    // steps that show something

	quorums int
}

// drawScript returns the schedule of a seed.
func drawScript(seed uint64, replicas int) *script {
	d := &draws{Rand: rand.New(rand.NewPCG(seed, 11)), s: &script{seed: seed, replicas: replicas}}
	d.calls = d.some("loss", "mute", "late", "delay", "duplicate", "power")
	d.rare = 1 + d.IntN(8)
	d.quorums = d.IntN(quorumsKinds)
	if d.IntN(4) > 0 {
		d.beside = append(d.some("crash", "wipe", "restart", "partition", "io-error", "disk-full", "copy", "skew"), "maintain", "partition")
	}
	d.draw()
	if d.IntN(2) == 0 {
		d.resent()
	}
	return d.s
}

// draw draws all steps.
func (d *draws) draw() {
	for range rounds {
		for lane := range clients {
			for d.IntN(d.rare) == 0 && len(d.calls) > 0 && d.IntN(2) == 0 {
				d.call(lane)
			}
			d.operation(lane)
		}
		if len(d.beside) > 0 {
			d.wrong(d.beside[d.IntN(len(d.beside))])
		}
	}
}

// resent draws a write whose first try arrives at a replica that was asked about it for the second one, and has not heard yet what that has become. It comes
// late, after its caller has given up, and the answers to the question of the next coordinator come later. That one may have company: see idTwice.
func (d *draws) resent() {
	via := d.coordinator()
	add := func(kind string, args map[string]int) *step {
		t := d.add(laneNemesis, kind, args)
		t.args["wait"] = 0
		return t
	}
	next := via ^ 1
	if d.s.epochs() {
		next = coordinators + (via-coordinators+1)%d.s.replicas
	}
	for at := range d.s.replicas {
		add("delay", map[string]int{"via": via, "at": at, "seconds": resentSeconds})
		add("late", map[string]int{"via": next, "at": at, "seconds": 2})
	}
	t := add("write", map[string]int{"via": via, "w": d.answers(false), "dw": d.answers(false), "id": 1 + d.IntN(2)})
	t.ops = []stepOp{{verb: "add", element: d.element()}}
}

// resentSeconds is just longer than a coordinator waits for its replicas.
const resentSeconds = int(operationLimit/time.Second) + 1

// shapes are the clusters of members that are drawn: how many members a cluster has, how many of them hold the set, and how many
// must have what is acknowledged. If that is more than a majority of the holders, a joining member is filled from fewer than all of
// them.
var shapes = [][3]int{{3, 3, 2}, {3, 3, 3}, {2, 2, 2}, {3, 3, 3}, {5, 3, 2}, {3, 3, 3}, {3, 3, 2}, {5, 5, 3}, {3, 3, 3}, {5, 5, 4}}

// drawMembers returns the schedule of a seed for members of package server/cluster.
func drawMembers(seed uint64) *script {
	shape := shapes[seed%uint64(len(shapes))]
	d := &draws{Rand: rand.New(rand.NewPCG(seed, 13)), s: &script{seed: seed, replicas: shape[0], n: shape[1], w: shape[2]}}
	d.filters = []int{0, 0, 3, 6}[d.IntN(4)]
	d.calls = d.some("refuse", "loss", "mute", "late", "delay", "duplicate", "power")
	d.rare = 2 + d.IntN(12)
	d.quorums = d.IntN(quorumsKinds)
	d.beside = append(d.some("crash", "wipe", "partition", "put-back", "outage"), "crash", "maintain", "story")
	if shape[0] > 2 {
		d.beside = append(d.beside, "story")
	}
	d.draw()
	if d.IntN(2) == 0 {
		d.resent()
	}
	return d.s
}

// some returns about half of the words.
func (d *draws) some(words ...string) []string {
	return slices.DeleteFunc(words, func(string) bool { return d.IntN(2) == 0 })
}

// add adds a step with the arguments that its kind has, and a wait.
func (d *draws) add(lane int, kind string, args map[string]int) *step {
	maps.DeleteFunc(args, func(name string, _ int) bool { return !slices.Contains(stepKinds[kind], name) })
	if d.IntN(2) == 0 {
		args["wait"] = d.IntN(3000)
	}
	d.s.steps = append(d.s.steps, step{n: len(d.s.steps) + 1, lane: lane, kind: kind, args: args})
	return &d.s.steps[len(d.s.steps)-1]
}

func (d *draws) replica() int { return d.IntN(d.s.replicas) }

// others returns two replicas.
func (d *draws) others() (a, b int) {
	a = d.replica()
	return a, (a + 1 + d.IntN(d.s.replicas-1)) % d.s.replicas
}

func (d *draws) coordinator() int {
	if d.s.epochs() {
		return coordinators + d.replica()
	}
	return d.IntN(coordinators)
}

// process draws a coordinator, or now and then a replica as the receiver of a copy.
func (d *draws) process() int {
	if d.s.epochs() || d.IntN(5) == 0 {
		return coordinators + d.replica()
	}
	return d.coordinator()
}

// moment draws how long something is late: often longer than its caller waits.
func (d *draws) moment() int { return d.IntN(40) }

func (d *draws) element() string { return string(rune('a' + d.IntN(5))) }

// Quorums of a schedule.
const (
	quorumsAny = iota
	quorumsMajority
	quorumsAllOne // all for a change, one for a read: so a replica that should not answer is not covered by others
	quorumsKinds
)

// answers draws how many replicas must answer.
func (d *draws) answers(read bool) int {
	switch {
	case d.quorums == quorumsMajority:
		return d.s.replicas/2 + 1
	case d.quorums == quorumsAllOne && read:
		return 1
	case d.quorums == quorumsAllOne:
		return d.s.replicas
	}
	return 1 + d.replica()
}

// change draws the quorum of a change: DW is 0 or equal to W.
func (d *draws) change() map[string]int {
	w := d.answers(false)
	dw := w
	if d.IntN(4) == 0 {
		dw = 0
	}
	return map[string]int{"via": d.coordinator(), "w": w, "dw": dw}
}

// operation draws an operation of a client.
func (d *draws) operation(lane int) {
	if d.s.epochs() && d.IntN(3) == 0 {
		d.marks(lane)
		return
	}
	switch d.IntN(12) {
	case 0, 1, 2:
		d.add(lane, "read", map[string]int{"via": d.coordinator(), "r": d.answers(true), "batch": 1 + d.IntN(3)})
		d.views = append(d.views, len(d.s.steps))
	case 3, 4:
		t := d.add(lane, "lookup", map[string]int{"via": d.coordinator(), "r": d.answers(true)})
		t.ops = []stepOp{{verb: "ask", element: d.element()}, {verb: "ask", element: d.element()}}
		d.views = append(d.views, len(d.s.steps))
	case 5:
		switch {
		case d.IntN(3) == 0:
			d.add(lane, "drop", d.change())
			return
		case d.s.epochs(): // members exchange by themselves
			d.marks(lane)
			return
		}
		a, b := d.others()
		d.add(lane, "exchange", map[string]int{"via": d.coordinator(), "at": a, "with": b})
	default:
		args := d.change()
		args["id"] = d.IntN(2)
		t := d.add(lane, "write", args)
		for range 1 + d.IntN(2) {
			if o := d.op(); !slices.ContainsFunc(t.ops, func(other stepOp) bool { return other.element == o.element }) {
				t.ops = append(t.ops, o)
			}
		}
	}
}

// marks draws marks of keys of the filter, or a check whether it has them.
func (d *draws) marks(lane int) {
	if d.filters > 0 && d.IntN(d.filters) == 0 {
		kinds := []string{"create-filter", "create-filter", "drop-filter", "clear-filter", "flush-filter"}
		d.add(lane, kinds[d.IntN(len(kinds))], map[string]int{"via": d.coordinator()})
		return
	}
	kind, args := "mark", d.change()
	if d.IntN(2) == 0 {
		kind, args = "check", map[string]int{"via": d.coordinator(), "r": d.answers(true)}
	}
	t := d.add(lane, kind, args)
	for range 1 + d.IntN(3) {
		key := d.element() + d.element()
		if !slices.ContainsFunc(t.ops, func(o stepOp) bool { return o.element == key }) {
			t.ops = append(t.ops, stepOp{verb: map[string]string{"mark": "mark", "check": "ask"}[kind], element: key})
		}
	}
}

// op draws an operation, with the context of one of the last steps that showed something, or without one.
func (d *draws) op() stepOp {
	const back = 12
	o := stepOp{verb: "add", element: d.element()}
	if d.IntN(3) == 0 {
		o.verb = "remove"
	}
	if n := min(back, len(d.views)); n > 0 && d.IntN(2) == 0 {
		o.from, o.whole = d.views[len(d.views)-1-d.IntN(n)], d.IntN(3) == 0
	}
	return o
}

// call draws a fault of a call. It applies to the operation that comes next in the lane.
func (d *draws) call(lane int) {
	args := map[string]int{"via": d.process(), "at": d.replica(), "seconds": d.moment(), "writes": d.IntN(8), "keep": 25 * d.IntN(5)}
	d.add(lane, d.calls[d.IntN(len(d.calls))], args)
}

// story draws faults that have to coincide: a write whose delta to one replica is late, or lost, while another replica that has it
// loses its disk, and is filled from replicas that may or may not have adopted the new epoch.
func (d *draws) story() {
	p := d.Perm(d.s.replicas)
	x, b, c := p[0], p[1%len(p)], p[len(p)-1]
	add := func(kind string, wait int, args map[string]int) *step {
		t := d.add(laneNemesis, kind, args)
		t.args["wait"] = wait
		return t
	}
	if d.IntN(4) > 0 {
		add("deaf", 0, map[string]int{"at": []int{x, b, b}[d.IntN(3)], "seconds": 5 + d.IntN(8)})
	}
	kind, times := []string{"delay", "delay", "delay", "refuse", "refuse", "loss", "late", "duplicate"}[d.IntN(8)], 1
	if kind == "refuse" { // and the hint that it becomes
		times = 2 + d.IntN(3)
	}
	for range times {
		add(kind, 0, map[string]int{"via": coordinators + x, "at": b, "seconds": 3 + d.IntN(7)})
	}
	n := d.s.replicas
	if d.IntN(3) == 0 {
		t := add("mark", 0, map[string]int{"via": coordinators + x, "w": n})
		t.ops, t.args["apart"] = []stepOp{{verb: "mark", element: d.element() + d.element()}}, 1
	}
	t := add("write", 0, map[string]int{"via": coordinators + x, "w": []int{1, n}[d.IntN(2)], "dw": []int{0, n}[d.IntN(2)], "id": d.IntN(2)})
	t.args["apart"] = 1
	t.ops = []stepOp{{verb: "add", element: d.element()}}
	add("wipe", 100+d.IntN(900), map[string]int{"at": c, "seconds": d.IntN(2)})
	for range 3 {
		t := add("read", 1000+d.IntN(9000), map[string]int{"via": coordinators + c, "r": 1, "batch": 1 + d.IntN(3)})
		t.args["apart"] = 1
	}
	if d.IntN(2) == 0 {
		add("partition", 1000+d.IntN(2000), map[string]int{"via": coordinators + c, "cut": 1 << []int{x, b}[d.IntN(2)]})
		add("partition", 1000+d.IntN(8000), map[string]int{"via": coordinators + c, "cut": 0})
	}
}

// wrong draws a fault that is not a fault of calls, or background work.
func (d *draws) wrong(kind string) {
	if kind == "story" {
		d.story()
		return
	}
	a, b := d.others()
	args := map[string]int{"at": a, "with": b, "seconds": d.IntN(8), "writes": d.IntN(4), "keep": 25 * d.IntN(5), "work": d.IntN(6)}
	switch kind {
	case "put-back":
		d.add(laneNemesis, "backup", map[string]int{"at": a})
		d.add(laneNemesis, "maintain", map[string]int{"at": a, "work": d.IntN(6)}).args["wait"] = d.IntN(5000)
	case "copy", "wipe": // and its calls
		if d.IntN(2) == 0 {
			d.add(laneNemesis, []string{"power", "delay", "late"}[d.IntN(3)], map[string]int{"via": coordinators + a, "at": b, "seconds": d.IntN(5),
				"writes": d.IntN(8), "keep": 25 * d.IntN(5)})
		}
	case "restart":
		args["via"] = d.coordinator()
	case "partition":
		args["via"], args["cut"] = d.process(), d.IntN(1<<d.s.replicas)
	case "skew":
		const minute, day = 60, 24 * 60 * 60
		args["seconds"] = []int{minute / 2, 20 * minute, -20 * minute, day + 60*minute}[d.IntN(4)]
		if args["via"] = d.coordinator(); d.IntN(2) == 0 {
			args["via"] = coordinators + a
		}
	}
	t := d.add(laneNemesis, kind, args)
	t.args["wait"] = d.IntN(5000)
	for lane := 0; kind == "wipe" && lane < clients; lane++ { // reads while it is being made whole
		t := d.add(lane, "read", map[string]int{"via": d.coordinator(), "r": d.answers(true), "batch": 1})
		t.args["wait"] = d.IntN(8000)
	}
}
