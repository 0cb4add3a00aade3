package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A client that got no answer asks again, maybe elsewhere. Without an id of the request that would be a second event:
// an add would bring back an element that somebody removed in between. With an id, each store that applies the
// request's events keeps them with its slot's metadata, in the same batch, and answers a repeated request with the
// same events. The records are bounded by age and number: a client that asks again later makes a second event.

// Records are deleted by SINGLEDEL, and so each of their keys is written once. They come right after a set's elements
// in the order of keys. If the drop filter has left out the last of those, Pebble's compaction iterator has lost its
// position, and panics if the next key is a delete, or a record over a deleted one (Pebble issue 6168). It accepts a
// SINGLEDEL and a record that was written once.

// requestLog knows the records of requests, the oldest first, so that each can be deleted when it is due.
type requestLog struct {
	mu     lockorder.Mutex[lockorder.RequestsMu]
	queue  []keptRequest
	noted  bool // the store's metadata records that something is kept
	loaded bool // the records of the last process are in the queue
	// hashes counts the records that are on disk, or may be, by the hash of their keys without the mark. Once the log
	// is loaded, a request whose hash is missing is in no record. Nearly all requests are new; a search on disk for
	// each took a fifth of the time of an add.
	hashes map[uint64]uint32
	seed   maphash.Seed
}

// keptRequest is the key of a record, and when the record was stored.
type keptRequest struct {
	key    string
	millis uint64
}

// keyRequests exists in the store's metadata once the events of a request were kept.
var keyRequests = []byte("r")

// requestsDueMax is how many records a write deletes in addition to writing its own.
const requestsDueMax = 4

// open prepares the log of a store. If the last process kept records, forgetRequests loads them.
func (l *requestLog) open(db *lsm.DB) {
	l.hashes, l.seed = map[uint64]uint32{}, maphash.MakeSeed()
	_, kept, err := db.Get(keyRequests)
	l.loaded = !kept && err == nil
}

// hash returns the hash of a record's key without its mark.
func (l *requestLog) hash(key string) uint64 {
	return maphash.String(l.seed, key[:len(key)-keyscheme.RequestMarkBytes])
}

// coming registers a record that is about to be written.
func (l *requestLog) coming(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hashes[l.hash(key)]++
}

// gone registers that records were deleted, or that their batch was not written.
func (l *requestLog) gone(deleted []keptRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range deleted {
		h := l.hash(r.key)
		if l.hashes[h]--; l.hashes[h] == 0 {
			delete(l.hashes, h)
		}
	}
}

// mayHave reports whether a record with that key, given without its mark, may exist.
func (l *requestLog) mayHave(prefix []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.loaded || l.hashes[maphash.Bytes(l.seed, prefix)] > 0
}

// add adds records that were stored. Aged ones may be older than those in the queue.
func (l *requestLog) add(kept []keptRequest, aged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = true
	l.queue = append(l.queue, kept...)
	if aged {
		l.merge(len(kept))
	}
}

// merge moves the last n of the queue to their places; the others are in order. A copy adds a few records with each
// set: sorting the whole queue for these took most of the copy's time. The lock is held.
func (l *requestLog) merge(n int) {
	at := len(l.queue) - n
	late := slices.Clone(l.queue[at:])
	slices.SortStableFunc(late, olderRequest)
	for i := len(l.queue) - 1; len(late) > 0; i-- {
		if last := late[len(late)-1]; at > 0 && olderRequest(l.queue[at-1], last) > 0 {
			at--
			l.queue[i] = l.queue[at]
		} else {
			l.queue[i], late = last, late[:len(late)-1]
		}
	}
}

// due removes from the queue up to n records that are to be deleted: those stored before a time, and those beyond a
// number.
func (l *requestLog) due(before uint64, keep, n int) (due []keptRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(due) < n && len(l.queue) > 0 && (l.queue[0].millis < before || len(l.queue) > keep) {
		due = append(due, l.queue[0])
		l.queue = l.queue[1:]
	}
	return due
}

// putBack returns to the queue records that due removed and that were not deleted.
func (l *requestLog) putBack(due []keptRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.Insert(l.queue, 0, due...)
}

// took adds the records on disk to the queue.
func (l *requestLog) took(onDisk []keptRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loaded = true
	known := map[string]bool{}
	for _, r := range l.queue {
		known[r.key] = true
	}
	for _, r := range onDisk {
		if !known[r.key] {
			l.queue = append(l.queue, r)
			l.hashes[l.hash(r.key)]++
		}
	}
	l.sort()
}

// sort puts the oldest first. The lock is held.
func (l *requestLog) sort() { slices.SortStableFunc(l.queue, olderRequest) }

func olderRequest(a, b keptRequest) int { return cmp.Compare(a.millis, b.millis) }

func (l *requestLog) isLoaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

func (l *requestLog) isNoted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noted
}

func (s *Store) millis() uint64 { return uint64(s.opt.Now().UnixMilli()) }

// forgotten returns the time before which stored records count as forgotten.
func (s *Store) forgotten() uint64 {
	age, now := uint64(s.opt.RequestAge.Milliseconds()), s.millis()
	return now - min(age, now)
}

// checkRequest refuses an id that cannot be kept.
func (s *Store) checkRequest(o bigset.WriteOptions) error {
	if len(o.Request) > 0 && s.opt.KeepContexts {
		return fmt.Errorf("%w: a request's id, and the store keeps contexts unresolved (Options.KeepContexts)", bigset.ErrRequest)
	}
	return bigset.CheckRequest(o.Request)
}

// KnowsRequest reports whether this store keeps a client's request to a set, by its id: whether a Write with that id
// would be answered with the events that the request became, or be refused because the id belongs to another request.
// Writes of the set that were queued before are done when it returns. It changes nothing; what it found need not be
// durable yet. Its errors are those with which any Write with that id would be refused, including bigset.ErrFailed.
func (r Replica) KnowsRequest(ctx context.Context, name, id []byte) (known bool, err error) {
	if err := r.s.checkRequest(bigset.WriteOptions{Request: id}); err != nil {
		return false, err
	}
	err = r.s.usingSet(ctx, name, func(st *set) error {
		if len(id) == 0 {
			return nil
		}
		return r.s.holding(st, func() error {
			if err := r.s.db.Writable(); err != nil {
				return err
			}
			kept, err := r.s.recall(st, id)
			if err != nil {
				return fmt.Errorf("engine: look for a request to %q: %w", name, lsm.DiskError(err))
			}
			known = kept != nil
			return nil
		})
	})
	return known, err
}

// recall returns the record of a request in the batch or in the store, or nil.
func (b *builder) recall(id []byte) *keyscheme.Request {
	if r, ok := b.requests[string(id)]; ok {
		return r
	}
	r, err := b.s.recall(b.st, id)
	b.check(err)
	return r
}

// recall returns the record of a request, or nil.
func (s *Store) recall(st *set, id []byte) (newest *keyscheme.Request, err error) {
	bounds := st.prefix.Request(id)
	if !s.requestLog.mayHave(bounds.Lower) {
		return nil, nil
	}
	err = s.db.Each(bounds, func(_, value []byte) error {
		r, err := keyscheme.DecodeRequestValue(value)
		if err != nil { // a damaged record cannot answer the request, and does no harm
			s.db.Counters.Corruptions.Add(1)
			return nil
		}
		if r.Millis >= s.forgotten() && (newest == nil || newest.Millis < r.Millis) {
			newest = r
		}
		return nil
	})
	return newest, err
}

// remember keeps the events of a request, in the batch that contains them.
func (b *builder) remember(d *bigset.Delta) {
	r := &keyscheme.Request{Millis: b.s.millis(), Actor: d.Actor, First: d.First, Items: make([]keyscheme.RequestItem, len(d.Items))}
	for i := range d.Items {
		it := &d.Items[i]
		r.Items[i] = keyscheme.RequestItem{Op: it.Kind, Sum: keyscheme.ElementSum(it.Element), Context: clock.Of(it.Context...)}
	}
	if b.requests == nil {
		b.requests = map[string]*keyscheme.Request{}
	}
	b.requests[string(d.Request)] = r
	b.keepRequest(d.Request, r)
}

// keepRequest writes the record of a request.
func (b *builder) keepRequest(id []byte, r *keyscheme.Request) {
	b.scratch = b.st.prefix.AppendRequestKey(b.scratch[:0], id, rand.Uint64())
	key, l := string(b.scratch), &b.s.requestLog
	l.coming(key)
	b.check(b.batch.Set(b.scratch, keyscheme.AppendRequestValue(nil, r), nil))
	b.remembers = append(b.remembers, keptRequest{key, r.Millis})
	due := l.due(b.s.forgotten(), b.s.opt.RequestsKept, requestsDueMax)
	for _, r := range due {
		b.check(b.batch.SingleDelete([]byte(r.key), nil))
	}
	b.forgets = append(b.forgets, due...)
	if !l.isNoted() {
		b.check(b.batch.Set(keyRequests, []byte{1}, nil))
	}
}

// repeat answers a repeated request with the events that it became. Operations that became no event are removes.
func (b *builder) repeat(r *request, known *keyscheme.Request) error {
	d := bigset.Delta{Set: bytes.Clone(b.st.name), Actor: known.Actor, First: known.First, Request: bytes.Clone(r.opt.Request)}
	dots, removed := make([]clock.Dot, len(r.ops)), 0
	for i := range r.ops {
		op, n := &r.ops[i], len(d.Items)
		if n == len(known.Items) || known.Items[n].Op != op.Kind || known.Items[n].Sum != keyscheme.ElementSum(op.Element) {
			if op.Kind == keyscheme.OpRemove {
				continue
			}
			return fmt.Errorf("%w: id %q is that of another request to %q", bigset.ErrRequest, r.opt.Request, b.st.name)
		}
		dots[i] = clock.Dot{Actor: known.Actor, Counter: known.First + uint64(n)}
		d.Items = append(d.Items, bigset.Item{Kind: op.Kind, Element: op.Element, Context: slices.Collect(known.Items[n].Context.Dots())})
		if op.Kind == keyscheme.OpRemove {
			removed++
		}
	}
	if len(d.Items) < len(known.Items) {
		return fmt.Errorf("%w: id %q is that of another request to %q", bigset.ErrRequest, r.opt.Request, b.st.name)
	}
	r.result = bigset.Result{Delta: d, Dots: dots, Removed: removed}
	return nil
}

// requestsDeletedMax is how many records the background deletes in one batch.
const requestsDeletedMax = 1000

// forgetRequests deletes records of requests that were kept long enough. The runner calls it.
func (s *Store) forgetRequests(ctx context.Context) error {
	if err := s.loadRequests(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		due := s.requestLog.due(s.forgotten(), s.opt.RequestsKept, requestsDeletedMax)
		if len(due) == 0 {
			return nil
		}
		batch := s.db.NewBatch()
		var errs []error
		for _, r := range due {
			errs = append(errs, batch.SingleDelete([]byte(r.key), nil))
		}
		if err := errors.Join(errs...); err != nil {
			return errors.Join(err, batch.Close())
		}
		if _, err := s.db.Commit(batch, false); err != nil {
			s.requestLog.putBack(due)
			return err
		}
		s.requestLog.gone(due)
	}
	return ctx.Err()
}

// loadRequests adds the records of the last process to the queue, once.
func (s *Store) loadRequests(ctx context.Context) error {
	if s.requestLog.isLoaded() {
		return nil
	}
	old, err := s.keptRequests(ctx)
	if err != nil {
		return fmt.Errorf("engine: look for requests: %w", lsm.DiskError(err))
	}
	s.requestLog.took(old)
	return nil
}

// keptRequests returns the records of requests on disk. It seeks from slot to slot, unless no request was ever kept.
func (s *Store) keptRequests(ctx context.Context) (kept []keptRequest, err error) {
	if _, ok, err := s.db.Get(keyRequests); !ok || err != nil {
		return nil, err
	}
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		if !key.IsRequest() {
			if key.Kind == keyscheme.KindSlotMeta {
				ok = it.Next()
			} else {
				ok = it.SeekGE(keyscheme.Requests(key.Slot).Lower)
			}
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		r, err := keyscheme.DecodeRequestValue(value)
		if err != nil { // forget it at once
			r = &keyscheme.Request{}
		}
		kept = append(kept, keptRequest{string(it.Key()), r.Millis})
		ok = it.Next()
	}
	return kept, it.Error()
}
