package convergence_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"bigset/convergence"
)

// ORSet is a plain observed-remove set: an add has a unique tag, a remove names the tags that it saw.
type ORSet struct {
	env     convergence.Env
	next    int
	adds    map[string]string // tag to element
	removed map[string]bool   // tags
}

type orMessage struct {
	Tag     string
	Elem    []byte // any bytes: a string of JSON would be UTF-8
	Removes []string
}

func OpenORSet(env convergence.Env) (convergence.Replica, error) {
	return &ORSet{env: env, adds: map[string]string{}, removed: map[string]bool{}}, nil
}

func (s *ORSet) Do(op convergence.Op) (convergence.Effect, error) {
	var m orMessage
	if op.Kind == "add" {
		s.next++
		m = orMessage{Elem: []byte(op.Elem), Tag: fmt.Sprintf("%d-%d", s.env.ID, s.next)}
	} else {
		m.Removes = s.tags(op.Elem)
	}
	msg, _ := json.Marshal(m) // of strings: it can't fail
	_, err := s.Receive(msg)
	return convergence.Effect{Tag: m.Tag, Out: [][]byte{msg}}, err
}

func (s *ORSet) Receive(msg []byte) (durable bool, err error) {
	var m orMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		return false, err
	}
	if m.Tag != "" {
		s.adds[m.Tag] = string(m.Elem)
	}
	for _, t := range m.Removes {
		s.removed[t] = true
	}
	return false, nil
}

func (s *ORSet) tags(elem string) []string { return s.present()[elem] }

// present returns the elements that are present, with their tags.
func (s *ORSet) present() map[string][]string {
	all := map[string][]string{}
	for _, t := range slices.Sorted(maps.Keys(s.adds)) {
		if !s.removed[t] {
			all[s.adds[t]] = append(all[s.adds[t]], t)
		}
	}
	return all
}

func (s *ORSet) Read() (v convergence.View, err error) {
	all := s.present()
	for _, e := range slices.Sorted(maps.Keys(all)) {
		v.Items = append(v.Items, convergence.Item{Elem: e, Tags: all[e]})
	}
	return v, nil
}

func (s *ORSet) Close() error { return nil }

// An observed-remove set keeps what the specification AddWins asks for.
func Example() {
	sys := convergence.System{Name: "or-set", Open: OpenORSet, Spec: convergence.AddWins{}}
	report(sys, 300)
	// Output:
	// or-set: 300 schedules, no violation
}

// forgetful is an ORSet with a mistake: it remembers the removal of an add only if it has the add.
type forgetful struct{ *ORSet }

func (s forgetful) Receive(msg []byte) (bool, error) {
	var m orMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		return false, err
	}
	for _, t := range m.Removes {
		delete(s.adds, t)
	}
	m.Removes = nil
	msg, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	return s.ORSet.Receive(msg)
}

// A remove may overtake the add that it removes. The kit finds a replica that does not expect this, and prints the shortest
// script that shows it.
func Example_violation() {
	sys := convergence.System{Name: "forgetful", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return forgetful{r.(*ORSet)}, err
	}}
	report(sys, 1000)
	// Output:
	// forgetful: resurrected at step 46: replica B: "a" is shown by add 0-1 of step 36, which was removed or replaced
	// shrunk from 54 to 4 steps
	// it rests on: Spec AddWins{}; a delivered message takes effect at once, even if earlier ones are missing
	// if the system promises less, declare that; accepted: CausalNet
	//
	// convergence script 1
	// system forgetful
	// seed 10451216379200822465
	// replicas 2
	// shape mixed-all
	// 36 do A add a                      # a is 0-1; A shows {a[0-1]}; B shows {}
	// 43 do A remove a                   # A shows {}
	// 44 deliver 43.0 B                  # B shows {}
	// 46 deliver 36.0 B                  # B shows {a[0-1]} !! resurrected
}
