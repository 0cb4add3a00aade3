package clock

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check reports where c breaks the normal form that Equal and the encoding rely on.
func (c *Clock) check() error {
	for i := range c.records() {
		r := &c.recs[i]
		if i > 0 && c.recs[i-1].actor >= r.actor || !r.actor.valid() {
			return fmt.Errorf("record %d: actor %x", i, string(r.actor))
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("actor %x: %w", string(r.actor), err)
		}
	}
	return nil
}

func (r *Counters) check() error {
	if r.count == 0 {
		return fmt.Errorf("empty")
	}
	count, next := r.base, uint64(0)
	for i := range r.pages {
		p := &r.pages[i]
		if p.first > p.last || p.last > indexMax || i > 0 && p.first < next {
			return fmt.Errorf("page %d: %d-%d after %d", i, p.first, p.last, next)
		}
		if err := p.check(i > 0 && r.pages[i-1].bits == nil && p.first == next); err != nil {
			return fmt.Errorf("page %d: %w", i, err)
		}
		next = p.last + 1
		count += p.size()
	}
	if count != r.count {
		return fmt.Errorf("count %d, want %d", r.count, count)
	}
	if low := r.cloudMin(); low != 0 && (low <= r.base || low == r.base+1) {
		return fmt.Errorf("base %d, cloud from %d", r.base, low)
	}
	return nil
}

func (p *page) check(afterExtent bool) error {
	if p.bits == nil {
		if afterExtent || p.first == 0 {
			return fmt.Errorf("extent %d-%d not joined", p.first, p.last)
		}
		return nil
	}
	n := p.bits.GetCardinality()
	if p.first != p.last || n != uint64(p.n) || n == 0 || n == pageValues || p.bits.Maximum() > lowMask {
		return fmt.Errorf("%d-%d: n %d, cardinality %d", p.first, p.last, p.n, n)
	}
	return p.bits.Validate()
}

// mustCheck fails the test if a clock is not in normal form.
func mustCheck(t testing.TB, clocks ...*Clock) {
	t.Helper()
	for _, c := range clocks {
		if err := c.check(); err != nil {
			t.Fatalf("normal form: %v", err)
		}
	}
}

// cells cuts the counters 1..2^64-1 at every place where something may go wrong. Each op of the model takes whole cells,
// so a set of cells is an exact model of a clock, however long its runs.
var cells = func() []Run {
	points := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 100, 127, 128, 129}
	for i := range uint64(60) {
		points = append(points, 70000+i*3, 70001+i*3)
	}
	for _, mid := range []uint64{1 << 16, 1 << 17, 3 << 16, 4 << 16, 1 << 32, 1 << 48, 1 << 63} {
		for d := range uint64(6) {
			points = append(points, mid-3+d)
		}
	}
	for d := uint64(1<<64 - 1<<16 - 2); d < 1<<64-1<<16+2; d++ {
		points = append(points, d)
	}
	points = append(points, 1<<64-4, 1<<64-3, 1<<64-2, 1<<64-1)
	return cut(points)
}()

// cut returns the points as cells of one counter and what lies between them as long cells. The points are sorted here.
func cut(points []uint64) []Run {
	seen := Of()
	for _, p := range points {
		seen.Add(Dot{"x", p})
	}
	var list []Run
	next := uint64(1)
	for d := range seen.Dots() {
		if d.Counter > next {
			list = append(list, Run{"", next, d.Counter - 1})
		}
		list = append(list, Run{"", d.Counter, d.Counter})
		next = d.Counter + 1
	}
	return list
}

var actors = []Actor{"a", "ab", "b"}

type cell struct {
	actor Actor
	i     int
}

// model is the plain set that a clock is compared with.
type model map[cell]bool

func (m model) String() string {
	c := new(Clock)
	for k := range m {
		c.AddRange(k.actor, cells[k.i].First, cells[k.i].Last)
	}
	return c.String()
}

func (m model) clone() model {
	n := model{}
	for k := range m {
		n[k] = true
	}
	return n
}

func (m model) where(keep func(cell) bool) model {
	n := model{}
	for k := range m {
		if keep(k) {
			n[k] = true
		}
	}
	return n
}

func (m model) union(o model) model {
	n := m.clone()
	for k := range o {
		n[k] = true
	}
	return n
}

func (m model) and(o model) model    { return m.where(func(k cell) bool { return o[k] }) }
func (m model) andNot(o model) model { return m.where(func(k cell) bool { return !o[k] }) }

// verify compares everything that c answers with the model.
func (m model) verify(t rapid.TB, c *Clock) {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatalf("normal form: %v", err)
	}
	var total uint64
	overflow := false
	for _, a := range actors {
		var last, base uint64
		view := c.Counters(a)
		for i, run := range cells {
			in := m[cell{a, i}]
			for _, n := range []uint64{run.First, run.First + (run.Last-run.First)/2, run.Last} {
				if c.Contains(Dot{a, n}) != in || c.ContainsBytes([]byte(a), n) != in || view.Contains(n) != in {
					t.Fatalf("Contains(%x:%d) = %v, model %v", string(a), n, !in, in)
				}
			}
			j := min(len(cells)-1, i+i*7%30) // as far as this one
			any := slices.ContainsFunc(indexes(i, j), func(k int) bool { return m[cell{a, k}] })
			if view.ContainsAny(run.First, cells[j].Last) != any || view.ContainsAny(run.First, run.First-1) {
				t.Fatalf("ContainsAny(%x:%d-%d) = %v, model %v", string(a), run.First, cells[j].Last, !any, any)
			}
			if !in {
				continue
			}
			if base == run.First-1 {
				base = run.Last
			}
			last = run.Last
			size := run.Last - run.First + 1
			overflow = overflow || total+size < total
			total += size
		}
		if c.Max(a) != last || c.Base(a) != base {
			t.Fatalf("%x: Max %d Base %d, model %d %d", string(a), c.Max(a), c.Base(a), last, base)
		}
	}
	if overflow {
		total = 1<<64 - 1
	}
	if c.Len() != total || c.Empty() != (len(m) == 0) {
		t.Fatalf("Len %d Empty %v, model %d %v", c.Len(), c.Empty(), total, len(m) == 0)
	}
	m.verifyRuns(t, c)
}

func indexes(first, last int) (list []int) {
	for i := first; i <= last; i++ {
		list = append(list, i)
	}
	return list
}

func (m model) verifyRuns(t rapid.TB, c *Clock) {
	t.Helper()
	var want []Run
	gaps := 0
	for _, a := range actors {
		for i, run := range cells {
			k := len(want) - 1
			switch {
			case !m[cell{a, i}]:
			case k >= 0 && want[k].Actor == a && want[k].Last == run.First-1:
				want[k].Last = run.Last
			default:
				want = append(want, Run{a, run.First, run.Last})
				if run.First > 1 {
					gaps++
				}
			}
		}
	}
	var got []Run
	for run := range c.Runs() {
		got = append(got, run)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || c.GapCount() != gaps {
		t.Fatalf("Runs %v, %d gaps; model %v, %d", got, c.GapCount(), want, gaps)
	}
}

// drawPair draws a clock and its model, made by the same steps.
func drawPair(t *rapid.T, label string) (*Clock, model) {
	c, m := new(Clock), model{}
	for range rapid.IntRange(0, 12).Draw(t, label) {
		mutate(t, c, m)
	}
	return c, m
}

// mutate adds cells to c and m alike.
func mutate(t *rapid.T, c *Clock, m model) {
	a := rapid.SampledFrom(actors).Draw(t, "actor")
	i := rapid.IntRange(0, len(cells)-1).Draw(t, "first cell")
	j := i
	if rapid.Bool().Draw(t, "range") {
		j = min(len(cells)-1, i+rapid.IntRange(0, 40).Draw(t, "cells"))
	}
	if i == j && cells[i].First == cells[i].Last {
		if fresh := c.Add(Dot{a, cells[i].First}); fresh == m[cell{a, i}] {
			t.Fatalf("Add(%d) = %v", cells[i].First, fresh)
		}
	} else {
		c.AddRange(a, cells[i].First, cells[j].Last)
	}
	for ; i <= j; i++ {
		m[cell{a, i}] = true
	}
	if err := c.check(); err != nil {
		t.Fatalf("normal form: %v", err)
	}
}
