package coord

import (
	"math"
	"slices"

	"bigset/server/peer"
)

// Placement names the replicas of a set, or of a slice of a filter, in one epoch of the map. It is a value: a request keeps the one with
// which it began, and its replicas refuse it when the map has changed.
type Placement[R interface{ Member() peer.Member }] struct {
	// Read are the replicas that answer reads, and one of which gives an operation its dots, in the order in which they are asked: the
	// nearest and healthiest first. The first N take part.
	Read []R
	// Write are the lists of the replicas that take writes while the range moves from one list to another. A write must be acknowledged by
	// W replicas of each list, or by all of a list that is shorter; and R is limited to the length of Read. Nil is the usual case: the
	// replicas of Read take writes, and no quorum is reduced.
	Write [][]R
}

// List makes a placement of a function that lists the replicas of a set: one list, for reads and writes.
func List(f func(set []byte) []peer.Replica) func(set []byte) Placement[peer.Replica] {
	return func(set []byte) Placement[peer.Replica] { return Placement[peer.Replica]{Read: f(set)} }
}

// all returns all replicas, each once.
func (p Placement[R]) all() []R {
	_, l := place(p, Quorum{N: math.MaxInt})
	return l.write
}

// placed is a placement for one request.
type placed[R interface{ Member() peer.Member }] struct {
	read, write []R        // write has each replica once
	lists       [][]string // of nodes, while the range moves
}

// place limits a placement to a quorum, and the quorum to the placement.
func place[R interface{ Member() peer.Member }](p Placement[R], q Quorum) (Quorum, placed[R]) {
	l := placed[R]{read: first(p.Read, q.N)}
	if p.Write == nil {
		l.write = l.read
		return q, l
	}
	for _, list := range p.Write {
		var nodes []string
		for _, rep := range first(list, q.N) {
			nodes = append(nodes, rep.Member().Node)
			if !slices.ContainsFunc(l.write, func(r R) bool { return r.Member().Node == rep.Member().Node }) {
				l.write = append(l.write, rep)
			}
		}
		l.lists = append(l.lists, nodes)
	}
	q.R = min(q.R, len(l.read))
	return q, l
}

// short returns the length of a list that is too short for a quorum of w, and the length that is needed; 0 and 0 if none is too short.
func (l *placed[R]) short(w int) (has, needed int) {
	switch {
	case l.lists == nil && len(l.write) < w:
		return len(l.write), w
	case len(l.write) == 0:
		return 0, max(1, w)
	}
	return 0, 0
}

// reached reports whether the nodes that have acknowledged are enough for each list.
func reached(lists [][]string, most int, acked []string) bool {
	for _, list := range lists {
		n := 0
		for _, node := range list {
			if slices.Contains(acked, node) {
				n++
			}
		}
		if n < min(most, len(list)) {
			return false
		}
	}
	return true
}

// rulesOut reports whether a write with most acknowledgements in each list would be known to one of these nodes.
func (l *placed[R]) rulesOut(most int, nodes []string) bool {
	lists := l.lists
	if lists == nil {
		all := make([]string, len(l.write))
		for i, rep := range l.write {
			all[i] = rep.Member().Node
		}
		lists = [][]string{all}
	}
	return slices.ContainsFunc(lists, func(list []string) bool {
		others := 0
		for _, node := range list {
			if !slices.Contains(nodes, node) {
				others++
			}
		}
		return others < min(most, len(list))
	})
}
