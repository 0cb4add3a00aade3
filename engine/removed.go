package engine

import (
	"context"
	"slices"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// KeepRemoved makes the store remember the elements of the dots that died last, of all sets. They take up to 8 MiB of memory, as the keys
// of KeepRecent do. A store that nobody follows remembers none. KeepRemoved may be called at any time.
func (r Replica) KeepRemoved() { r.s.removed.on.Store(true) }

// Removed returns the elements of dead dots of a set. It knows the dots that KeepRemoved still remembers and that died by an operation on
// their element, and leaves out the others. The result belongs to the caller and is in no order.
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

// remove records that the batch kills a dot of an element.
func (b *builder) remove(element []byte, dot clock.Dot) {
	if !b.s.removed.on.Load() {
		return
	}
	b.buf = b.st.prefix.AppendElement(b.buf[:0], element, dot, keyscheme.OpAdd)
	b.removed = appendRecent(b.removed, b.buf)
}
