package convergence_test

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// TwoPhaseSet is a 2P-set: two sets that only grow. What was removed once never comes back.
type TwoPhaseSet struct {
	added, removed map[string]bool
}

func OpenTwoPhaseSet(convergence.Env) (convergence.Replica, error) {
	return &TwoPhaseSet{map[string]bool{}, map[string]bool{}}, nil
}

func (s *TwoPhaseSet) Do(op convergence.Op) (convergence.Effect, error) {
	msg := []byte("+" + op.Elem)
	if op.Kind == "remove" {
		if !s.added[op.Elem] {
			return convergence.Effect{}, convergence.ErrRefused
		}
		msg[0] = '-'
	}
	_, err := s.Receive(msg)
	return convergence.Effect{Out: [][]byte{msg}}, err
}

func (s *TwoPhaseSet) Receive(msg []byte) (durable bool, err error) {
	if msg[0] == '+' {
		s.added[string(msg[1:])] = true
	} else {
		s.removed[string(msg[1:])] = true
	}
	return false, nil
}

func (s *TwoPhaseSet) Read() (v convergence.View, err error) {
	for _, e := range slices.Sorted(maps.Keys(s.added)) {
		if !s.removed[e] {
			v.Items = append(v.Items, convergence.Item{Elem: e})
		}
	}
	return v, nil
}

func (s *TwoPhaseSet) Close() error { return nil }

// A 2P-set keeps its own specification. Held to AddWins it can't add again what was removed.
func Example_twoPhase() {
	sys := convergence.System{Name: "2p-set", Open: OpenTwoPhaseSet, Spec: convergence.TwoPhase{}}
	report(sys, 300)
	sys.Spec = convergence.AddWins{}
	report(sys, 1000)
	// Output:
	// 2p-set: 300 schedules, no violation
	// 2p-set: lost at step 52: replica A: "a" is not shown, although its add of step 52 was acknowledged and not removed
	// shrunk from 54 to 3 steps
	// it rests on: Spec AddWins{}; a delivered message takes effect at once, even if earlier ones are missing
	// if the system promises less, declare that; accepted: Spec TwoPhase{}
	//
	// convergence script 1
	// system 2p-set
	// seed 10451216379200822465
	// replicas 1
	// shape mixed-all
	// 36 do A add a                      # A shows {a}
	// 43 do A remove a                   # A shows {}
	// 52 do A add a                      # A shows {} !! lost
}
