package engine

import (
	"context"
	"fmt"

	"bigset"
	"bigset/clock"
)

// ApplyFacts applies facts of another replica. Each key is checked against what this store has seen at the moment of
// application: a key whose dot is seen is left alone. Otherwise key and dot enter in one batch or, if the dot is
// dead, the dot alone. f.Dead is added to Dead. No other dot enters Seen (rule R0). A nil error means that the facts
// are as durable as asked for, also when nothing changed. With any other error nothing has changed, unless it wraps
// bigset.ErrFailed.
func (r Replica) ApplyFacts(ctx context.Context, f bigset.Facts, o bigset.ApplyOptions) (bigset.FactsResult, error) {
	if err := f.Check(); err != nil {
		return bigset.FactsResult{}, err
	}
	w := &facts{Facts: f}
	if err := r.s.writeTo(ctx, f.Set, newRequest(w, o.Durability)); err != nil {
		return bigset.FactsResult{}, err
	}
	return w.result, nil
}

// facts are the facts of another replica as work.
type facts struct {
	bigset.Facts
	result bigset.FactsResult
}

func (f *facts) adds() bool { return len(f.Keys) > 0 }

func (f *facts) looksUp(bigset.Policy) bool { return false }

func (f *facts) into(b *builder, _ *request) error { return b.applyFacts(f) }

func (f *facts) size(prefixBytes int) (keys, bytes int) {
	for i := range f.Keys {
		n := len(f.Keys[i].Dots)
		keys += n
		bytes += n * (prefixBytes + len(f.Keys[i].Name))
	}
	return keys, bytes
}

// applyFacts adds facts to the batch.
func (b *builder) applyFacts(f *facts) error {
	last := f.Dead.Max(b.actor)
	for i := range f.Keys {
		for _, d := range f.Keys[i].Dots {
			if d.Actor == b.actor {
				last = max(last, d.Counter)
			}
		}
	}
	if last > b.counter {
		return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", bigset.ErrFacts, last, b.counter)
	}
	f.result = bigset.FactsResult{Dead: b.addAllDead(f.Dead)}
	for i := range f.Keys { // a dot that has just died is seen by now, and gets no key
		for _, d := range f.Keys[i].Dots {
			if b.learn(d) {
				b.put(addKey{element: f.Keys[i].Name, dot: d})
				f.result.Keys++
			}
		}
	}
	b.sibling = b.sibling || f.result.Keys > 0
	return nil
}

// addDeadSinglyMax is how many dots enter Dead one by one, as an operand of their own size. More dots are joined as a
// clock.
const addDeadSinglyMax = 4096

// addAllDead puts a clock into Seen and Dead, and returns how many of its dots are new to Dead. Apart from the search
// for new dots, the cost depends on their number alone.
func (b *builder) addAllDead(dead *clock.Clock) (grown uint64) {
	if b.st.dead.Descends(dead) {
		return 0
	}
	fresh := dead.Clone()
	fresh.Subtract(b.st.dead)
	if b.cleared != nil {
		fresh.Subtract(b.cleared)
	}
	n := fresh.Len()
	if n > addDeadSinglyMax {
		for _, d := range b.killed.dots {
			if fresh.Contains(d) {
				n--
			}
		}
		b.clear(fresh)
		return n
	}
	for d := range fresh.Dots() {
		b.learn(d)
		if b.addDead(d) {
			grown++
		}
	}
	return grown
}
