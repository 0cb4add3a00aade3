package coord

import (
	"errors"
	"iter"

	"bigset"
)

// pair is the state of one item at two replicas. The zero value stands for an item that a replica does not have.
type pair[T any] struct {
	a, b   T
	damage error // why they can't be compared
}

// pairs merges two lists in their common order, and yields each item of either list with the corresponding item of the other. An error with
// an item is the pair's damage if it wraps bigset.ErrCorrupt; any other error ends the iteration at once.
func pairs[T any](as, bs iter.Seq2[T, error], compare func(a, b *T) int) iter.Seq2[pair[T], error] {
	return func(yield func(pair[T], error) bool) {
		nextA, stopA := iter.Pull2(as)
		defer stopA()
		nextB, stopB := iter.Pull2(bs)
		defer stopB()
		a, errA, okA := nextA()
		b, errB, okB := nextB()
		for okA || okB {
			for _, err := range []error{errA, errB} {
				if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
					yield(pair[T]{}, err)
					return
				}
			}
			order := -1
			if okA && okB {
				order = compare(&a, &b)
			} else if okB {
				order = 1
			}
			var p pair[T]
			if order <= 0 {
				p.a, p.damage = a, errA
				a, errA, okA = nextA()
			}
			if order >= 0 {
				p.b, p.damage = b, errors.Join(p.damage, errB)
				b, errB, okB = nextB()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}
