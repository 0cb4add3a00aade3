package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bigset"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// portionBytesDefault is the size of a portion when none is asked for.
const portionBytesDefault = 8 << 20

// dotBytes is about how many bytes a packed key has besides its element.
const dotBytes = 8

// ExportPortion reads live keys of a set, after an element or, with nil, from the start, until they are about
// bytesMax bytes (0 is 8 MiB) or a second has passed. The portion is of one moment of the set. ExportPortion returns
// bigset.ErrNotFound if the store does not know the set, and bigset.ErrUnresolved for a key with an unresolved
// context.
func (r Replica) ExportPortion(ctx context.Context, name, after []byte, bytesMax int) (portion *bigset.Portion, err error) {
	if bytesMax == 0 {
		bytesMax = portionBytesDefault
	}
	if bytesMax < 0 || bytesMax > bigset.PortionBytesMax {
		return nil, fmt.Errorf("%w: a portion of %d bytes, at most %d", bigset.ErrRequest, bytesMax, bigset.PortionBytesMax)
	}
	if err := bigset.CheckElement(after); err != nil {
		return nil, err
	}
	err = r.s.withSet(ctx, name, func(st *set) error {
		b := boundsOf(st.prefix, bigset.ReadOptions{After: after})
		if portion, err = r.s.exportPortion(ctx, st, b, bytesMax); err != nil {
			return fmt.Errorf("engine: export a portion of %q: %w", st.name, lsm.DiskError(err))
		}
		return nil
	})
	return portion, err
}

func (s *Store) exportPortion(ctx context.Context, st *set, b keyscheme.Bounds, bytesMax int) (_ *bigset.Portion, err error) {
	e := st.readers.enter()
	defer st.readers.leave(e)
	st.viewing.RLock()
	var state bigset.State
	it, err := s.openAfter(st, b, func() { _, state = st.state() })
	st.viewing.RUnlock()
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	w := bigset.PortionWriter{}
	portion := &bigset.Portion{Set: slices.Clone(st.name), Seen: state.Seen, Dead: state.Dead, Done: true}
	began, prefixLen, size, full := time.Now(), len(st.prefix), 0, false
	var last []byte
	for ok, n := it.First(), 1; ok; ok, n = it.Next(), n+1 {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			full = full || time.Since(began) > iteratorAgeMax
		}
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return nil, fmt.Errorf("%w: key %x", bigset.ErrCorrupt, it.Key())
		}
		if full && n > 1 && string(element) != string(last) {
			portion.Done, portion.Bound = false, append([]byte{}, last...)
			break
		}
		last = append(last[:0], element...)
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if keyscheme.IsUnresolved(value) || op != keyscheme.OpAdd {
			return nil, fmt.Errorf("%w: element %.64q", bigset.ErrUnresolved, element)
		}
		if state.Dead.ContainsBytes(actor, counter) {
			continue
		}
		if portion.Count == 0 { // the others may be about as long
			live := state.Seen.Len() - state.Dead.Len()
			w.Grow(int(min(uint64(bytesMax), live*uint64(len(element)+dotBytes))))
		}
		w.Add(element, actor, counter)
		portion.Count++
		size += len(it.Key()) + len(value)
		full = full || size >= bytesMax
	}
	portion.Keys = w.Keys()
	return portion, it.Error()
}
