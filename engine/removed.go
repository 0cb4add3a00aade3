package engine

import (
	"context"
	"slices"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// KeepRemoved has the store keep in memory, from now on, which elements the dots had that died last: up to 8 MiB of them, of all sets, as
// KeepRecent does for keys. A store that nobody follows keeps none. It may be called at any time.
func (r Replica) KeepRemoved() { r.s.removed.on.Store(true) }

// Removed returns the elements that some dead dots of a set had, as far as that is known: as far as KeepRemoved reaches back, of dots that died by an
// operation on their element. Of the others nothing is said. It belongs to the caller, and is in no order.
func (r Replica) Removed(ctx context.Context, name []byte, dots *clock.Clock) (found []fold.Element, err error) {
	r.KeepRemoved()
	if dots.Empty() {
		return nil, nil
	}
	err = r.s.usingSet(ctx, name, func(st *set) error {
		at, prefixLen := map[string]int{}, len(st.prefix)
		for key := range r.s.removed.of(st.prefix) {
			element, actor, counter, _, ok := keyscheme.DecodeElement(prefixLen, key)
			if !ok || !dots.ContainsBytes(actor, counter) {
				continue
			}
			dot := clock.Dot{Actor: clock.Actor(actor), Counter: counter}
			i, ok := at[string(element)]
			if !ok {
				i = len(found)
				at[string(element)], found = i, append(found, fold.Element{Name: slices.Clone(element)})
			}
			if !slices.Contains(found[i].Dots, dot) {
				found[i].Dots = append(found[i].Dots, dot)
			}
		}
		return nil
	})
	return found, err
}

// remove notes that a dot of an element dies by the batch.
func (b *builder) remove(element []byte, dot clock.Dot) {
	if !b.s.removed.on.Load() {
		return
	}
	b.buf = b.st.prefix.AppendElement(b.buf[:0], element, dot, keyscheme.OpAdd)
	b.removed = appendRecent(b.removed, b.buf)
}
