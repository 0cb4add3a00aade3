package bench

import (
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
)

const (
	queueFull = 1_000_000
	// queueShare: an element is removed before one in so many of all have been added behind it, 10,000 of a million.
	queueShare = 100
	queueTake  = 10 // the reader takes a tenth of the queue at a time
)

// queue: elements are added in ascending order, one an operation; a reader reads the first elements and removes them, in
// one batch and each with its context, so that none stays for longer than a hundredth of the run. An operation is one add
// together with its share of reading and removing; latencies are those of adds, and of adds behind which the reader came.
func queue(e *env) error {
	return e.turns(e.rivals(), func(strategy string) error {
		o := openOptions{strategy: strategy, memTable: e.scaledMemTable(queueFull)}
		return e.with(systemBigset, o, func(sys system) error { return e.queueOn(sys.(*bigsetSystem)) })
	})
}

func (e *env) queueOn(sys *bigsetSystem) error {
	s, n := sys.handle(setName), e.elements
	longest := max(queueTake, n/queueShare)
	before, err := sys.store.Stats()
	if err != nil {
		return err
	}
	b, length := newBatch(1), 0
	f, hist, err := e.figures(sys, func(p *phase) error {
		err := p.loop(n, func(i int) error {
			b.reset()
			b.arena = inOrder(b.arena, i)
			b.list, b.dots = append(b.list, b.arena), append(b.dots, 0)
			if err := s.insert(b.list, b.dots); err != nil {
				return err
			}
			if length++; length < longest {
				return nil
			}
			length -= longest / queueTake
			return s.takeFirst(longest / queueTake)
		})
		if err != nil {
			return err
		}
		for ; length > 0; length -= min(length, batchSize) { // what is left goes, too
			if err := s.takeFirst(min(length, batchSize)); err != nil {
				return err
			}
		}
		p.user = 2 * p.ops * elementBytes
		return p.settle(sys)
	})
	if err != nil {
		return err
	}
	after, err := sys.store.Stats()
	if err != nil {
		return err
	}
	row := Row{Workload: "queue", Elements: n}
	sys.label(&row)
	e.rows.add(row, f, hist)
	row.Workload = "queue/tabled"
	e.rows.add(row, Figures{Ops: after.KeysTabled - before.KeysTabled}, nil)
	return e.check(sys, setName, 0)
}

// takeFirst reads the first n elements and removes them.
func (s *bigsetSet) takeFirst(n int) error {
	s.ops = s.ops[:0]
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, engine.ReadOptions{Limit: n, BatchSize: n}) {
		if err != nil {
			return err
		}
		s.ops = appendRemoves(s.ops, chunk)
	}
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, engine.WriteOptions{})
	if err != nil {
		return err
	}
	return expect("elements taken off the queue", r.Removed, n)
}

func queueGoals() []goal {
	tabled := pick{workload: "queue/tabled", system: systemBigset}
	all := pick{workload: "queue", system: systemBigset}
	return []goal{{what: "keys written to tables, of those added", of: tabled, to: all, have: opsShare, atMost: true, limit: 0.05}}
}

// appendRemoves appends a remove of each element of a chunk, with its context.
func appendRemoves(ops []engine.Op, c *fold.Chunk) []engine.Op {
	for _, el := range c.Elements {
		ops = append(ops, engine.Op{Kind: keyscheme.OpRemove, Element: el.Name, Context: engine.Saw(el.Dots...)})
	}
	return ops
}
