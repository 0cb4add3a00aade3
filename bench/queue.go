package bench

const (
	// queueFull is the number of elements at which the run's memtable is used; with fewer it shrinks, but not so far that
	// it fills as often as at a million: the filter learns of removes within some 20 ms, whatever the size of a run, and
	// filling a memtable must take much longer than that.
	queueFull = 400_000
	// queueShare: an element is removed before one in so many of all have been added behind it, 10,000 of a million.
	queueShare = 100
	queueTake  = 10 // the reader takes a tenth of the queue at a time
)

// queue: elements are added in ascending order, one an operation; a reader reads the first elements and removes them, in
// one batch and each with its context, so that none stays for longer than a hundredth of the run. An operation is one add
// together with its share of reading and removing; latencies are those of adds, and of adds behind which the reader came.
func queue(e *env) error {
	return e.turns(e.rivals(), func(c contender) error {
		return e.with(c, rivalOptions(c, e.scaledMemTable(queueFull)), func(sys system) error {
			return e.queueOn(sys, e.blobSize(c, e.elements))
		})
	})
}

func (e *env) queueOn(sys system, n int) error {
	s := sys.set(setName)
	before, err := tabled(sys)
	if err != nil {
		return err
	}
	f, hist, err := e.figures(sys, func(p *phase) error {
		if err := runQueue(p, s, n); err != nil {
			return err
		}
		p.user = 2 * p.ops * elementBytes
		return p.settle(sys)
	})
	if err != nil {
		return err
	}
	after, err := tabled(sys)
	if err != nil {
		return err
	}
	row := Row{Workload: "queue", Elements: n}
	sys.label(&row)
	e.rows.add(row, f, hist)
	if sys, ok := sys.(*bigsetSystem); ok {
		sys.label(&row)
		row.Workload = "queue/tabled"
		e.rows.add(row, Figures{Ops: after - before}, nil)
	}
	return e.check(sys, setName, 0)
}

// tabled returns how many element keys a store has written to tables, each as often as it was.
func tabled(sys system) (uint64, error) {
	b, ok := sys.(*bigsetSystem)
	if !ok {
		return 0, nil
	}
	st, err := b.store.Stats()
	return st.KeysTabled, err
}

// runQueue adds n elements and takes each off before a hundredth of n have been added behind it.
func runQueue(p *phase, s set, n int) error {
	longest, b, length := max(queueTake, n/queueShare), newBatch(1), 0
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
	for err == nil && length > 0 { // what is left goes, too
		some := min(length, batchSize)
		err, length = s.takeFirst(some), length-some
	}
	return err
}

func queueGoals() []goal {
	tabled := pick{workload: "queue/tabled", system: systemBigset}
	all := pick{workload: "queue", system: systemBigset}
	return []goal{{what: "keys written to tables, of those added", of: tabled, to: all, have: opsShare, atMost: true, limit: 0.05}}
}
