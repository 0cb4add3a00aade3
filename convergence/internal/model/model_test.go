package model

import (
	"math/rand/v2"
	"testing"

	"bigset/convergence"
)

func newReplica(t testing.TB, id int) *replica {
	r, err := open(convergence.Env{ID: id, Replicas: 2, Now: func() int64 { return 1 }, Rand: rand.New(rand.NewPCG(1, 2))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDots(t *testing.T) {
	a, b := from(dot{1, 1}, dot{1, 64}, dot{63, 2}), from(dot{1, 64})
	if !b.within(&a) || a.within(&b) || !a.has(dot{63, 2}) || a.has(dot{63, 3}) || len(a.list()) != 3 {
		t.Fatal(a.list())
	}
	a.minus(&b)
	if a.has(dot{1, 64}) || len(a.list()) != 2 {
		t.Fatal(a.list())
	}
	if got := (dot{13, 12}).tag(); got != "Bf12" {
		t.Fatal(got)
	}
}

// FuzzReceive gives a replica any bytes, as a message, a question and a context. None may make it panic, and a message that
// is refused changes nothing.
func FuzzReceive(f *testing.F) {
	r := newReplica(f, 0)
	for _, op := range []convergence.Op{{Kind: "add", Elem: "x"}, {Kind: "remove", Elem: "x"}, {Kind: "clear"}} {
		e, err := r.Do(op)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Out[0])
	}
	ask, _ := newReplica(f, 1).Ask()
	f.Add(ask)
	out, err := r.Answer(ask)
	if err != nil {
		f.Fatal(err)
	}
	for _, msg := range out {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newReplica(t, 1)
		before := r.Dump()
		if _, err := r.Receive(b); err != nil && r.Dump() != before {
			t.Fatalf("%v, and changed %s to %s", err, before, r.Dump())
		}
		r.Answer(b)
		if b != nil {
			r.Do(convergence.Op{Kind: "remove", Elem: "x", Context: b})
		}
	})
}
