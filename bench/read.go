package bench

import (
	"fmt"

	"bigset/bench/system"
)

// read: the whole set in order with contexts, and its first 1,000 elements, from a large set and a small one of the same
// store. An operation of a full read is one element, its latencies are those of chunks of 1,000, of a blob the whole
// decoding; an operation of the other is one read of 1,000.
func read(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			sizes := e.readSizes(c)
			for _, n := range sizes {
				s := sys.Set(setOf(n))
				if _, err := e.loaded(sys, s, n); err != nil {
					return err
				}
			}
			for _, n := range sizes {
				if err := e.readOn(c, sys, n); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// blobReadMax is the number of elements up to which a blob is read.
const blobReadMax = 1_000_000

func (e *env) readSizes(c contender) []int {
	sizes := e.sizes()
	if c.system == system.NameBlob {
		for i, n := range sizes {
			sizes[i] = min(n, blobReadMax)
		}
	}
	return sizes
}

// setOf names the set of so many elements, where a store has several.
func setOf(n int) string { return fmt.Sprintf("%s-%d", system.SetName, n) }

const (
	readElements     = 200_000 // are read in all, by as many reads as it takes
	readElementsFull = 10_000_000
	firstElements    = 1000
	firstReads       = 200 // reads of the first elements
)

func (e *env) readOn(c contender, sys system.System, n int) error {
	s := sys.Set(setOf(n))
	err := e.measure(sys, Row{Workload: "read", Elements: n}, func(p *phase) error {
		want := readElements
		if e.cfg.Full {
			want = readElementsFull
		}
		reads, got := max(1, want/max(1, n)), 0
		for range reads {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			if err := p.reading(s, 0, &got); err != nil {
				return err
			}
		}
		p.ops = uint64(got)
		return system.Expect("elements read", got, n*reads)
	})
	if err != nil {
		return err
	}
	reads := firstReads
	if c.system == system.NameBlob {
		reads = max(1, min(reads, 2_000_000/max(1, n))) // each decodes all
	}
	return e.measure(sys, Row{Workload: "read/first-1000", Elements: n}, func(p *phase) error {
		got := 0
		err := p.loop(reads, func(int) error {
			return s.Read(firstElements, func(n int) { got += n })
		})
		if err != nil {
			return err
		}
		return system.Expect("elements read", got, reads*min(n, firstElements))
	})
}

// reading reads a set once and notes how long each chunk took.
func (p *phase) reading(s system.Set, limit int, got *int) error {
	c := stopwatch{p: p}
	c.start()
	return s.Read(limit, func(n int) {
		*got += n
		c.lap()
	})
}
