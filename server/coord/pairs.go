package coord

import (
	"errors"
	"iter"

	"bigset"
)

// pair is what two replicas have of one thing. The zero value stands for what one of them does not have.
type pair[T any] struct {
	a, b   T
	damage error // why they can't be compared
}

// pairs yields what either of two lists has, in their common order, and beside it what the other has of the same. An error that comes
// with an item is the pair's damage if it wraps bigset.ErrCorrupt; any other one ends the lists at once.
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
