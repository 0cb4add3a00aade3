package bench

import (
	"fmt"
	"strings"

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
		list = append(list, contender{system: systemBigset, form: f.name})
	}
	return e.turns(list, func(c contender) error {
		for _, f := range contextForms {
			if f.name == c.form {
				return e.with(c, openOptions{warm: true, openContexts: f.open}, func(sys system) error {
					return e.contextsOn(sys.(*bigsetSystem), f)
				})
			}
		}
		return nil
	})
}

func (e *env) contextsOn(b *bigsetSystem, f contextForm) error {
	n := e.elements
	dots, err := e.loadedFrom(b, f.actors)
	if err != nil {
		return err
	}
	seen, err := b.store.Context(e.ctx, []byte(setName))
	if err != nil {
		return err
	}
	victim, done, quarter := scatter(n, e.cfg.Seed), 0, n/4
	for _, part := range []struct {
		name string
		kind keyscheme.Op
	}{{"insert", keyscheme.OpAdd}, {"remove", keyscheme.OpRemove}} {
		op := []bigset.Op{{Kind: part.kind}}
		err := e.measure(b, Row{Workload: sub("contexts", part.name+"-"+f.name), Elements: n}, func(p *phase) error {
			err := p.loop(quarter, func(i int) error {
				at := victim(done + i)
				op[0].Element = e.names().append(op[0].Element[:0], at)
				op[0].Context = f.of(seen, dots[at])
				_, err := b.store.Write(e.ctx, []byte(setName), op, bigset.WriteOptions{})
				return err
			})
			if err != nil {
				return err
			}
			p.user = p.ops * elementBytes
			return p.settle(b)
		})
		if err != nil {
			return err
		}
		done += quarter
	}
	err = e.measure(b, Row{Workload: sub("contexts", "read-"+f.name), Elements: n}, func(p *phase) error {
		for range contextReads {
			if err := countInto(p, b.set(setName), n-quarter); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = e.measure(b, Row{Workload: sub("contexts", "close-"+f.name), Elements: n}, func(p *phase) error {
		if err := p.loop(1, func(int) error { return b.compact(e.ctx, setName) }); err != nil {
			return err
		}
		return p.settle(b)
	})
	if err != nil {
		return err
	}
	return e.check(b, setName, n-quarter)
}

// loadedFrom loads the set and returns the dot of each element. They come from so many replicas in turns, or with none from the
// store itself.
func (e *env) loadedFrom(b *bigsetSystem, actors int) ([]clock.Dot, error) {
	dots := make([]clock.Dot, e.elements)
	if actors == 0 {
		counters, err := e.loaded(b, b.set(setName), e.elements)
		for i, n := range counters {
			dots[i] = clock.Dot{Actor: b.actor, Counter: n}
		}
		return dots, err
	}
	for from := range actors {
		d := bigset.Delta{Set: []byte(setName), Actor: clock.Actor(fmt.Sprintf("replica-%04d", from)), First: 1}
		for i := from; i < e.elements; i += actors {
			d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: e.names().append(nil, i)})
			dots[i] = clock.Dot{Actor: d.Actor, Counter: uint64(len(d.Items))}
		}
		for next := d; len(next.Items) > 0; { // in batches
			d, batch := next, min(batchSize, len(next.Items))
			d.Items = next.Items[:batch]
			if err := b.store.ApplyDelta(e.ctx, d, bigset.NoSync); err != nil {
				return nil, err
			}
			next.Items, next.First = next.Items[batch:], next.First+uint64(batch)
		}
	}
	_, err := b.settle(e.ctx)
	return dots, err
}

// countInto reads a whole set; an operation is one element, latencies are those of chunks.
func countInto(p *phase, s set, want int) error {
	got := 0
	watch := stopwatch{p: p}
	watch.start()
	err := s.read(0, func(k int) {
		watch.lap()
		got += k
	})
	if err != nil {
		return err
	}
	p.ops += uint64(got)
	return expect("elements", got, want)
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
				of:   pick{workload: sub("contexts", part+"-"+narrow), system: systemBigset},
				to:   pick{workload: sub("contexts", part+"-"+other.name), system: systemBigset},
				have: speed, limit: 1,
			})
		}
	}
	return list
}
