package convergence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"bigset/convergence"
)

// LWWSet is a last-writer-wins set: for each element it keeps the newest operation.
type LWWSet struct {
	env  convergence.Env
	last map[string]write
}

type write struct {
	Elem   []byte // any bytes: a string of JSON would be UTF-8
	Time   int64
	Author int
	Add    bool
}

func OpenLWWSet(env convergence.Env) (convergence.Replica, error) {
	return &LWWSet{env: env, last: map[string]write{}}, nil
}

func (s *LWWSet) Do(op convergence.Op) (convergence.Effect, error) {
	w := write{[]byte(op.Elem), s.env.Now(), s.env.ID, op.Kind == "add"}
	msg, err := json.Marshal(w)
	if err != nil {
		return convergence.Effect{}, err
	}
	s.put(w)
	return convergence.Effect{Out: [][]byte{msg}}, nil
}

func (s *LWWSet) Receive(msg []byte) (durable bool, err error) {
	var w write
	if err := json.Unmarshal(msg, &w); err != nil {
		return false, err
	}
	s.put(w)
	return false, nil
}

func (s *LWWSet) put(w write) {
	old, ok := s.last[string(w.Elem)]
	tie := w.Time == old.Time
	// An author whose clock was set back has the same time twice: then the add wins, whichever comes first.
	if !ok || w.Time > old.Time || tie && w.Author > old.Author || tie && w.Author == old.Author && w.Add {
		s.last[string(w.Elem)] = w
	}
}

func (s *LWWSet) Read() (v convergence.View, err error) {
	for _, e := range slices.Sorted(maps.Keys(s.last)) {
		if s.last[e].Add {
			v.Items = append(v.Items, convergence.Item{Elem: e})
		}
	}
	return v, nil
}

func (s *LWWSet) Close() error { return nil }

// A last-writer-wins set keeps its own, weaker specification. Held to AddWins it loses adds that no client had seen when it removed
// them.
func Example_lastWriterWins() {
	sys := convergence.System{Name: "lww-set", Open: OpenLWWSet, Spec: convergence.LastWriterWins{}}
	report(sys, 300)
	sys.Spec = convergence.AddWins{}
	report(sys, 1000)
	// Output:
	// lww-set: 300 schedules, no violation
	// lww-set: lost at step 60: replica B: "a" is not shown, although its add of step 3 was acknowledged and not removed
	// shrunk from 252 to 3 steps
	// it rests on: Spec AddWins{}; a delivered message takes effect at once, even if earlier ones are missing
	// if the system promises less, declare that; accepted: Spec LastWriterWins{}
	//
	// convergence script 1
	// system lww-set
	// seed 2092789425003139053
	// replicas 2
	// shape backwards-twice
	// 3 do A add a                       # A shows {a}; B shows {}
	// 52 do B remove a                   # B shows {}
	// 60 deliver 3.0 B                   # B shows {} !! lost
}

// report explores a system and prints what was found.
func report(sys convergence.System, schedules int) {
	r, err := convergence.Explore(context.Background(), sys, convergence.Options{Seed: 1, Schedules: schedules, Replicas: 2})
	switch {
	case err != nil:
		fmt.Println(err)
	case r.Failure != nil:
		fmt.Print(sys.Name, ": ", r.Failure)
	default:
		fmt.Printf("%s: %d schedules, no violation\n", sys.Name, r.Schedules)
	}
}
