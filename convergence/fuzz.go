package convergence

import (
	"encoding/binary"
	"math/rand/v2"
)

// bytesSource draws from bytes, and from a generator after the bytes are used up.
type bytesSource struct {
	data []byte
	rest *rand.PCG
}

// Uint64 implements rand.Source.
func (s *bytesSource) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.rest.Uint64()
	}
	var b [8]byte
	// The generator takes the upper half of the bits for small numbers.
	n := copy(b[4:], s.data[:min(2, len(s.data))])
	s.data = s.data[n:]
	return binary.LittleEndian.Uint64(b[:]) * 0x9e3779b97f4a7c15
}

// Fuzz runs one schedule made from the bytes, and fails the test as Run does. It is for go test -fuzz, which looks for bytes that
// reach more of the replica's code:
//
//	func FuzzSet(f *testing.F) {
//		f.Fuzz(func(t *testing.T, data []byte) { convergence.Fuzz(t, system, convergence.Options{}, data) })
//	}
//
// The first eight bytes are the seed for what replicas draw and which messages are lost for good; the others determine the steps.
func Fuzz(t T, sys System, o Options, data []byte) {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatalf("%v", err)
	}
	can, err := probe(sys, o.StepLimit)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var head [8]byte
	data = data[copy(head[:], data):]
	seed := binary.LittleEndian.Uint64(head[:])
	s := generateFrom(sys, can, &o, 0, seed, &bytesSource{data, rand.NewPCG(seed, 1)}, nil)
	if v, _ := watched(sys, s, false, o.StepLimit); v != nil {
		o.until = beforeDeadline(t)
		f := explain(t.Context(), sys, can, s, v, &o)
		t.Fatalf("%v\nreplay: %s=%s", f, envReplay, saveScript(sys, f.Script, f.Violation))
	}
}
