package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"bigset/bench/system"

	"bigset/server/coord"
)

// quorumReplicas is the number of replicas of a set.
const quorumReplicas = 3

const (
	readElements = 200_000 // elements read in total, by as many reads as needed
	firstReads   = 200     // reads of the first elements
)

// setOf names the set of n elements in a store with several sets.
func setOf(n int) string { return fmt.Sprintf("%s-%d", system.SetName, n) }

// reading reads a set once and records how long each chunk took.
func (p *phase) reading(s system.Set, limit int, got *int) error {
	c := stopwatch{p: p}
	c.start()
	return s.Read(limit, func(n int) {
		*got += n
		c.lap()
	})
}

// quorumRead is the workload quorum-read: it reads the whole set as the replicas know it together, in order, with contexts, from two of three replicas, which are stores in
// this process. An operation is one element; the latencies are those of its parts. quorum-read/r3 reads from all three, and
// quorum-read/local reads one store. quorum-read/first is the time until the first elements of a read from two arrive. quorum-read/heap is
// by what the heap grows during such a read, in the set and in one of a tenth of its size.
func quorumRead(e *env) error {
	sizes := []int{max(1, e.elements/10), e.elements}
	return e.replicated(quorumReplicas, system.Options{Warm: true}, func(list []*replica) error {
		for _, n := range sizes {
			if err := e.replicatedLoad(setOf(n), list, n); err != nil {
				return err
			}
		}
		return e.coordinated(list, func(c *coord.Coordinator) error {
			q := &quorumReads{e, list[0], c}
			for _, n := range sizes {
				if err := q.heap(n); err != nil {
					return err
				}
			}
			return errors.Join(q.rates(e.elements), q.first(e.elements))
		})
	})
}

type quorumReads struct {
	*env
	local *replica
	coord *coord.Coordinator
}

// read reads a set of n elements from R replicas, and calls part with the number of elements in each part. It stops when part returns
// false.
func (q *quorumReads) read(n, r int, part func(n int) (more bool)) error {
	request := coord.Read{Set: []byte(setOf(n)), Quorum: coord.Quorum{R: r}}
	for p, err := range q.coord.Read(q.ctx, request) {
		if err != nil {
			return err
		}
		if !part(len(p.Elements)) {
			return nil
		}
	}
	return nil
}

// heapLooks is how often the heap is measured during a read.
const heapLooks = 4

// heap reads a set of n elements from all replicas, which fills the caches, and then from two of them.
func (q *quorumReads) heap(n int) error {
	got := 0
	count := func(n int) bool { got += n; return true }
	if err := errors.Join(q.read(n, quorumReplicas, count), system.Expect("elements read", got, n)); err != nil {
		return err
	}
	before, most, looks := heapBytes(), uint64(0), 0
	got = 0
	err := q.read(n, 2, func(k int) bool {
		if got += k; k > 0 && got*heapLooks >= looks*n {
			most = max(most, heapBytes())
			looks++
		}
		return true
	})
	row := Row{Workload: "quorum-read/heap", Elements: n}
	label(q.local, &row)
	q.rows.Add(row, Figures{HeapBytes: new(max(most, before) - before)}, nil)
	return errors.Join(err, system.Expect("elements read", got, n))
}

// rates measures the reads in turns.
func (q *quorumReads) rates(n int) error {
	parts := []struct {
		name string
		read func(p *phase, got *int) error
	}{
		{"quorum-read/local", func(p *phase, got *int) error { return p.reading(q.local.Set(setOf(n)), 0, got) }},
		{"quorum-read", func(p *phase, got *int) error { return q.reading(p, n, 2, got) }},
		{"quorum-read/r3", func(p *phase, got *int) error { return q.reading(p, n, quorumReplicas, got) }},
	}
	if q.round%2 == 1 {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		err := q.measure(q.local, Row{Workload: part.name, Elements: n}, func(p *phase) error {
			reads, got := max(1, readElements/n), 0
			for range reads {
				if err := q.ctx.Err(); err != nil {
					return err
				}
				if err := part.read(p, &got); err != nil {
					return err
				}
			}
			p.ops = uint64(got)
			return system.Expect("elements read", got, n*reads)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (q *quorumReads) reading(p *phase, n, r int, got *int) error {
	c := stopwatch{p: p}
	c.start()
	return q.read(n, r, func(k int) bool {
		*got += k
		c.lap()
		return true
	})
}

// first measures the time until the first elements arrive. The context arrives just before them.
func (q *quorumReads) first(n int) error {
	return q.measure(q.local, Row{Workload: "quorum-read/first", Elements: n}, func(p *phase) error {
		for range firstReads {
			began, found := time.Now(), false
			err := q.read(n, 2, func(k int) bool {
				if found = k > 0; found {
					p.observe(time.Since(began))
				}
				return !found
			})
			if err := errors.Join(err, system.Expect("first elements", found, true)); err != nil {
				return err
			}
		}
		p.ops = firstReads
		return nil
	})
}

// writeQuorum is the workload write-quorum: one add, which is answered when two of three replicas have it on disk. The replicas share a disk, and the third gets the
// add later. write-quorum/local is an add that one store has on disk.
func writeQuorum(e *env) error {
	return e.replicated(quorumReplicas, system.Options{Sync: true, Warm: true}, func(list []*replica) error {
		local := func() error {
			return e.insertOneByOne(list[0], list[0].Set("local"), Row{Workload: "write-quorum/local", Elements: e.elements})
		}
		if e.round%2 == 1 {
			if err := local(); err != nil {
				return err
			}
		}
		if err := e.writeQuorumOn(list); err != nil || e.round%2 == 1 {
			return err
		}
		return local()
	})
}

func (e *env) writeQuorumOn(list []*replica) error {
	err := e.measure(list[0], Row{Workload: "write-quorum", Elements: e.elements}, func(p *phase) error {
		err := e.coordinated(list, func(c *coord.Coordinator) error {
			return p.loop(e.elements, func(i int) error {
				_, err := c.Write(e.ctx, coord.Write{Set: []byte(system.SetName), Ops: e.adds(nil, i, i+1)})
				return err
			})
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(list[0])
	})
	if err != nil {
		return err
	}
	for i, r := range list { // a delta in flight when the coordinator was closed may be missing
		if _, err := allSlots(e.ctx, list[0].peer, r.peer); i > 0 && err != nil {
			return err
		}
		if err := e.check(r, system.SetName, e.elements); err != nil {
			return err
		}
	}
	return nil
}
