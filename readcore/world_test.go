package readcore_test

import (
	"cmp"
	"fmt"
	"slices"

	"bigset/clock"
)

// A world is a few replicas of one set, too simple to be wrong: Seen, Dead and keys under R0, and operations that reach them in any
// order and any number of times, or never. All random choices come from pick, which returns a number below n.
type world struct {
	pick     func(n int) int
	replicas []*replica
	ops      []*op
	adds     map[clock.Dot]*op
	tokens   []token // contexts that clients hold
	r, w     int     // how many replicas answer a read, and acknowledge a write: together more than there are
}

// op is an operation: an add or a remove of one element, or, without an element, a whole-set delete. All add and kill.
type op struct {
	add     bool
	element string
	dot     clock.Dot
	kills   *clock.Clock
	acks    map[*replica]bool
}

func (o *op) String() string {
	kind := map[bool]string{true: "add", false: "remove"}[o.add]
	return fmt.Sprintf("%s %q %v killing %v, at %d replicas", kind, o.element, o.dot, o.kills, len(o.acks))
}

type token struct {
	element string
	dots    []clock.Dot
}

type replica struct {
	actor      clock.Actor
	counter    uint64
	seen, dead *clock.Clock
	keys       map[clock.Dot]string // dead ones are never dropped: a read must not show them
}

const elements = "abcdef"

// newWorld draws the number of replicas, and how many answer.
func newWorld(pick func(int) int) *world {
	quorums := [][3]int{{3, 2, 2}, {3, 2, 2}, {4, 3, 2}, {3, 1, 3}, {4, 2, 3}}
	q := quorums[pick(len(quorums))]
	w := &world{pick: pick, r: q[1], w: q[2], adds: map[clock.Dot]*op{}}
	for i := range q[0] {
		w.replicas = append(w.replicas, &replica{
			actor: clock.Actor("nmopq"[i : i+1]), seen: &clock.Clock{}, dead: &clock.Clock{}, keys: map[clock.Dot]string{},
		})
	}
	return w
}

func (w *world) chance(percent int) bool { return w.pick(100) < percent }

func (w *world) replica() *replica { return w.replicas[w.pick(len(w.replicas))] }

// step does one random thing.
func (w *world) step() {
	switch k := w.pick(10); {
	case k < 5 || len(w.ops) == 0:
		w.client()
	case k < 8:
		w.apply(w.replica(), w.ops[max(0, len(w.ops)-1-w.pick(2*len(w.replicas)))])
	default:
		w.exchange()
	}
}

// client makes a replica coordinate an operation, which reaches some of the others at once.
func (w *world) client() {
	r := w.replica()
	o := &op{element: elements[w.pick(len(elements)):][:1], kills: &clock.Clock{}, acks: map[*replica]bool{}}
	switch k := w.pick(20); {
	case k == 0:
		o.element, o.kills = "", r.seen.Clone()
	case k < 5 && len(w.tokens) > 0: // an old context, perhaps of what this replica has not seen
		t := w.tokens[w.pick(len(w.tokens))]
		o.element, o.kills = t.element, clock.Of(t.dots...)
	case k < 17:
		dots := r.visible(o.element)
		o.kills = clock.Of(dots...)
		w.tokens = append(w.tokens, token{o.element, dots})
	}
	if o.element != "" {
		o.add = o.kills.Empty() || w.chance(60)
		r.counter++
		o.dot = clock.Dot{Actor: r.actor, Counter: r.counter}
	}
	if o.add {
		w.adds[o.dot] = o
	}
	w.ops = append(w.ops, o)
	w.apply(r, o)
	for _, other := range w.replicas {
		if other != r && w.chance(40) {
			w.apply(other, o)
		}
	}
}

func (w *world) apply(r *replica, o *op) {
	r.kill(o.kills)
	switch {
	case o.add:
		r.put(o.dot, o.element)
	case o.element != "":
		r.kill(clock.Of(o.dot))
	}
	o.acks[r] = true
}

// exchange gives one replica facts that another one has: some keys, or all of them and then some of Dead. A death that came before
// the key of the add that replaced it would remove an element that has been present all the time.
func (w *world) exchange() {
	a, b := w.replica(), w.replica()
	all := w.chance(50)
	for d := range a.seen.Clone().Dots() {
		if e, ok := a.keys[d]; ok && !a.dead.Contains(d) && (all || w.chance(70)) {
			b.put(d, e)
		}
	}
	for d := range a.dead.Clone().Dots() {
		if all && w.chance(70) {
			b.kill(clock.Of(d))
		}
	}
}

func (r *replica) kill(dots *clock.Clock) {
	r.seen.Union(dots)
	r.dead.Union(dots)
}

func (r *replica) put(d clock.Dot, element string) {
	if r.seen.Add(d) {
		r.keys[d] = element
	}
}

// visible returns the dots by which an element is present here.
func (r *replica) visible(element string) (dots []clock.Dot) {
	for d, e := range r.keys {
		if e == element && !r.dead.Contains(d) {
			dots = append(dots, d)
		}
	}
	slices.SortFunc(dots, clock.Dot.Compare)
	return dots
}

// key is a stored key.
type key struct {
	element string
	dot     clock.Dot
}

// sorted returns all keys in their order, dead ones among them, or in its reverse.
func (r *replica) sorted(reverse bool) (keys []key) {
	for d, e := range r.keys {
		keys = append(keys, key{e, d})
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.element, b.element), a.dot.Compare(b.dot)) })
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}

// check is the invariant: live keys are Seen less Dead.
func (w *world) check() error {
	for _, r := range w.replicas {
		live := r.seen.Clone()
		live.Subtract(r.dead)
		keys := &clock.Clock{}
		for d, e := range r.keys {
			if w.adds[d].element != e {
				return fmt.Errorf("%s holds %v as %q, it is of %q", r.actor, d, e, w.adds[d].element)
			}
			if !r.dead.Contains(d) {
				keys.Add(d)
			}
		}
		if !keys.Equal(live) || !r.seen.Descends(r.dead) {
			return fmt.Errorf("%s: live keys %v, Seen less Dead %v", r.actor, keys, live)
		}
	}
	return nil
}

// guarantee is what an operation that begins now must and may see of the set.
type guarantee struct {
	w        *world
	acked    map[*op]bool // those acknowledged by then
	earliest int          // the number of operations by then
}

func (w *world) begin() *guarantee {
	g := &guarantee{w: w, acked: map[*op]bool{}, earliest: len(w.ops)}
	for _, o := range w.ops {
		g.acked[o] = len(o.acks) >= w.w
	}
	return g
}

// killed reports whether an operation that counts kills a dot.
func (w *world) killed(d clock.Dot, counts func(i int, o *op) bool) bool {
	for i, o := range w.ops {
		if o.kills.Contains(d) && counts(i, o) {
			return true
		}
	}
	return false
}

// must reports whether the element has been present all the time: by an acknowledged add that was not killed, or was killed only by
// adds since the beginning that satisfy the same condition.
func (g *guarantee) must(element string) bool {
	for _, o := range g.w.adds {
		if o.element == element && g.acked[o] && g.stays(o) {
			return true
		}
	}
	return false
}

func (g *guarantee) stays(o *op) bool {
	return !g.w.killed(o.dot, func(i int, killer *op) bool {
		return !killer.add || i < g.earliest || killer.element != o.element || !g.stays(killer)
	})
}

// may reports whether the element can be present: some add of it was not killed by what was acknowledged before.
func (g *guarantee) may(element string) bool {
	for _, o := range g.w.adds {
		if o.element == element && !g.w.killed(o.dot, func(_ int, killer *op) bool { return g.acked[killer] }) {
			return true
		}
	}
	return false
}

// unkilled reports whether the dot of an add has not been killed.
func (w *world) unkilled(o *op) bool {
	return !w.killed(o.dot, func(int, *op) bool { return true })
}
