package bench

import (
	"fmt"
	"time"

	"bigset/bench/system"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

// clockActors are how many actors share the events of a clock.
var clockActors = []int{1, 1000}

// clockShapes are the clocks and tombstones that are measured; dead is the percentage of events that are in them.
var clockShapes = []struct {
	name string
	dead int
	gap  bool // the first event of each actor is missing
}{
	{"seen", 100, false}, {"seen-gap", 100, true}, {"dead-50", 50, false}, {"dead-90", 90, false},
}

// clocks: the bytes of clocks and tombstones beside the design's bounds, and the time that an addition, a clone, an encoding,
// a decoding and a union take; then what a write costs in a set whose tombstone and clock are large, beside a small one.
func clocks(e *env) error {
	sizes := []int{e.elements}
	if e.cfg.Full && e.cfg.Elements == 0 {
		sizes = []int{e.elements / 100, e.elements / 10, e.elements}
	}
	for _, n := range sizes {
		for _, actors := range clockActors {
			for _, shape := range clockShapes {
				if err := e.ctx.Err(); err != nil {
					return err
				}
				e.clockShape(n, min(actors, max(1, n/100)), actors, shape.name, shape.dead, shape.gap)
			}
		}
	}
	return e.clockWrites(min(e.elements, 10_000_000))
}

// clockOf adds n events of so many actors, in turn, of which a percentage is in. It returns how many it added.
func clockOf(n, actors, percent int, gap bool) (c *clock.Clock, added int) {
	c = &clock.Clock{}
	for i := range n {
		counter := uint64(i/actors) + 1
		if gap && counter == 1 || percent < 100 && system.Mix(uint64(i))%100 >= uint64(percent) {
			continue
		}
		c.Add(clock.Dot{Actor: clockActor(i % actors), Counter: counter})
		added++
	}
	return c, added
}

var clockNames = func() (names [1000]clock.Actor) {
	for i := range names {
		names[i] = clock.Actor(fmt.Sprintf("actor%07d", i*7919)) // 12 bytes, like a store's own
	}
	return names
}()

func clockActor(i int) clock.Actor { return clockNames[i] }

// clockBound is what a clock may take: a bit an event, or two bytes for each that is missing and 16 for each page that has
// such, whichever is less; and an actor's name, base and counts.
func clockBound(n, actors, missing int) uint64 {
	pages := actors * (n/actors>>clock.PageBits + 1)
	return uint64(min(n/8+16*pages, 2*missing+16*min(pages, missing)) + 32*actors + 16)
}

// clockShape measures one clock.
func (e *env) clockShape(n, actors, named int, shape string, percent int, gap bool) {
	row := Row{Workload: sub("clock", fmt.Sprintf("%s-%d", shape, named)), System: system.NameBigset, Record: compaction.Merge.String(),
		Strategy: e.cfg.Strategy, Elements: n}
	began := time.Now()
	c, added := clockOf(n, actors, percent, gap)
	took := time.Since(began)
	plain := c.Append(nil)
	e.rows.Add(row, Figures{Ops: uint64(added), OpsPerSecond: float64(added) / max(took, 1).Seconds(),
		BytesOnDisk: new(uint64(len(plain))), HeapBytes: new(uint64(c.HeapBytes()))}, nil)
	part := func(name string, f Figures) {
		r := row
		r.Workload = sub(row.Workload, name)
		e.rows.Add(r, f, nil)
	}
	missing := n - added
	if gap {
		missing = actors // runs of what is missing count, not what is in them
	}
	part("bound", Figures{BytesOnDisk: new(clockBound(n, actors, missing))})
	once := func(name string, f func()) {
		began := time.Now()
		f()
		part(name, Figures{Ops: 1, P50: new(micros(time.Since(began)))})
	}
	var packed []byte
	once("encode", func() { packed = c.AppendCompressed(nil) })
	once("decode", func() { _, _ = clock.Decode(packed) })
	once("clone", func() { c.Clone() })
	other, _ := clockOf(n/10, actors, 50, true)
	once("union-tenth", func() { c.Union(other) })
}

// clockWriteOps is how many writes are measured, in a full run ten times as many.
const clockWriteOps = 20_000

// clockWrites measures adds and removes in a set that was empty; in one with n elements of which half have been removed,
// anywhere, where each remove takes another one, anywhere; and in one that knows n events of a thousand actors, where each
// remove kills the next event of any of them. Raw Pebble's inserts stand beside them.
func (e *env) clockWrites(n int) error {
	ops := min(clockWriteOps, n/4)
	if e.cfg.Full {
		ops = 10 * clockWriteOps
	}
	return e.turns([]contender{{system: system.NameBigset}, {system: system.NamePebble}}, func(c contender) error {
		for _, kind := range []string{"small", "large", "actors"} {
			if err := e.with(c, system.Options{Warm: true}, func(sys system.System) error { return e.clockWritesOn(sys, kind, n, ops) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) clockWritesOn(sys system.System, kind string, n, ops int) error {
	row := func(what string) Row { return Row{Workload: sub("clock", what+"-"+kind), Elements: n} }
	b, own := sys.(*system.Bigset)
	if !own && kind != "small" {
		return nil // raw Pebble's clock is a value of one size
	}
	s := sys.Set(system.SetName)
	var victim func(i int) clock.Dot
	if own {
		var err error
		if victim, err = e.clockVictims(b, s, kind, n, ops); err != nil {
			return err
		}
	}
	first := 0
	if kind == "large" {
		first = n // the elements before are those that were there
	}
	if err := e.insertOneByOne(sys, s, row("add"), make([]uint64, first+ops), first, first+ops); err != nil || !own {
		return err
	}
	name := []byte(system.SetName)
	err := e.measure(sys, row("kill"), func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			ops := []bigset.Op{{Kind: keyscheme.OpRemove, Element: name, Context: bigset.Saw(victim(i))}}
			_, err := b.Store().Write(e.ctx, name, ops, bigset.WriteOptions{})
			return err
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
	if err != nil {
		return err
	}
	if kind == "large" {
		ops = n - n/2 // as many have come as have gone
	}
	return e.check(sys, system.SetName, ops)
}

// clockVictims makes the set what it is before the writes, and returns the dots that these kill.
func (e *env) clockVictims(b *system.Bigset, s system.Set, kind string, n, ops int) (victim func(i int) clock.Dot, err error) {
	switch kind {
	case "large":
		victim, err = e.halfRemoved(b, s, n)
	case "actors":
		actors := min(len(clockNames), max(1, n/100))
		known, _ := clockOf(n, actors, 100, false)
		err = b.Store().ApplyDelta(e.ctx, bigset.Delta{Set: []byte(system.SetName), Clear: known}, bigset.Sync)
		next := make([]uint64, actors)
		victim = func(i int) clock.Dot {
			a := int(system.Mix(uint64(i)) % uint64(actors))
			next[a]++
			return clock.Dot{Actor: clockActor(a), Counter: known.Max(clockActor(a)) + next[a]}
		}
	default:
		victim = func(i int) clock.Dot { return clock.Dot{Actor: clockActor(0), Counter: uint64(i) + 1} }
	}
	if err == nil {
		_, err = b.Settle(e.ctx)
	}
	return victim, err
}

// halfRemoved inserts n elements and removes half of them, anywhere. The victims are of the other half.
func (e *env) halfRemoved(b *system.Bigset, s system.Set, n int) (victim func(i int) clock.Dot, err error) {
	dots, err := e.loaded(b, s, n)
	if err != nil {
		return nil, err
	}
	order, some := system.Scatter(n, e.cfg.Seed), system.NewBatch(batchSize)
	for i := 0; i < n/2; {
		some.Reset()
		for ; len(some.List) < batchSize && i < n/2; i++ {
			some.Add(e.names(), order(i), dots[order(i)])
		}
		if err := system.RemoveAll(s, some); err != nil {
			return nil, err
		}
	}
	if err := b.RestFully(e.ctx); err != nil { // taking the space back is not what is measured
		return nil, err
	}
	actor := b.Actor()
	return func(i int) clock.Dot { return clock.Dot{Actor: actor, Counter: dots[order(n/2+i)]} }, nil
}

func clockGoals() []goal {
	var list []goal
	for _, shape := range clockShapes {
		for _, actors := range clockActors {
			at := sub("clock", fmt.Sprintf("%s-%d", shape.name, actors))
			list = append(list, goal{what: "bytes, of the bound", of: pick{workload: at, system: system.NameBigset},
				to: pick{workload: sub(at, "bound"), system: system.NameBigset}, atMost: true, limit: 1,
				have: func(of, to *Figures) (float64, bool) { return countRatio(of.BytesOnDisk, to.BytesOnDisk) }})
		}
	}
	for _, what := range []string{"add", "kill"} {
		for _, kind := range []string{"large", "actors"} {
			of, to := pick{workload: sub("clock", what+"-"+kind), system: system.NameBigset}, pick{workload: sub("clock", what+"-small"), system: system.NameBigset}
			list = append(list,
				goal{what: "latency, of a small set's", of: of, to: to, have: latency, atMost: true, limit: 1.5},
				goal{what: "bytes to log and first tables, of a small set's", of: of, to: to, have: loggedAndFlushed, atMost: true, limit: 1.5})
		}
	}
	return list
}
