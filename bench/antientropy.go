package bench

import (
	"context"

	"bigset/bench/system"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// difference is a way in which the two replicas of anti-entropy differ: one of them misses a thousandth of the elements.
type difference struct {
	name    string
	old     bool // the missing elements are of any age; otherwise they are the newest
	restart bool // memory is cleared before the exchange
	dead    bool // it also does not know that a tenth of the elements was removed
}

var differences = []difference{{name: "newest"}, {name: "newest-restart", restart: true},
	{name: "random", old: true, restart: true}, {name: "dead", old: true, restart: true, dead: true}}

// One of the replicas misses one of every missEvery elements.
const missEvery = 1000

// antiEntropy is the workload anti-entropy: two replicas of a set exchange what either of them is missing, until it is durable. An operation is an element of the set.
// The latency is that of the whole exchange, and the bytes are those of all frames. anti-entropy/…-copy is a copy of the set to a third
// replica, which is empty.
func antiEntropy(e *env) error {
	for _, d := range differences {
		err := e.inFolders(2, func(dirs []string) error {
			err := e.replicatedIn(dirs, system.Options{}, func(list []*replica) error {
				if err := e.loadDifferent(d, list[0], list[1]); err != nil || d.restart {
					return err
				}
				return e.antiEntropyOn(d, list[0], list[1])
			})
			if err != nil || !d.restart {
				return err
			}
			return e.replicatedIn(dirs, system.Options{}, func(list []*replica) error { return e.antiEntropyOn(d, list[0], list[1]) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// live is how many elements the replicas contain at the end.
func (d difference) live(n int) int {
	if d.dead {
		return n - n/10
	}
	return n
}

// loadDifferent makes a set of n elements at a, and the part of it at b that the difference says.
func (e *env) loadDifferent(d difference, a, b *replica) error {
	n := e.elements
	missed := (n + missEvery - 1) / missEvery
	dots := make([]clock.Dot, 0, n)
	load := func(first, last int, to ...*replica) error {
		for ; first < last; first += batchSize {
			more, err := e.replicate(system.SetName, e.adds(nil, first, min(last, first+batchSize)), a, to...)
			if err != nil {
				return err
			}
			dots = append(dots, more...)
		}
		return nil
	}
	var err error
	if !d.old {
		if err = load(0, n-missed, b); err == nil {
			err = load(n-missed, n)
		}
	}
	for first := 0; d.old && first < n && err == nil; first += missEvery {
		last := min(n, first+missEvery) - 1
		if err = load(first, last, b); err == nil {
			err = load(last, last+1)
		}
	}
	if err == nil && d.dead {
		err = e.removeTenth(a, dots)
	}
	if err != nil {
		return err
	}
	return e.settled([]*replica{a, b})
}

// removeTenth removes a tenth of the elements at one replica, but none that the other is missing.
func (e *env) removeTenth(a *replica, dots []clock.Dot) error {
	n := len(dots)
	order, ops := system.Scatter(n, e.cfg.Seed), []bigset.Op{}
	for i, removed := 0, 0; removed < n/10; i++ {
		victim := order(i)
		if victim%missEvery == missEvery-1 || victim == n-1 {
			continue
		}
		removed++
		ops = append(ops, bigset.Op{Kind: keyscheme.OpRemove, Element: e.names().Append(nil, victim), Context: bigset.Saw(dots[victim])})
		if len(ops) == batchSize || removed == n/10 {
			if _, err := e.replicate(system.SetName, ops, a); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	return nil
}

// antiEntropyOn measures the exchange of two replicas, of which b is missing something, and a copy of a.
func (e *env) antiEntropyOn(d difference, a, b *replica) error {
	if err := system.CountBy(a.Set(system.SetName), d.live(e.elements)); err != nil { // so both ways read from the cache
		return err
	}
	err := e.replicated(1, system.Options{}, func(to []*replica) error {
		return e.moved(sub("anti-entropy", d.name+"-copy"), to[0], func(m *meter) error { return e.copySet(a, to[0], false, m) })
	})
	if err != nil {
		return err
	}
	err = e.moved(sub("anti-entropy", d.name), b, func(m *meter) error {
		if _, err := allSlots(e.ctx, metered{a.peer, m}, metered{b.peer, m}); err != nil {
			return err
		}
		_, err := b.Store().Replica().ApplyFacts(e.ctx, bigset.Facts{Set: []byte(system.SetName)}, bigset.ApplyOptions{Durability: bigset.Sync}) // syncs everything before
		return err
	})
	if err != nil {
		return err
	}
	return e.equal(a, b, d.live(e.elements))
}

// moved measures one call that moves bytes.
func (e *env) moved(workload string, sys *replica, move func(*meter) error) error {
	m := &meter{}
	f, hist, err := e.figures(sys, func(p *phase) error {
		err := p.loop(1, func(int) error { return move(m) })
		p.ops = uint64(e.elements)
		return err
	})
	if err != nil {
		return err
	}
	f.BytesMoved = &m.bytes
	row := Row{Workload: workload, Elements: e.elements}
	label(sys, &row)
	e.rows.Add(row, f, hist)
	return nil
}

// equal checks that two replicas know the same, and contain that many elements.
func (e *env) equal(a, b *replica, elements int) error {
	again, err := allSlots(context.WithoutCancel(e.ctx), a.peer, b.peer)
	if err == nil {
		err = system.Expect("sets that differ after an exchange", again.Differ, 0)
	}
	if err == nil {
		err = e.check(a, system.SetName, elements)
	}
	if err == nil {
		err = e.check(b, system.SetName, elements)
	}
	return err
}
