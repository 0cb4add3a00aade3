package bench

import (
	"fmt"

	"bigset/bench/system"
)

// blobReadMax is the number of elements up to which a blob is read.
const blobReadMax = 1_000_000

const (
	readElements     = 200_000 // are read in all, by as many reads as it takes
	readElementsFull = 10_000_000
	firstReads       = 200 // reads of the first elements
)

// setOf names the set of so many elements, where a store has several.
func setOf(n int) string { return fmt.Sprintf("%s-%d", system.SetName, n) }

// reading reads a set once and notes how long each chunk took.
func (p *phase) reading(s system.Set, limit int, got *int) error {
	c := stopwatch{p: p}
	c.start()
	return s.Read(limit, func(n int) {
		*got += n
		c.lap()
	})
}

// readAll reads a set of so many elements as often as makes a measurable time.
func (p *phase) readAll(s system.Set, elements int) error {
	reads, got := max(1, readElements/max(1, elements)), 0
	for range reads {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.reading(s, 0, &got); err != nil {
			return err
		}
	}
	p.ops = uint64(got)
	return system.Expect("elements read", got, reads*elements)
}

// addUp adds the operations, time and CPU of another load.
func addUp(f *Figures, o Figures) {
	took := seconds(&o) + seconds(f)
	if f.CPUMicros != nil && o.CPUMicros != nil {
		o.CPUMicros = new((*f.CPUMicros*float64(f.Ops) + *o.CPUMicros*float64(o.Ops)) / float64(f.Ops+o.Ops))
	}
	f.CPUMicros, f.HeapBytes = o.CPUMicros, o.HeapBytes
	f.Ops += o.Ops
	f.OpsPerSecond = float64(f.Ops) / max(took, 1e-9)
}
func seconds(f *Figures) float64 {
	if f.OpsPerSecond == 0 {
		return 0
	}
	return float64(f.Ops) / f.OpsPerSecond
}
