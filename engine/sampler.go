package engine

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset/compaction"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// samplesPerTable is how many keys of each table of a set are read to estimate where its garbage is densest.
const samplesPerTable = 64

// sample splits a set into spans along the bounds of its bottommost tables and estimates each one's density. With
// all, it also counts keys that the drop filter would drop by itself at the next compaction: nobody writes the set,
// so there may be no compaction.
func (s *Store) sample(ctx context.Context, st *set, tables []lsm.Table, all bool) (_ *compaction.Index, err error) {
	var cuts []lsm.Table
	for _, t := range tables {
		if len(t.Smallest) >= len(st.prefix) && string(t.Smallest[:len(st.prefix)]) == string(st.prefix) && t.Level == 6 {
			cuts = append(cuts, t)
		}
	}
	slices.SortFunc(cuts, func(a, b lsm.Table) int { return comparator.Compare(a.Smallest, b.Smallest) })
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, lsm.DiskError(err)
	}
	defer lsm.Closing(it, &err)
	elements := st.prefix.Elements()
	span := compaction.Span{Set: string(st.prefix), Lower: elements.Lower}
	index := compaction.NewIndex()
	sampler := sampler{s: s, st: st, view: st.view(), it: it, all: all}
	sampler.look(elements.Lower, &span)
	for _, t := range cuts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := t.Smallest[:comparator.Split(t.Smallest)]
		if span.Bytes >= uint64(s.opt.SpanBytes)/2 && comparator.Compare(at, span.Lower) > 0 {
			span.Upper = at
			index.Put(span)
			span = compaction.Span{Set: span.Set, Lower: at}
		}
		sampler.look(at, &span)
		span.Bytes += t.Bytes
	}
	span.Upper = elements.Upper
	index.Put(span)
	return index, it.Error()
}

// hidden returns how often the drop filter has left out a key of the set, for readers and for tables.
func (s *Store) hidden(st *set) uint64 { return s.registry.Load().Hits(st.prefix) }

// hiddenSince returns how much hidden has grown. The count starts again when the set leaves the drop filter.
func (s *Store) hiddenSince(st *set, before uint64) int { return s.hiddenFrom(st.prefix, before) }

// hiddenFrom is hiddenSince for a set that may not be in memory.
func (s *Store) hiddenFrom(prefix keyscheme.Prefix, before uint64) int {
	if now := s.registry.Load().Hits(prefix); now > before {
		return int(now - before)
	}
	return 0
}

// sampler looks at a few keys from a given place on.
type sampler struct {
	s    *Store
	st   *set
	view *view
	it   *pebble.Iterator
	all  bool
}

func (p *sampler) look(from []byte, span *compaction.Span) {
	hidden := p.s.hidden(p.st)
	n := 0
	for ok := p.it.SeekGE(from); ok && n < samplesPerTable; ok = p.it.Next() {
		_, actor, counter, _, isElement := keyscheme.DecodeElement(len(p.st.prefix), p.it.Key())
		if !isElement || string(p.it.Key()[:len(p.st.prefix)]) != string(p.st.prefix) {
			break
		}
		n++
		span.Keys++
		if p.garbage(actor, counter) {
			span.Dead++
		}
	}
	if p.all {
		n := uint64(p.s.hiddenSince(p.st, hidden))
		span.Keys += n
		span.Dead += n
	}
}

// garbage reports whether a rewriter could remove the current key, or the context that it still carries.
func (p *sampler) garbage(actor []byte, counter uint64) bool {
	value, err := p.it.ValueAndErr()
	if err != nil || !keyscheme.IsUnresolved(value) { // the error is met again when the span is read
		return p.view.dead.ContainsBytes(actor, counter)
	}
	wide, err := keyscheme.DecodeElementValue(value)
	return err == nil && p.view.seen.Descends(wide)
}
