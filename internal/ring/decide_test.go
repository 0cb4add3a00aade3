package ring_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"bigset/internal/ring"
)

// TestDecide: one turn of a manager starts no more moves than the limits allow; a second plan of the same map is refused once the
// first one is in progress (M5, R7); a lost joiner is given up, but not once its bucket settles.
func TestDecide(t *testing.T) {
	m := static(t, usual, nodes(4, nil))
	m, err := m.WithNodes(nodes(6, nil))
	if err != nil {
		t.Fatal(err)
	}
	l := ring.Limits{Moves: 3, In: 2}
	var c ring.Constraints
	decide := func(m *ring.Map, r reports) (starts, others []ring.Step) {
		for _, s := range ring.Decide(m, r, ring.Quota{}, l, c) {
			switch s.Kind {
			case ring.Start:
				starts = append(starts, s)
			case ring.Reorder:
			default:
				others = append(others, s)
			}
		}
		return starts, others
	}
	starts, others := decide(m, reports{})
	if len(starts) != 3 || len(others) != 0 {
		t.Fatalf("%d moves begin, %d go on", len(starts), len(others))
	}
	if again, _ := decide(m, reports{}); !reflect.DeepEqual(again, starts) {
		t.Error("another manager decides something else")
	}
	before := m
	for _, s := range starts {
		if m, err = m.Take(s, 1, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Check(l); err != nil {
		t.Fatal(err)
	}
	if more, _ := decide(m, reports{}); len(more) != 0 {
		t.Errorf("%d more moves begin", len(more))
	}
	if _, err := m.Take(starts[0], 1, l); !errors.Is(err, ring.ErrVersion) {
		t.Errorf("a step is taken twice: %v", err)
	}
	c.Keep = func(a *ring.Assignment) bool {
		return slices.ContainsFunc(starts, func(s ring.Step) bool { return s.Old.Bucket == a.Bucket })
	}
	other, _ := decide(before, reports{})
	c.Keep = nil
	if _, err := m.Take(other[0], 1, l); !errors.Is(err, ring.ErrLimit) {
		t.Errorf("a fourth move is taken: %v", err)
	}
	if _, err := m.Take(other[0], 0, l); !errors.Is(err, ring.ErrTerm) {
		t.Errorf("a step of an earlier manager is taken: %v", err)
	}
	givesUp(t, m, starts[0].Assignment, decide)
}

// givesUp fails unless a manager gives up a lost joiner while it copies, but not when it settles.
func givesUp(t *testing.T, m *ring.Map, moving ring.Assignment, decide func(*ring.Map, reports) (starts, others []ring.Step)) {
	t.Helper()
	joiner := moving.Joining()[0]
	list := slices.Clone(m.Nodes)
	for i := range list {
		if list[i].Member == joiner {
			list[i].State = ring.NodeLost
		}
	}
	lost, err := m.WithNodes(list)
	if err != nil {
		t.Fatal(err)
	}
	_, others := decide(lost, reports{})
	i := slices.IndexFunc(others, func(s ring.Step) bool { return s.Old.Bucket == moving.Bucket })
	if i < 0 || others[i].Kind != ring.Abort || others[i].Assignment.State != ring.Stable || !slices.Equal(others[i].Assignment.Owners, moving.Owners) {
		t.Fatalf("steps %+v", others)
	}
	settling, err := moving.CutOver()
	if err != nil {
		t.Fatal(err)
	}
	d := &ring.Delta{Generation: lost.Generation, From: lost.Version, Term: lost.Term, Assignments: []ring.Assignment{settling}}
	if lost, err = lost.Apply(d); err != nil {
		t.Fatal(err)
	}
	if _, others = decide(lost, reports{}); slices.ContainsFunc(others, func(s ring.Step) bool { return s.Old.Bucket == moving.Bucket }) {
		t.Error("a bucket that settles goes back")
	}
}
