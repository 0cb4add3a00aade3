package lsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// row is an Unflushed for tests, whose batches are applied at once.
type row struct {
	Unflushed
	seq uint64
}

func newRow() *row {
	r := &row{}
	r.init(1 << 20)
	return r
}

// write adds elements as one batch.
func (r *row) write(elements ...string) {
	g := r.Enter()
	for _, e := range elements {
		r.Add(g, []byte(e))
	}
	r.seq++
	r.Leave(g, r.seq)
}

func (r *row) check(t *testing.T, when string, moment uint64, element string, want bool) {
	t.Helper()
	if got := r.MayHold([]byte(element), moment); got != want {
		t.Errorf("%s: memtables may hold %s: %v", when, element, got)
	}
}

// TestUnflushed: an element is known from before its batch is applied until its sequence number is flushed, and then by iterators that are older.
func TestUnflushed(t *testing.T) {
	t.Parallel()
	r := newRow()
	before := r.Moment()
	r.check(t, "before all", before, "a", false)
	r.write("a")
	r.check(t, "written", before, "a", true)
	r.check(t, "another", before, "b", false)
	r.flushedTo(0)
	r.check(t, "flushed before it", before, "a", true)
	late := r.Enter()
	r.Add(late, []byte("late"))
	r.write("b")
	r.flushedTo(1)
	r.check(t, "flushed, for an older iterator", before, "a", true)
	r.check(t, "flushed", r.Moment(), "a", false)
	r.check(t, "flushed, but not that", r.Moment(), "b", true)
	r.flushedTo(2)
	r.check(t, "flushed with a batch that is not applied", r.Moment(), "late", true)
	r.seq++
	r.Leave(late, r.seq)
	r.flushedTo(2)
	r.check(t, "applied, and not flushed", r.Moment(), "late", true)
	r.flushedTo(3)
	r.check(t, "all flushed", r.Moment(), "late", false)
	r.check(t, "all flushed", r.Moment(), "b", false)
	failed := r.Enter()
	r.Add(failed, []byte("failed"))
	r.Leave(failed, 0)
	r.flushedTo(3)
	r.check(t, "never applied", r.Moment(), "failed", false)
	if n := len(*r.row.Load()); n != 0 {
		t.Errorf("%d generations are left", n)
	}
}

// TestUnflushedBlind: a write that the row of memtables does not see may contain any element, until a batch that came after it is
// flushed.
func TestUnflushedBlind(t *testing.T) {
	t.Parallel()
	r := newRow()
	r.write("a")
	early := r.Enter() // its number is below that of what comes
	end := r.Blind()
	r.check(t, "under way", r.Moment(), "x", true)
	r.flushedTo(100)
	r.check(t, "under way, and all flushed", r.Moment(), "x", true)
	end()
	r.flushedTo(100)
	r.check(t, "no number is known", r.Moment(), "x", true)
	r.Leave(early, 101)
	r.flushedTo(101)
	r.check(t, "an earlier batch is flushed", r.Moment(), "x", true)
	r.seq = 200
	r.write("b")
	r.flushedTo(150)
	r.check(t, "no later batch is flushed", r.Moment(), "x", true)
	r.flushedTo(201)
	r.check(t, "a later batch is flushed", r.Moment(), "x", false)
	r.Blind()()
	r.Blind()()
	r.write("c")
	r.flushedTo(202)
	r.check(t, "twice", r.Moment(), "x", false)
}

// TestUnflushedUnknown: an element that was applied with an unknown number is known until a batch that entered after it is flushed,
// not one that was in progress, in whatever generation.
func TestUnflushedUnknown(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"batch", "blind"} {
		for between := range 3 {
			r := newRow()
			first := r.Enter()
			r.Add(first, []byte("x"))
			end := func() { r.LeaveUnknown(first) }
			if kind == "blind" {
				end = r.Blind()
				r.Leave(first, 1)
			}
			var early []*Generation // their numbers, 10 and more, are below the unknown one, 50
			for range between {
				r.flushedTo(0) // ends the youngest generation
				early = append(early, r.Enter())
			}
			end()
			for i, g := range early {
				r.Leave(g, uint64(10+i))
			}
			when := fmt.Sprint(kind, " and ", between, " generations that began before its end")
			r.flushedTo(49)
			r.check(t, when+", not flushed", r.Moment(), "x", true)
			r.seq = 50
			r.write("later")
			r.flushedTo(50)
			r.check(t, when+", flushed without the later batch", r.Moment(), "x", true)
			r.flushedTo(51)
			r.check(t, when+", flushed", r.Moment(), "x", false)
		}
	}
}

// TestUnflushedFolds: whatever enters without a number, and whatever is in progress, the row is bounded, and it knows everything
// that is not flushed.
func TestUnflushedFolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRow()
		type write struct {
			element string
			seq     uint64 // 0 before it is applied
			leave   func(seq uint64)
		}
		var under, applied []*write
		apply := func(w *write) {
			if w.seq == 0 {
				r.seq++
				w.seq = r.seq
			}
		}
		most := 0
		for i := range 300 {
			w := &write{element: fmt.Sprint("e", i)}
			if len(under) > 0 {
				w = under[random.IntN(len(under))]
			}
			switch n := random.IntN(12); {
			case n < 4 || len(under) == 0:
				g := r.Enter()
				w = &write{element: fmt.Sprint("e", i), leave: func(seq uint64) { r.Leave(g, seq) }}
				if random.IntN(4) == 0 {
					w.leave = func(uint64) { r.LeaveUnknown(g) }
				}
				r.Add(g, []byte(w.element))
				under = append(under, w)
			case n == 4:
				end := r.Blind()
				under = append(under, &write{element: fmt.Sprint("e", i), leave: func(uint64) { end() }})
			case n < 9:
				apply(w)
				w.leave(w.seq)
				under = slices.DeleteFunc(under, func(other *write) bool { return other == w })
				applied = append(applied, w)
			case n == 9: // it leaves later
				apply(w)
			default:
				r.flushedTo(r.seq - min(r.seq, uint64(random.IntN(10))))
			}
			for _, w := range slices.Concat(applied, under) {
				if (w.seq == 0 || w.seq > r.flushed) && !r.MayHold([]byte(w.element), r.Moment()) {
					t.Fatalf("seed %d, step %d: %s of number %d is not known, flushed are %d", seed, i, w.element, w.seq, r.flushed)
				}
			}
			most = max(most, len(under))
			if n := len(*r.row.Load()); n > generationsMost+most {
				t.Fatalf("seed %d, step %d: %d generations with %d batches under way", seed, i, n, most)
			}
		}
		for _, w := range under {
			apply(w)
			w.leave(w.seq)
		}
		r.write("last")
		r.flushedTo(r.seq)
		r.flushedTo(r.seq)
		if n := len(*r.row.Load()); n > 0 {
			t.Fatalf("seed %d: %d generations are left", seed, n)
		}
	}
}

// TestUnflushedIsBounded: flushes that end no generation make no more generations than allowed, and few elements are taken for
// others.
func TestUnflushedIsBounded(t *testing.T) {
	t.Parallel()
	r := newRow()
	for i := range 100 {
		r.write(fmt.Sprint("many", i))
		r.flushedTo(0)
	}
	if n := len(*r.row.Load()); n > generationsMost {
		t.Errorf("%d generations", n)
	}
	for range 100 {
		r.Blind()()
		r.write("one")
	}
	if n := len(*r.row.Load()); n > generationsMost {
		t.Errorf("%d generations after ingests", n)
	}
	r.flushedTo(r.seq)
	r.flushedTo(r.seq)
	for i := range 10_000 { // of a memtable of 1 MiB
		r.write(fmt.Sprint("e", i))
	}
	wrong := 0
	for i := range 10_000 {
		r.check(t, "written", r.Moment(), fmt.Sprint("e", i), true)
		if r.MayHold(fmt.Append(nil, "other", i), r.Moment()) {
			wrong++
		}
	}
	if wrong > 500 {
		t.Errorf("%d of 10,000 others are taken for them", wrong)
	}
}
