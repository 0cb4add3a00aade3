package bench

import (
	"fmt"
	"strings"

	"bigset/bench/system"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// contextForm is a form in which a client has its context, and what the store does with it.
type contextForm struct {
	name   string
	open   bool // the store keeps wide contexts open
	actors int  // of other replicas that the elements come from; 0 is none: this store adds them
	of     func(seen *clock.Clock, dot clock.Dot) bigset.Context
}

func narrowContext(_ *clock.Clock, dot clock.Dot) bigset.Context { return bigset.Saw(dot) }
func wideContext(seen *clock.Clock, _ clock.Dot) bigset.Context  { return bigset.SawAll(seen) }
func noContext(*clock.Clock, clock.Dot) bigset.Context           { return bigset.Context{} }

// contextActors is how many replicas have added the elements where a wide context is to name many actors.
const contextActors = 50

// contextForms are those that contexts compares, the cheapest first.
var contextForms = []contextForm{
	{name: "narrow", of: narrowContext},
	{name: "wide", of: wideContext},
	{name: "open", open: true, of: wideContext},
	{name: "none", of: noContext},
	{name: "narrow-actors", actors: contextActors, of: narrowContext},
	{name: "wide-actors", actors: contextActors, of: wideContext},
	{name: "none-actors", actors: contextActors, of: noContext},
}

// contextReads is how often the set is read.
const contextReads = 5

// contexts: the same work with contexts of each form. Of a set's elements a quarter is replaced and a quarter removed, one
// an operation; then the set is read; then everything is resolved and taken off the disk.
func contexts(e *env) error {
	var list []contender
	for _, f := range contextForms {
		list = append(list, contender{system: system.NameBigset, form: f.name})
	}
	return e.turns(list, func(c contender) error {
		for _, f := range contextForms {
			if f.name == c.form {
				return e.with(c, system.Options{Warm: true, OpenContexts: f.open}, func(sys system.System) error {
					return e.contextsOn(sys.(*system.Bigset), f)
				})
			}
		}
		return nil
	})
}

func (e *env) contextsOn(b *system.Bigset, f contextForm) error {
	n := e.elements
	dots, err := e.loadedFrom(b, f.actors)
	if err != nil {
		return err
	}
	seen, err := b.Store().Context(e.ctx, []byte(system.SetName))
	if err != nil {
		return err
	}
	victim, done, quarter := system.Scatter(n, e.cfg.Seed), 0, n/4
	for _, part := range []struct {
		name string
		kind keyscheme.Op
	}{{"insert", keyscheme.OpAdd}, {"remove", keyscheme.OpRemove}} {
		op := []bigset.Op{{Kind: part.kind}}
		err := e.measure(b, Row{Workload: sub("contexts", part.name+"-"+f.name), Elements: n}, func(p *phase) error {
			err := p.loop(quarter, func(i int) error {
				at := victim(done + i)
				op[0].Element = e.names().Append(op[0].Element[:0], at)
				op[0].Context = f.of(seen, dots[at])
				_, err := b.Store().Write(e.ctx, []byte(system.SetName), op, bigset.WriteOptions{})
				return err
			})
			if err != nil {
				return err
			}
			p.user = p.ops * system.ElementBytes
			return p.settle(b)
		})
		if err != nil {
			return err
		}
		done += quarter
	}
	err = e.measure(b, Row{Workload: sub("contexts", "read-"+f.name), Elements: n}, func(p *phase) error {
		for range contextReads {
			if err := countInto(p, b.Set(system.SetName), n-quarter); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = e.measure(b, Row{Workload: sub("contexts", "close-"+f.name), Elements: n}, func(p *phase) error {
		if err := p.loop(1, func(int) error { return b.Compact(e.ctx, system.SetName) }); err != nil {
			return err
		}
		return p.settle(b)
	})
	if err != nil {
		return err
	}
	return e.check(b, system.SetName, n-quarter)
}

// loadedFrom loads the set and returns the dot of each element. They come from so many replicas in turns, or with none from the
// store itself.
func (e *env) loadedFrom(b *system.Bigset, actors int) ([]clock.Dot, error) {
	dots := make([]clock.Dot, e.elements)
	if actors == 0 {
		counters, err := e.loaded(b, b.Set(system.SetName), e.elements)
		for i, n := range counters {
			dots[i] = clock.Dot{Actor: b.Actor(), Counter: n}
		}
		return dots, err
	}
	for from := range actors {
		d := bigset.Delta{Set: []byte(system.SetName), Actor: clock.Actor(fmt.Sprintf("replica-%04d", from)), First: 1}
		for i := from; i < e.elements; i += actors {
			d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: e.names().Append(nil, i)})
			dots[i] = clock.Dot{Actor: d.Actor, Counter: uint64(len(d.Items))}
		}
		for next := d; len(next.Items) > 0; { // in batches
			d, batch := next, min(batchSize, len(next.Items))
			d.Items = next.Items[:batch]
			if err := b.Store().ApplyDelta(e.ctx, d, bigset.NoSync); err != nil {
				return nil, err
			}
			next.Items, next.First = next.Items[batch:], next.First+uint64(batch)
		}
	}
	_, err := b.Settle(e.ctx)
	return dots, err
}

// countInto reads a whole set; an operation is one element, latencies are those of chunks.
func countInto(p *phase, s system.Set, want int) error {
	got := 0
	watch := stopwatch{p: p}
	watch.start()
	err := s.Read(0, func(k int) {
		watch.lap()
		got += k
	})
	if err != nil {
		return err
	}
	p.ops += uint64(got)
	return system.Expect("elements", got, want)
}

// contextGoals: narrow contexts are the cheapest everywhere. Where wide ones are resolved, and without any, what is stored
// and read is the same.
func contextGoals() (list []goal) {
	narrow := ""
	for _, other := range contextForms {
		if strings.HasPrefix(other.name, "narrow") { // those of as many actors follow
			narrow = other.name
			continue
		}
		for _, part := range []string{"insert", "remove", "read"} {
			if part == "read" && !other.open {
				continue
			}
			list = append(list, goal{
				what: narrow + ", of " + other.name,
				of:   pick{workload: sub("contexts", part+"-"+narrow), system: system.NameBigset},
				to:   pick{workload: sub("contexts", part+"-"+other.name), system: system.NameBigset},
				have: speed, limit: 1,
			})
		}
	}
	return list
}
