package door

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestLimits has doors take and give connections at random: none has more than its own and what all share, and none misses its own.
func TestLimits(t *testing.T) {
	t.Parallel()
	const most = 10
	l := NewLimits(LimitsOptions{Connections: most})
	shares := make([]share, 3)
	for i, kept := range []int{0, 3, 2} {
		if err := l.keep(&shares[i], kept); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.keep(new(share), most-4); err == nil {
		t.Error("more connections are kept than there are")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		sh := &shares[r.IntN(len(shares))]
		if r.IntN(2) == 0 && sh.open > 0 {
			l.give(sh)
			continue
		}
		shared := 0
		for i := range shares {
			shared += max(0, shares[i].open-shares[i].kept)
		}
		want := sh.open < sh.kept || shared < most-5
		if got := l.take(sh); got != want {
			t.Fatalf("with %+v open a connection of the door that keeps %d: %v, want %v", shares, sh.kept, got, want)
		}
	}
	for i := range shares {
		for shares[i].open > 0 {
			l.give(&shares[i])
		}
		l.release(&shares[i])
	}
	for range most {
		if !l.take(&shares[0]) {
			t.Fatal("what was given back is not there")
		}
	}
	if l.take(&shares[0]) {
		t.Error("one more than there may be")
	}
}

// TestLongBytes makes long requests count once, and only while they exist.
func TestLongBytes(t *testing.T) {
	t.Parallel()
	l := NewLimits(LimitsOptions{LongBytes: 100})
	if !l.takeLong(60) || l.takeLong(41) || !l.takeLong(40) || l.takeLong(1) {
		t.Error("wrong by the limit")
	}
	l.takeLong(-100)
	if !l.takeLong(100) {
		t.Error("what was given back is not there")
	}
}

// TestBatchMemory: the batch of a write takes memory if the name of the set makes it longer than its request.
func TestBatchMemory(t *testing.T) {
	t.Parallel()
	write := func(name, ops, element int) *Write {
		w := &Write{Set: make([]byte, name), Ops: make([]Op, ops)}
		for i := range w.Ops {
			w.Ops[i].Element = make([]byte, element)
		}
		return w
	}
	for _, c := range []struct {
		w    *Write
		want int64
	}{
		{write(64<<10, 1, 0), 0},
		{write(64<<10, 2, 0), 256 << 10},
		{write(64, 1024, 1024), 0},
		{write(65, 1024, 1024), 2 << 20},
		{write(32<<10, 1024, 2), 64 << 20},
		{write(2_588, 100_000, 1), 256 << 20},
		{write(64<<10, 4_096, 0), 0}, // refused by its size
	} {
		l := NewLimits(LimitsOptions{LongBytes: max(c.want, 1)})
		taken, err := l.TakeBatch(c.w)
		if err != nil || taken != c.want || l.long.Load() != c.want {
			t.Errorf("name of %d, %d operations: %d taken, %d counted, %v, want %d", len(c.w.Set), len(c.w.Ops), taken, l.long.Load(), err, c.want)
		}
		if c.want == 0 {
			continue
		}
		for _, retry := range []bool{false, true} {
			c.w.Retry = retry
			if taken, err := l.TakeBatch(c.w); taken != 0 || !errors.Is(err, ErrNoRoom) || errors.Is(err, ErrUnknown) != retry || l.long.Load() != c.want {
				t.Errorf("without room, retry %v: %d taken, %v", retry, taken, err)
			}
		}
	}
	if taken, err := (*Limits)(nil).TakeBatch(write(64<<10, 2, 0)); taken != 0 || err != nil {
		t.Errorf("without limits: %d, %v", taken, err)
	}
}
