package engine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// The records of requests are copied to another store together with its sets. A store that has a record answers for
// the events in it, and counts as one that has them. So it accepts a record only when it has seen the dots of the
// events, and what they killed is dead here: a copy sends records last.

// A page holds the records that are in memory at a time. It ends after requestsPage records, or after
// requestsPageBytes bytes on disk. One record may have many events.
const (
	requestsPage      = 256
	requestsPageBytes = 1 << 20
)

// Requests lists what this store keeps of clients' requests to sets in the slots from first to last, both included:
// the requests that KnowsRequest would know. They are in the order of slots, and those of one set are together. The
// list is not of one moment. Damaged records are left out.
func (r Replica) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return func(yield func(bigset.KeptRequest, error) bool) {
		keys, err := r.s.requestKeys(ctx, first, last)
		for err == nil && len(keys) > 0 {
			var page []bigset.KeptRequest
			page, keys, err = r.s.readRequests(ctx, keys)
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
		if err != nil {
			yield(bigset.KeptRequest{}, err)
		}
	}
}

// requestKeys returns the keys of records in a range of slots, in order.
func (s *Store) requestKeys(ctx context.Context, first, last keyscheme.Slot) ([]string, error) {
	if first > last {
		return nil, fmt.Errorf("%w: slots %08x to %08x", bigset.ErrRequest, first, last)
	}
	if err := s.db.Enter(); err != nil {
		return nil, err
	}
	defer s.db.Leave()
	if err := s.loadRequests(ctx); err != nil {
		return nil, err
	}
	keys := s.requestLog.within(keyscheme.AppendSlot(nil, first), keyscheme.AppendSlot(nil, last))
	slices.Sort(keys)
	return keys, nil
}

// within returns the keys of records in a range of slots, which are given as the first bytes of keys.
func (l *requestLog) within(first, last []byte) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queue {
		key := l.queue[i].key
		if slot := key[:keyscheme.SlotBytes]; slot >= string(first) && slot <= string(last) {
			keys = append(keys, key)
		}
	}
	return keys
}

// readRequests returns the first records that are not forgotten, as many as fit in a page, and the keys after those.
func (s *Store) readRequests(ctx context.Context, keys []string) (page []bigset.KeptRequest, rest []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := s.db.Enter(); err != nil {
		return nil, nil, err
	}
	defer s.db.Leave()
	for n, size := 0, 0; n < requestsPage && size < requestsPageBytes && len(keys) > 0; n++ {
		key := keys[0]
		value, ok, err := s.db.Get([]byte(key))
		if err != nil {
			return nil, nil, fmt.Errorf("engine: read a request: %w", lsm.DiskError(err))
		}
		keys = keys[1:]
		if !ok { // it was deleted since, or its range was dropped
			continue
		}
		size += len(value)
		r, err := keyscheme.DecodeRequestValue(value)
		if err != nil {
			s.db.Counters.Corruptions.Add(1)
			continue
		}
		now := s.millis()
		if r.Millis < s.forgotten() {
			continue
		}
		k, err := keyscheme.Decode([]byte(key))
		set, id, ok := k.Request()
		if err != nil || !ok {
			continue
		}
		age := min(time.Duration(now-min(now, r.Millis))*time.Millisecond, bigset.RequestAgeMax)
		page = append(page, bigset.KeptRequest{Set: set, ID: id, Age: age, Actor: r.Actor, First: r.First, Events: r.Items})
	}
	return page, keys, nil
}

// KeepRequests accepts records of requests to one set from another store, and reports how many it accepted. A record
// is skipped if it exists here, is too old, or if the store has not seen the dots of its events or what they killed
// is not dead here. A record expires when it would have expired at its sender. A nil error means that the accepted
// records are as durable as asked for. With any other error nothing has changed, unless it wraps bigset.ErrFailed.
func (r Replica) KeepRequests(ctx context.Context, all []bigset.KeptRequest, d bigset.Durability) (taken int, err error) {
	if len(all) == 0 {
		return 0, ctx.Err()
	}
	w := &keeping{all: all}
	for i := range all {
		if err := all[i].Check(); err != nil {
			return 0, err
		}
		if !bytes.Equal(all[i].Set, all[0].Set) {
			return 0, fmt.Errorf("%w: records of requests to %.64q and to %.64q at once", bigset.ErrRequest, all[0].Set, all[i].Set)
		}
	}
	if keys, n := w.size(0); keys > bigset.BatchOpsMax || n > bigset.BatchKeysBytesMax {
		return 0, &bigset.LimitError{What: "bytes of records of requests", Got: n, Max: bigset.BatchKeysBytesMax}
	}
	if err := r.s.checkRequest(bigset.WriteOptions{Request: all[0].ID}); err != nil {
		return 0, err
	}
	if err := r.s.writeTo(ctx, all[0].Set, newRequest(w, d)); err != nil {
		return 0, err
	}
	return w.taken, nil
}

// keeping is records of another store as work.
type keeping struct {
	all   []bigset.KeptRequest
	taken int
}

func (k *keeping) adds() bool { return true } // records take room

func (k *keeping) size(prefixBytes int) (keys, bytes int) {
	for i := range k.all {
		bytes += prefixBytes + 2*keyscheme.RequestIDBytesMax
		for j := range k.all[i].Events {
			bytes += requestEventBytes + bigset.BatchDotBytes*int(k.all[i].Events[j].Context.Len())
		}
	}
	return len(k.all), bytes
}

// requestEventBytes is about the size of an event in a record, without the dots that it killed.
const requestEventBytes = 12

func (k *keeping) looksUp(bigset.Policy) bool { return false }

func (k *keeping) into(b *builder, _ *request) error {
	k.taken = 0
	for i := range k.all {
		if r := &k.all[i]; b.mayKeep(r) {
			b.keepAged(r)
			k.taken++
		}
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// mayKeep reports whether a record of another store may be accepted.
func (b *builder) mayKeep(r *bigset.KeptRequest) bool {
	if r.Age > b.s.opt.RequestAge {
		return false
	}
	for i := range r.Events {
		if !b.st.next.Contains(clock.Dot{Actor: r.Actor, Counter: r.First + uint64(i)}) {
			return false
		}
		for d := range r.Events[i].Context.Dots() {
			if !b.dead(d) {
				return false
			}
		}
	}
	return !b.keeps(r)
}

// keeps reports whether a record of the same events exists here and is not forgotten.
func (b *builder) keeps(r *bigset.KeptRequest) (found bool) {
	same := func(o *keyscheme.Request) bool { return o.Actor == r.Actor && o.First == r.First }
	if o := b.requests[string(r.ID)]; o != nil && same(o) {
		return true
	}
	bounds := b.st.prefix.Request(r.ID)
	if !b.s.requestLog.mayHave(bounds.Lower) {
		return false
	}
	b.check(b.s.db.Each(bounds, func(_, value []byte) error {
		o, err := keyscheme.DecodeRequestValue(value)
		found = found || err == nil && o.Millis >= b.s.forgotten() && same(o)
		return nil
	}))
	return found
}

// keepAged keeps a record of another store, with the age that it has there.
func (b *builder) keepAged(k *bigset.KeptRequest) {
	now := b.s.millis()
	r := &keyscheme.Request{Millis: now - min(now, uint64(k.Age.Milliseconds())), Actor: k.Actor, First: k.First, Items: k.Events}
	if known := b.recall(k.ID); known == nil || known.Millis < r.Millis {
		if b.requests == nil {
			b.requests = map[string]*keyscheme.Request{}
		}
		b.requests[string(k.ID)] = r
	}
	b.aged = true
	b.keepRequest(k.ID, r)
}
