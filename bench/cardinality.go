package bench

import (
	"bigset"
	"bigset/bench/system"
	"bigset/engine"
	"bigset/keyscheme"
)

const (
	cardinalitySmall = 1000   // elements of the small set
	cardinalityOps   = 20_000 // questions of each kind
)

// cardinality: the number of live dots, and of elements, of a small set and a large one. While no element can have two live
// dots, neither reads a key; after an add that may have made two, one count does, and none after it.
func cardinality(e *env) error {
	return e.turns([]contender{{system: system.NameBigset}}, func(c contender) error {
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			b := sys.(*system.Bigset)
			if e.elements > cardinalitySmall {
				if err := e.cardinalityOf(b, cardinalitySmall); err != nil {
					return err
				}
			}
			return e.cardinalityOf(b, e.elements)
		})
	})
}

func (e *env) cardinalityOf(b *system.Bigset, n int) error {
	name := []byte(setOf(n))
	if _, err := e.loaded(b, b.Set(string(name)), n); err != nil {
		return err
	}
	counted := func(scanned bool) error {
		c, err := b.Store().Count(e.ctx, name, engine.CountOptions{})
		if err != nil {
			return err
		}
		if err := system.Expect("elements", c.Elements, uint64(n)); err != nil {
			return err
		}
		return system.Expect("a count that reads keys", c.Scanned > 0, scanned)
	}
	for _, scanned := range []bool{true, false} { // the load itself does not say what it saw
		if err := counted(scanned); err != nil {
			return err
		}
	}
	op := []bigset.Op{{Kind: keyscheme.OpAdd, Element: e.names().Append(nil, 0), Context: bigset.Saw()}}
	if _, err := b.Store().Write(e.ctx, name, op, bigset.WriteOptions{}); err != nil { // now one element has two live dots
		return err
	}
	if _, err := b.Store().Add(e.ctx, name, [][]byte{op[0].Element}, bigset.WriteOptions{}); err != nil { // and one again
		return err
	}
	for _, part := range []struct {
		name string
		ops  int
		ask  func(int) error
	}{
		{"scan", 1, func(int) error { return counted(true) }},
		{"count", cardinalityOps, func(int) error { return counted(false) }},
		{"live", cardinalityOps, func(int) error {
			live, err := b.Store().Live(e.ctx, name)
			if err != nil {
				return err
			}
			return system.Expect("live dots", live, uint64(n))
		}},
	} {
		err := e.measure(b, Row{Workload: sub("cardinality", part.name), Elements: n}, func(p *phase) error {
			return p.loop(part.ops, part.ask)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cardinalityGoals: asking takes as long of a large set as of a small one.
func cardinalityGoals() (list []goal) {
	for _, part := range []string{"cardinality/live", "cardinality/count"} {
		list = append(list, goal{
			what: "time, of that in a small set",
			of:   pick{workload: part, system: system.NameBigset}, to: pick{workload: part, system: system.NameBigset, smallest: true},
			have: latency, atMost: true, limit: 1.5,
		})
	}
	return list
}
