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

// A delta is what another replica did. It may come at any time, any number of times, before or behind those that it refers to.

// ApplyDelta applies what another replica did. Deltas may come in any order, be lost, or come twice. A nil error means
// that the delta is as durable as asked for, also when nothing changed.
func (r Replica) ApplyDelta(ctx context.Context, d bigset.Delta, o bigset.ApplyOptions) error {
	if err := d.Check(); err != nil {
		return err
	}
	return r.s.writeTo(ctx, d.Set, newRequest((*delivery)(&d), o.Durability))
}

// ApplyDeltas is ApplyDelta for several deltas of one set, which share a batch and a sync as far as these take them. It returns the error of each, nil where all
// were applied; an error of one says what that of ApplyDelta says, and leaves the others alone.
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

// errorsOf returns the errors of requests, nil where none has one.
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

// delivery is a delta of another replica as work.
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

// apply takes another replica's delta into the batch. Its contexts kill whatever is known of its dots: a delta whose dot
// is already seen, or already dead, still kills.
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
			b.put(it.Element, dot, it.Kind, nil)
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

// applyWide takes an event whose context is wide into the batch, as it is. Its dot may be known already: because a narrow
// context named it before it came, or because it has come before. A key that is here is not written again. Where none is, its
// context must still count. If all that it names is seen it is resolved at once: the fold pass may have resolved the key and
// taken it away. Else no pass has closed it yet, and it is stored as the context of a remove.
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
	b.put(it.Element, dot, kind, it.Wide)
	if it.Kind == keyscheme.OpRemove {
		b.addDead(dot)
	}
}

// holdsKey reports whether a key of that dot is stored, of whatever kind.
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

// checkDelta refuses dots of this store's own actor that it never issued.
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
