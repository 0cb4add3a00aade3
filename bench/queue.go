package bench

import (
	"errors"
	"time"

	"bigset/bench/system"
)

const (
	// queueFull is the number of elements at which the run's memtable is used; with fewer it shrinks, but not so far that
	// it fills as often as at a million: the filter learns of removes within some 20 ms, whatever the size of a run, and
	// filling a memtable must take much longer than that.
	queueFull = 400_000
	// queueShare: an element is removed before one in so many of all have been added behind it, 10,000 of a million.
	queueShare = 100
	queueTake  = 10  // the reader takes a tenth of the queue at a time
	queueHeads = 200 // times that the head is read on the way
)

// queue: elements are added in ascending order, one an operation; a reader reads the first elements and removes them, in
// one batch and each with its context, so that none stays for longer than a hundredth of the run. An operation is one add
// together with its share of reading and removing; latencies are those of adds, and of adds behind which the reader came.
// On the way, and outside of the measured time, the head of the queue is read, and an empty set of the same store beside it.
func queue(e *env) error {
	return e.turns(e.rivals(), func(c contender) error {
		return e.with(c, rivalOptions(c, e.scaledMemTable(queueFull)), func(sys system.System) error {
			return e.queueOn(sys, e.blobSize(c, e.elements))
		})
	})
}

func (e *env) queueOn(sys system.System, n int) error {
	s := sys.Set(system.SetName)
	before, err := tabled(sys)
	if err != nil {
		return err
	}
	head, err := newHeadProbe(sys, s, n)
	if err != nil {
		return err
	}
	f, hist, err := e.figures(sys, func(p *phase) error {
		if err := runQueue(p, s, n, head); err != nil {
			return err
		}
		p.user = 2 * p.ops * system.ElementBytes
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
	label(sys, &row)
	e.rows.Add(row, f, hist)
	row.Workload = "queue/head"
	e.rows.Add(row, head.queue.all(), head.queue.hist)
	row.Workload = "queue/head-empty"
	e.rows.Add(row, head.empty.all(), head.empty.hist)
	if _, ok := sys.(*system.Bigset); ok {
		row.Workload = "queue/tabled"
		e.rows.Add(row, Figures{Ops: after - before}, nil)
	}
	return e.check(sys, system.SetName, 0)
}

// tabled returns how many element keys a store has written to tables, each as often as it was.
func tabled(sys system.System) (uint64, error) {
	b, ok := sys.(*system.Bigset)
	if !ok {
		return 0, nil
	}
	st, err := b.Store().Stats()
	return st.KeysTabled, err
}

// headProbe reads the head of a queue now and then, and an empty set of the same store beside it. They take turns in coming
// first: the second finds the caches warm.
type headProbe struct {
	every        int // adds
	busy, idle   system.Set
	queue, empty *phase
}

func newHeadProbe(sys system.System, queue system.Set, n int) (*headProbe, error) {
	h := &headProbe{every: max(1, n/queueHeads), busy: queue, idle: sys.Set("nothing"),
		queue: &phase{hist: newHistogram()}, empty: &phase{hist: newHistogram()}}
	if err := h.idle.Insert([][]byte{[]byte("gone")}, []uint64{0}); err != nil {
		return nil, err
	}
	return h, h.idle.TakeFirst(1)
}

// read reads both. The queue must have an element.
func (h *headProbe) read() error {
	if h.queue.ops%2 == 0 {
		return errors.Join(h.queue.readFirst(h.busy, true), h.empty.readFirst(h.idle, false))
	}
	return errors.Join(h.empty.readFirst(h.idle, false), h.queue.readFirst(h.busy, true))
}

// readFirst measures how long the first element of a set takes.
func (p *phase) readFirst(s system.Set, want bool) error {
	cpu, began := cpuNow(), time.Now()
	found, err := s.First(system.Query{Limit: 1})
	took := time.Since(began)
	p.note(took)
	p.ops++
	p.away += took
	p.awayCPU += cpuNow() - cpu
	return errors.Join(err, system.Expect("an element at the head", found, want))
}

// all returns the figures of a phase that was measured call by call.
func (p *phase) all() (f Figures) {
	p.figures(&f, p.away, p.awayCPU)
	return f
}

// runQueue adds n elements and takes each off before a hundredth of n have been added behind it.
func runQueue(p *phase, s system.Set, n int, head *headProbe) error {
	longest, b, length := max(queueTake, n/queueShare), system.NewBatch(1), 0
	err := p.loop(n, func(i int) error {
		b.Reset()
		b.Arena = system.InOrder(b.Arena, i)
		b.List, b.Dots = append(b.List, b.Arena), append(b.Dots, 0)
		if err := s.Insert(b.List, b.Dots); err != nil {
			return err
		}
		if i%head.every == head.every/2 {
			if err := p.aside(head.read); err != nil {
				return err
			}
		}
		if length++; length < longest {
			return nil
		}
		length -= longest / queueTake
		return s.TakeFirst(longest / queueTake)
	})
	for err == nil && length > 0 { // what is left goes, too
		some := min(length, batchSize)
		err, length = s.TakeFirst(some), length-some
	}
	return err
}

func queueGoals() []goal {
	tabled := pick{workload: "queue/tabled", system: system.NameBigset}
	all := pick{workload: "queue", system: system.NameBigset}
	head, empty := pick{workload: "queue/head", system: system.NameBigset}, pick{workload: "queue/head-empty", system: system.NameBigset}
	return []goal{
		{what: "keys written to tables, of those added", of: tabled, to: all, have: opsShare, atMost: true, limit: 0.05,
			why: "a short run; the filter learns of removes every 20 ms, and a flush within them writes keys that are dead (0.001 at a million)"},
		{what: "time to read the head, of that of an empty set", of: head, to: empty, have: latency, atMost: true, limit: 3},
	}
}
