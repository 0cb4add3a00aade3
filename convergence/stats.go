package convergence

import "slices"

// Stats counts what schedules did.
type Stats struct {
	Schedules  int
	Steps      int // steps that were done
	Skipped    int // steps that could not be done, because their reference was removed or the replica does not have the ability
	Operations int
	Deliveries int
	Checks     int // views that were judged
	Errors     int // operations, deliveries and syncs that were answered by an error

	// Faults counts by kind: loss, loss-for-good, duplicate, delay, reorder, partition, crash, crash-unsynced, crash-in-operation,
	// restart, gone, wipe, restore, leave, backup, damage, io-error, disk-full, copy, copy-cut, copy-crash, stream-failover, skew,
	// and the names that Maintainers return.
	Faults map[string]int
	// Sometimes counts how often interesting states were reached: those that the kit knows of, from 0, and those that the replicas
	// name (Env.Sometimes).
	Sometimes map[string]int
	// Shapes counts schedules by the shape that generated them.
	Shapes map[string]int

	sent  int    // messages of operations
	own   int    // messages that replicas sent by themselves
	parts int    // steps of copies that did not end them
	pairs bitset // by pairNames: kinds of steps that followed each other at a replica
}

// delayMin is the number of steps after which a message counts as delayed.
const delayMin = 10

// joined is the name of a state.
const joined = "replica joined in the middle"

func newStats() *Stats {
	return &Stats{Faults: map[string]int{}, Sometimes: map[string]int{}, Shapes: map[string]int{}}
}

// ofMessages are the faults and states that a system can reach only if its replicas send messages, or (true) only if its operations
// do.
var ofMessages = map[string]bool{
	"loss": false, "duplicate": false, "delay": false, "reorder": false, "message delivered to its own author": false,
	"loss-for-good": true, "remove delivered before what it removes": true,
}

// ofParts are the faults and states that need a copy of more than one step.
var ofParts = []string{"copy-cut", "copy-crash", "copy begun again after a cut", "two copies into one replica"}

// add adds what one schedule did.
func (s *Stats) add(o *Stats) {
	s.Steps += o.Steps
	s.Skipped += o.Skipped
	s.Operations += o.Operations
	s.Deliveries += o.Deliveries
	s.Checks += o.Checks
	s.Errors += o.Errors
	s.sent += o.sent
	s.own += o.own
	s.parts += o.parts
	s.pairs.union(&o.pairs)
	for k, n := range o.Faults {
		s.Faults[k] += n
	}
	for k, n := range o.Sometimes {
		s.Sometimes[k] += n
	}
}

// never returns the names whose count is 0, ascending.
func never(list map[string]int) (names []string) {
	for k, n := range list {
		if n == 0 {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}

// countConcurrent counts an operation whose replica can't know of another replica's operation on the same element.
func (w *world) countConcurrent(n *node, op Op) {
	w.h.on(op.Elem).each(func(i int) bool {
		if n.maybe.has(i) {
			return true
		}
		w.stats.Sometimes["concurrent operations on one element"]++
		return false
	})
}

// countDelivery counts what the net did to a message before it is delivered to a replica.
func (w *world) countDelivery(m *message, to int) {
	if m.seen[to] > 0 {
		w.stats.Faults["duplicate"]++
	} else if w.step.N-m.step > delayMin {
		w.stats.Faults["delay"]++
	}
	if m.from == to && m.to < 0 {
		w.stats.Sometimes["message delivered to its own author"]++
	}
	if m.seen[to] == 0 && w.nodes[to].newest > m.step {
		w.stats.Faults["reorder"]++
		w.countOvertaken(m, to)
	}
}

// countOvertaken counts that a replica receives an add after a remove that had observed it.
func (w *world) countOvertaken(m *message, to int) {
	m.sure.each(func(i int) bool {
		found := false
		if w.h.adds.has(i) && !w.nodes[to].sure.has(i) {
			found = among(&w.h.kills, &w.nodes[to].sure, func(k int) bool { return w.h.seen[k].has(i) })
		}
		if found {
			w.stats.Sometimes["remove delivered before what it removes"]++
		}
		return !found
	})
}

func (w *world) countCrash(n *node, s *Step) {
	if s.Kind != "crash" {
		w.stats.Faults[s.Kind]++
		return
	}
	w.stats.Faults["crash"]++
	lost := false
	n.sure.each(func(i int) bool {
		lost = !n.durable.has(i)
		return !lost
	})
	if lost {
		w.stats.Faults["crash-unsynced"]++
		n.sure.each(func(i int) bool {
			if !n.durable.has(i) && ones(w.h.acks[i]) > 0 {
				w.stats.Sometimes["crash lost what another replica had acknowledged"]++
				return false
			}
			return true
		})
	}
	for from, row := range w.copies {
		if c := row[n.id]; c != nil && c.c != nil || w.copies[n.id][from] != nil && w.copies[n.id][from].c != nil {
			w.stats.Faults["copy-crash"]++
			return
		}
	}
}

// countLost counts, before everything is exchanged, messages that no step delivered to a replica to which they were addressed.
func (w *world) countLost() {
	for i := range w.made {
		for _, m := range w.made[i].msgs {
			for to := range w.nodes {
				if to != m.from && (m.to < 0 || m.to == to) && m.seen[to] == 0 {
					w.stats.Faults["loss"]++
				}
			}
		}
	}
}
