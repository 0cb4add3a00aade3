package engine

import (
	"context"
	"iter"

	"bigset"
)

// Set is one set of a store, for programs whose names and elements are strings; a string may have any bytes. Its methods
// use the store's defaults. For other options, batches that mix adds and removes, ranges and pages, use the methods of
// Store that take byte slices. A Set is a cheap value, whether or not the store has a set of that name. Its methods may
// be called by any number of goroutines.
type Set struct {
	s    *Store
	name []byte
}

// Set returns the set with a name. It reads and writes nothing.
func (s *Store) Set(name string) Set { return Set{s, []byte(name)} }

// Add adds elements, in one atomic batch: Store.Add.
func (x Set) Add(ctx context.Context, elements ...string) (bigset.Result, error) {
	return x.s.Add(ctx, x.name, byteSlices(elements), bigset.WriteOptions{})
}

// Remove removes elements as far as the store has them at that moment, in one atomic batch: Store.Remove.
func (x Set) Remove(ctx context.Context, elements ...string) (bigset.Result, error) {
	return x.s.Remove(ctx, x.name, byteSlices(elements), bigset.WriteOptions{})
}

// RemoveSeen removes what a context of the element covers, and nothing that was added since. Look returns such contexts.
// The zero Context is none: RemoveSeen then does what Remove does.
func (x Set) RemoveSeen(ctx context.Context, element string, seen bigset.Context) (bigset.Result, error) {
	return x.s.Write(ctx, x.name, []bigset.Op{bigset.Remove([]byte(element), seen)}, bigset.WriteOptions{})
}

// Contains reports whether the set contains an element: Store.Contains.
func (x Set) Contains(ctx context.Context, element string) (bool, error) {
	return x.s.Contains(ctx, x.name, []byte(element))
}

// Look reports whether the set contains an element, with the context to act on what was seen of it: Store.Look.
func (x Set) Look(ctx context.Context, element string) (bigset.Presence, error) {
	return x.s.Look(ctx, x.name, []byte(element))
}

// Elements streams the elements in order. It ends after an error. A set that the store does not know is an error that wraps
// bigset.ErrNotFound; a set that has become empty is not.
func (x Set) Elements(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range x.s.Elements(ctx, x.name, bigset.ReadOptions{}) {
			if !yield(string(e.Name), err) {
				return
			}
		}
	}
}

func byteSlices(all []string) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}
