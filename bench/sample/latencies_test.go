package sample_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset/bench/sample"
)

func read(s sample.Source) []float64 {
	v := make([]float64, len(s.Columns()))
	for i := range v {
		v[i] = nan
	}
	s.Read(v)
	return v
}

// TestLatencies: percentiles are those of the interval, counts and the total those of all, and nothing is lost between clients and readers.
func TestLatencies(t *testing.T) {
	t.Parallel()
	l := sample.NewLatencies("readers")
	if c := l.Columns(); c[0].Name != "readers/ops" || c[3].Name != "readers/p99" || l.Name() != "clients readers" {
		t.Errorf("%q, %v", l.Name(), c)
	}
	if v := read(l); v[0] != 0 || !math.IsNaN(v[2]) {
		t.Errorf("of nobody: %v", v)
	}
	both := l.Begin(2)
	a, b := both[0], both[1]
	for i := 1; i <= 99; i++ {
		a.Record(time.Duration(i)*time.Microsecond, 2, 32)
	}
	b.Record(time.Hour, 1, 16)
	near := func(got, want float64) bool { return math.Abs(got-want) <= want/100 }
	v := read(l)
	if v[0] != 199 || v[1] != 99*32+16 || !near(v[2], 50) || !near(v[3], 99) || !near(v[4], 600e6) || !near(v[5], 600e6) {
		t.Errorf("first: %v", v)
	}
	b.Record(3*time.Millisecond, 1, 0)
	b.Record(-1, 0, 0) // a clock that went back
	if v := read(l); v[0] != 200 || !near(v[5], 3000) || v[2] != 0 {
		t.Errorf("second: %v", v)
	}
	if v := read(l); v[0] != 200 || !math.IsNaN(v[2]) {
		t.Errorf("third, of nothing: %v", v)
	}
	if h := l.Total(); h.TotalCount() != 102 || h.ValueAtPercentile(50) > 51_100 || h.ValueAtPercentile(50) < 49_900 {
		t.Errorf("%d latencies, half of them below %d", h.TotalCount(), h.ValueAtPercentile(50))
	}
	if ops, bytes := l.Ops(); ops != 200 || bytes != 99*32+16 {
		t.Errorf("%d ops, %d bytes", ops, bytes)
	}
	a.Record(2*time.Millisecond, 1, 1)
	c := l.Begin(1)[0]
	if ops, bytes := l.Ops(); ops != 0 || bytes != 0 || l.Total().TotalCount() != 0 {
		t.Errorf("the next phase begins with %d ops, %d bytes, %d latencies", ops, bytes, l.Total().TotalCount())
	}
	c.Record(time.Millisecond, 1, 1)
	if v := read(l); v[0] != 202 || v[1] != 99*32+18 || !near(v[5], 2000) || l.Total().Max() > 1_001_000 {
		t.Errorf("the tick in which a phase began: %v, the longest latency of the phase %d", v, l.Total().Max())
	}
}

// TestLatenciesTogether: no client's record is lost or counted twice while it is read.
func TestLatenciesTogether(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 5000
	l := sample.NewLatencies("")
	var wg sync.WaitGroup
	for _, r := range l.Begin(clients) {
		wg.Go(func() {
			for i := range each {
				r.Record(time.Duration(i), 1, 10)
			}
		})
	}
	last := 0.
	for range 100 {
		v := read(l)
		if v[0] < last {
			t.Errorf("%v operations after %v", v[0], last)
		}
		last = v[0]
	}
	wg.Wait()
	if v := read(l); v[0] != clients*each || v[1] != clients*each*10 || l.Total().TotalCount() != clients*each {
		t.Errorf("%v, %d latencies", v, l.Total().TotalCount())
	}
}

// TestRecordAllocates: recording allocates nothing.
func TestRecordAllocates(t *testing.T) {
	r := sample.NewLatencies("").Begin(1)[0]
	if n := testing.AllocsPerRun(1000, func() { r.Record(time.Millisecond, 1, 16) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	rs, next := sample.NewLatencies("").Begin(1000), atomic.Int64{}
	b.RunParallel(func(p *testing.PB) {
		r := rs[next.Add(1)-1]
		for i := 0; p.Next(); i++ {
			r.Record(time.Duration(i&0xfffff), 1, 16)
		}
	})
}

// BenchmarkRead is what a tick costs of 50 clients that were busy.
func BenchmarkRead(b *testing.B) {
	l := sample.NewLatencies("")
	rs := l.Begin(50)
	v := make([]float64, len(l.Columns()))
	for b.Loop() {
		for i, r := range rs {
			for k := range 20 {
				r.Record(time.Duration(i*k)*time.Microsecond, 1, 16)
			}
		}
		l.Read(v)
	}
}
