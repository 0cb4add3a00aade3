package bench

import (
	"fmt"
	"time"

	"bigset/bench/system"

	"bigset/clock"
	"bigset/compaction"
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
// a decoding and a union take.
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
	return nil
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
