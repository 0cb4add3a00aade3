package alone

import (
	"context"
	"iter"

	"bigset"
	"bigset/engine"
	"bigset/fold"
	"bigset/server/door"
)

var (
	_ door.Momentary = (*Backend)(nil)
	_ door.Sizer     = (*Backend)(nil)
)

// Live implements door.Sizer.
func (b *Backend) Live(ctx context.Context, set []byte) (uint64, error) {
	n, err := b.store.Live(ctx, set)
	return n, failure(err, 0)
}

// Moment implements door.Momentary.
func (b *Backend) Moment(ctx context.Context, sets [][]byte) (door.Moment, error) {
	m, err := b.store.Moment(ctx, sets)
	if err != nil {
		return nil, failure(err, 0)
	}
	return moment{m}, nil
}

// moment is a door.Moment of a store.
type moment struct{ m *engine.Moment }

// Close implements door.Moment. An iterator that fails to close has reported its error to its reader.
func (m moment) Close() { _ = m.m.Close() }

// Contains implements door.Moment.
func (m moment) Contains(ctx context.Context, set int, elements [][]byte, yes []bool) error {
	return failure(m.m.Contains(ctx, set, elements, yes), 0)
}

// Elements implements door.Moment.
func (m moment) Elements(ctx context.Context, set int, from, to []byte, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var used *fold.Chunk
		o := bigset.ReadOptions{From: from, To: to, Limit: limit, BatchSize: door.BatchMax, Scrap: func() *fold.Chunk { return used }}
		for chunk, err := range m.m.Read(ctx, set, o) {
			if err != nil {
				yield(nil, failure(err, 0))
				return
			}
			for i := range chunk.Elements {
				if !yield(chunk.Elements[i].Name, nil) {
					return
				}
			}
			used = chunk
		}
	}
}
