package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// ApplyDelta applies what another replica did. Deltas may arrive in any order, more than once, or never. A nil error means that the
// delta is as durable as the options ask, even if it changed nothing.
func (r Replica) ApplyDelta(ctx context.Context, d bigset.Delta, o bigset.ApplyOptions) error {
	if err := d.Check(); err != nil {
		return err
	}
	return r.s.writeTo(ctx, d.Set, newRequest((*delivery)(&d), o.Durability))
}

// ApplyDeltas applies several deltas of one set. They share batches and syncs as far as the limits of a batch allow. It returns nil if all
// were applied, and otherwise the error of each, as ApplyDelta would return it. A delta that fails does not affect the others.
func (r Replica) ApplyDeltas(ctx context.Context, name []byte, all []bigset.Delta, o bigset.ApplyOptions) []error {
	requests := make([]*request, len(all))
	for i := range all {
		q := newRequest((*delivery)(&all[i]), o.Durability)
		if q.err = all[i].Check(); q.err == nil && !bytes.Equal(all[i].Set, name) {
			q.err = fmt.Errorf("%w: of set %.64q, not %.64q", bigset.ErrDelta, all[i].Set, name)
		}
		requests[i] = q
	}
	r.s.writeAll(ctx, name, requests)
	return errorsOf(requests)
}

// errorsOf returns the error of each request, or nil if none has one.
func errorsOf(all []*request) (errs []error) {
	for i, r := range all {
		if r.err != nil {
			if errs == nil {
				errs = make([]error, len(all))
			}
			errs[i] = r.err
		}
	}
	return errs
}

// delivery is a delta of another replica, as the work of a request.
type delivery bigset.Delta

func (d *delivery) adds() bool {
	return slices.ContainsFunc(d.Items, func(it bigset.Item) bool { return it.Kind == keyscheme.OpAdd })
}

func (d *delivery) size(prefixBytes int) (keys, bytes int) {
	for i := range d.Items {
		it := &d.Items[i]
		bytes += prefixBytes + len(it.Element) + bigset.BatchDotBytes*len(it.Context) + it.WideBytes()
	}
	return len(d.Items), bytes
}

func (d *delivery) looksUp(bigset.Policy) bool {
	return slices.ContainsFunc(d.Items, func(it bigset.Item) bool { return it.Wide != nil })
}

func (d *delivery) into(b *builder, _ *request) error {
	b.sibling = b.sibling || len(d.Items) > 0
	return b.apply((*bigset.Delta)(d))
}

// apply adds another replica's delta to the batch. The contexts of a delta always count: they kill their dots even if the delta's own
// dot has been seen, or is dead.
func (b *builder) apply(d *bigset.Delta) error {
	if err := b.checkDelta(d); err != nil {
		return err
	}
	for i := range d.Items {
		it := &d.Items[i]
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		if it.Wide != nil {
			if b.applyWide(it, dot); b.err != nil {
				return b.err
			}
			continue
		}
		b.kill(it.Element, it.Context)
		fresh := b.learn(dot)
		switch {
		case it.Kind == keyscheme.OpRemove:
			b.addDead(dot)
		case fresh:
			b.put(addKey{element: it.Element, dot: dot})
		}
	}
	if !d.Clear.Empty() {
		b.clear(d.Clear)
	}
	if len(d.Request) > 0 && len(d.Items) > 0 && b.recall(d.Request) == nil {
		b.remember(d)
	}
	return b.err
}

// applyWide adds an event with a wide context to the batch and leaves the context unresolved. The event's dot may be known: the event
// has arrived before, or a narrow context has named its dot. Then there are three cases. If the store has the event's key, nothing is
// written. If it has none but has seen all that the context names, the context is resolved now, because the fold pass may have resolved
// and removed the key. Otherwise no fold pass can have done so, and the context is stored as that of a remove.
func (b *builder) applyWide(it *bigset.Item, dot clock.Dot) {
	kind := it.Kind
	if !b.learn(dot) {
		if b.holdsKey(it.Element, dot) || b.err != nil {
			return
		}
		if b.st.next.Descends(it.Wide) {
			b.kill(it.Element, b.liveDots(notStored, it.Element, it.Wide))
			return
		}
		kind = keyscheme.OpRemove
	}
	b.putUnresolved(it.Element, dot, kind, it.Wide)
	if it.Kind == keyscheme.OpRemove {
		b.addDead(dot)
	}
}

// holdsKey reports whether a key of that dot is stored, of an add or of a remove.
func (b *builder) holdsKey(element []byte, dot clock.Dot) bool {
	if _, ok := b.unresolvedDots[dot]; ok {
		return true
	}
	for _, kind := range []keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove} {
		b.buf = b.st.prefix.AppendElement(b.buf[:0], element, dot, kind)
		_, closer, err := b.s.db.View(b.buf)
		if err == nil {
			b.check(closer.Close())
			return true
		}
		if !errors.Is(err, pebble.ErrNotFound) {
			b.check(err)
			return false
		}
	}
	return false
}

// checkDelta returns an error if a delta names dots of this store's actor that the store has never issued.
func (b *builder) checkDelta(d *bigset.Delta) error {
	last := uint64(0)
	if d.Actor == b.actor && len(d.Items) > 0 {
		last = d.First + uint64(len(d.Items)) - 1
	}
	for i := range d.Items {
		for _, c := range d.Items[i].Context {
			if c.Actor == b.actor {
				last = max(last, c.Counter)
			}
		}
		if wide := d.Items[i].Wide; wide != nil {
			if !b.s.opt.KeepContexts {
				return fmt.Errorf("%w: item %d has a wide context, and this store does not keep them unresolved (Options.KeepContexts)", bigset.ErrDelta, i)
			}
			last = max(last, wide.Max(b.actor))
		}
	}
	if !d.Clear.Empty() {
		last = max(last, d.Clear.Max(b.actor))
	}
	if last > b.counter {
		return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", bigset.ErrDelta, last, b.counter)
	}
	return nil
}
