package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Replica is the replica in this process: it answers from an engine.Store, which it does not own.
type Replica struct {
	store   *engine.Store
	replica engine.Replica // of the store
	node    string
	state   atomic.Uint32 // of sets
	filters atomic.Uint32 // of filters
	seats   atomic.Pointer[func(keyscheme.Slot) (bloomslice.Seat, bool)]
	tries   tries
	room    *semaphore.Weighted // memory for batches, in the order of the questions
}

var (
	_ peer.Replica       = (*Replica)(nil)
	_ peer.RequestLister = (*Replica)(nil)
	_ peer.ManyDeltas    = (*Replica)(nil)
	_ peer.ManyWrites    = (*Replica)(nil)
)

// New returns the replica that a node keeps in a store, with a state. The state must be peer.Joining if the store may have lost
// acknowledged writes, until a copy or repair has completed it. The same holds for a node whose store was not closed cleanly, so that its
// incarnation has changed, and that has filters whose marks are not synced. It may have lost marks, and the counts of the layers that it
// owns, which other nodes have. Until it has pulled those slices it must neither fill its layers nor deny a key. New refuses a store that
// keeps wide contexts unresolved, with peer.ErrUnresolvedContexts.
func New(node string, store *engine.Store, state peer.MemberState) (*Replica, error) {
	replica := store.Replica()
	if replica.KeepsContexts() {
		return nil, fmt.Errorf("%w: the store of %s has Options.KeepContexts", peer.ErrUnresolvedContexts, node)
	}
	replica.KeepRecent()
	l := &Replica{store: store, replica: replica, node: node, tries: newTries(), room: semaphore.NewWeighted(roomBytes)}
	l.SetState(state)
	return l, l.Member().Check()
}

// SetState changes the state of the member, for sets and for filters.
func (l *Replica) SetState(s peer.MemberState) { l.SetStates(s, s) }

// SetStates changes the state of the member for sets and for filters. They are separate because a crash may have undone writes to the one
// while the other's are on disk. Answers about slices carry the state for filters.
func (l *Replica) SetStates(sets, filters peer.MemberState) {
	l.state.Store(uint32(sets))
	l.filters.Store(uint32(filters))
}

// SetSeats sets the function that returns the seat from which the replica fills the slices of a slot: its seat among the owners of the
// slot, which it received with the slot. No two replicas of a slot have the same seat, except for a moment while a move settles: then they
// may overfill its layers by what both add there, and deny nothing. Without seats the replica decides no marks, and does everything else.
func (l *Replica) SetSeats(f func(slot keyscheme.Slot) (seat bloomslice.Seat, ok bool)) {
	l.seats.Store(&f)
}

// SetSeat gives the replica one seat for all slots.
func (l *Replica) SetSeat(seat bloomslice.Seat) {
	l.SetSeats(func(keyscheme.Slot) (bloomslice.Seat, bool) { return seat, true })
}

// seat returns the seat from which a slice is filled, or peer.ErrUnavailable.
func (l *Replica) seat(spec *bigset.SliceSpec) (bloomslice.Seat, error) {
	if seats := l.seats.Load(); seats != nil {
		if seat, ok := (*seats)(spec.Slot()); ok {
			return seat, nil
		}
	}
	return 0, fmt.Errorf("%w: %v has no seat in slice %d of filter %q", peer.ErrUnavailable, l.slices(), spec.Slice, spec.Name)
}

// Member implements peer.Replica.
func (l *Replica) Member() peer.Member {
	return peer.Member{Node: l.node, Incarnation: l.replica.Actor(), State: peer.MemberState(l.state.Load())}
}

// slices returns the member as answers about slices name it.
func (l *Replica) slices() peer.Member {
	m := l.Member()
	m.State = peer.MemberState(l.filters.Load())
	return m
}

// wholeSlices is whole for slices.
func (l *Replica) wholeSlices() error {
	if m := l.slices(); m.State != peer.Normal {
		return fmt.Errorf("%w: %v", peer.ErrJoining, m)
	}
	return nil
}

// whole returns an error unless the replica may answer reads.
func (l *Replica) whole() error {
	if m := l.Member(); m.State != peer.Normal {
		return fmt.Errorf("%w: %v", peer.ErrJoining, m)
	}
	return nil
}

// ready returns an error if it is clear in advance that a change can't be made.
func (l *Replica) ready() error {
	if err := l.store.Failed(); err != nil {
		return fmt.Errorf("%w: %v: %w", peer.ErrUnavailable, l.Member(), err)
	}
	return nil
}

// outcome adds to the error of a change whether it may have happened. The engine says so: after an error nothing has happened, unless the
// error is bigset.ErrFailed.
func (l *Replica) outcome(err error) error {
	if err == nil || errors.Is(err, bigset.ErrFailed) || errors.Is(err, bigset.ErrBehind) || peer.Refused(err) {
		return err
	}
	return fmt.Errorf("%w: %v: %w", peer.ErrUnavailable, l.Member(), err)
}

// Write implements peer.Replica.
func (l *Replica) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	taken, err := l.takeRoom(ctx, set, len(ops))
	if err != nil {
		return bigset.Result{}, l.Member(), err
	}
	if taken > 0 {
		defer l.room.Release(taken)
	}
	var overtaken error
	if len(o.Request) > 0 {
		r := l.tries.request(set, o.Request)
		if held, ok := l.tries.begin(r, o.Try); ok {
			defer l.tries.end(r)
		} else {
			overtaken = l.overtaken(o.Request, held)
		}
	}
	if err := errors.Join(l.whole(), l.ready(), overtaken); err != nil {
		if !l.repeats(ctx, set, o.Request) {
			return bigset.Result{}, l.Member(), err
		}
	}
	r, err := l.store.Write(ctx, set, ops, o)
	return r, l.Member(), l.outcome(err)
}

// repeats reports whether a write of the request would repeat its first answer, and do nothing else.
func (l *Replica) repeats(ctx context.Context, set, request []byte) bool {
	known, err := l.replica.KnowsRequest(ctx, set, request)
	return known && err == nil
}

// overtaken returns the error for a try of a request which the try with the number held has overtaken.
func (l *Replica) overtaken(request []byte, held uint64) error {
	return fmt.Errorf("%w: %v, request %q", &peer.OvertakenError{Held: held}, l.Member(), request)
}

// WriteMany implements peer.ManyWrites.
func (l *Replica) WriteMany(ctx context.Context, set []byte, all []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	if err := errors.Join(l.whole(), l.ready()); err != nil {
		return nil, l.Member(), err
	}
	ops := 0
	for i := range all {
		ops += len(all[i].Ops)
	}
	taken, err := l.takeRoom(ctx, set, ops)
	if err != nil {
		return nil, l.Member(), err
	}
	if taken > 0 {
		defer l.room.Release(taken)
	}
	begun, late := l.beginMany(set, all)
	defer l.endMany(begun)
	if len(late) > 0 {
		return l.writeSome(ctx, set, all, late), l.Member(), nil
	}
	return l.writeAll(ctx, set, all), l.Member(), nil
}

// overtaken is a request of a group that another try has overtaken.
type overtaken struct {
	i    int    // its index
	held uint64 // the number of the other try
}

// beginMany begins the requests of a group that have ids. It returns what endMany ends, and those that another try has overtaken.
func (l *Replica) beginMany(set []byte, all []bigset.WriteRequest) (begun []request, late []overtaken) {
	for i := range all {
		if len(all[i].Request) == 0 {
			continue
		}
		r := l.tries.request(set, all[i].Request)
		if held, ok := l.tries.begin(r, all[i].Try); !ok {
			late = append(late, overtaken{i, held})
			continue
		}
		if begun == nil {
			begun = make([]request, 0, len(all)-i)
		}
		begun = append(begun, r)
	}
	return begun, late
}

func (l *Replica) endMany(begun []request) {
	for _, r := range begun {
		l.tries.end(r)
	}
}

func (l *Replica) writeAll(ctx context.Context, set []byte, all []bigset.WriteRequest) []bigset.WriteOutcome {
	out := l.store.WriteAll(ctx, set, all)
	for i := range out {
		out[i].Err = l.outcome(out[i].Err)
	}
	return out
}

// writeSome does the requests of a group but those that another try has overtaken, which are answered like those of Write.
func (l *Replica) writeSome(ctx context.Context, set []byte, all []bigset.WriteRequest, late []overtaken) []bigset.WriteOutcome {
	out := make([]bigset.WriteOutcome, len(all))
	var some []bigset.WriteRequest
	var at []int
	for i := range all {
		if len(late) > 0 && late[0].i == i {
			held := late[0].held
			late = late[1:]
			if !l.repeats(ctx, set, all[i].Request) {
				out[i].Err = l.overtaken(all[i].Request, held)
				continue
			}
		}
		some, at = append(some, all[i]), append(at, i)
	}
	if len(some) > 0 {
		for i, o := range l.writeAll(ctx, set, some) {
			out[at[i]] = o
		}
	}
	return out
}

// Knows implements peer.Replica.
func (l *Replica) Knows(ctx context.Context, set, request []byte, try uint64) (bool, peer.Member, error) {
	held := uint64(0)
	if try != 0 && len(request) > 0 {
		var err error
		if held, err = l.tries.ask(ctx, l.tries.request(set, request), try); err != nil {
			return false, l.Member(), err
		}
	}
	known, err := l.replica.KnowsRequest(ctx, set, request)
	if !known && err == nil && held > 0 {
		err = l.overtaken(request, held)
	}
	return known, l.Member(), err
}

// Apply implements peer.Replica.
func (l *Replica) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	if err := l.ready(); err != nil {
		return l.Member(), err
	}
	taken, err := l.takeRoom(ctx, d.Set, len(d.Items))
	if err != nil {
		return l.Member(), err
	}
	if taken > 0 {
		defer l.room.Release(taken)
	}
	return l.Member(), l.outcome(l.replica.ApplyDelta(ctx, d, bigset.ApplyOptions{Durability: durability}))
}

// ApplyMany implements peer.ManyDeltas.
func (l *Replica) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	if err := errors.Join(peer.CheckDeltas(all), l.ready()); err != nil {
		return nil, l.Member(), err
	}
	items := 0
	for i := range all {
		items += len(all[i].Items)
	}
	taken, err := l.takeRoom(ctx, all[0].Set, items)
	if err != nil {
		return nil, l.Member(), err
	}
	if taken > 0 {
		defer l.room.Release(taken)
	}
	each := l.replica.ApplyDeltas(ctx, all[0].Set, all, bigset.ApplyOptions{Durability: durability})
	for i := range each {
		each[i] = l.outcome(each[i])
	}
	return each, l.Member(), nil
}

// ApplyFacts implements peer.Replica.
func (l *Replica) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	if err := l.ready(); err != nil {
		return bigset.FactsResult{}, l.Member(), err
	}
	r, err := l.replica.ApplyFacts(ctx, f, bigset.ApplyOptions{Durability: durability})
	return r, l.Member(), l.outcome(err)
}

// Heal implements peer.Replica.
func (l *Replica) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, peer.Member, error) {
	if err := l.ready(); err != nil {
		return bigset.HealResult{}, l.Member(), err
	}
	r, err := l.replica.Heal(ctx, f, wrong)
	return r, l.Member(), err
}

// Lost implements peer.Replica.
func (l *Replica) Lost(ctx context.Context, set []byte) (*clock.Clock, peer.Member, error) {
	lost, err := l.replica.Lost(ctx, set)
	return lost, l.Member(), err
}

// ElementDigests implements peer.Replica.
func (l *Replica) ElementDigests(ctx context.Context, set []byte, r bigset.ElementRange) (bigset.ElementDigests, peer.Member, error) {
	d, err := l.replica.ElementDigests(ctx, set, r)
	return d, l.Member(), err
}

// State implements peer.Replica. The error for a set with unresolved keys, from a time when the store kept them, is
// peer.ErrUnresolvedContexts.
func (l *Replica) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	s, err := l.replica.State(ctx, set)
	if err == nil && s.Unresolved > 0 {
		err = fmt.Errorf("%w: %d keys of %q", peer.ErrUnresolvedContexts, s.Unresolved, set)
	}
	return s, l.Member(), err
}

// Locate implements peer.Replica.
func (l *Replica) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return l.replica.Locate(ctx, set, dots)
}

// Read implements peer.Replica.
func (l *Replica) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		for c, err := range l.store.Read(ctx, set, o) {
			if whole := l.whole(); whole != nil {
				c, err = nil, whole
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Lookup implements peer.Replica.
func (l *Replica) Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, peer.Member, error) {
	if err := l.whole(); err != nil {
		return nil, l.Member(), err
	}
	found, err := l.replica.LookUp(ctx, set, elements)
	if err := errors.Join(err, l.whole()); err != nil { // a replica that has begun to join may have lost what was looked up
		return nil, l.Member(), err
	}
	return found, l.Member(), nil
}

// CountParts implements peer.Replica.
func (l *Replica) CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	if err := l.whole(); err != nil {
		return bigset.PartCounts{}, l.Member(), err
	}
	c, err := l.replica.CountParts(ctx, set, r)
	if err := errors.Join(err, l.whole()); err != nil { // a replica that has begun to join may have lost what was counted
		return bigset.PartCounts{}, l.Member(), err
	}
	return c, l.Member(), nil
}

// DotStatus implements peer.Replica.
func (l *Replica) DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, peer.Member, error) {
	if err := l.whole(); err != nil {
		return bigset.DotStatuses{}, l.Member(), err
	}
	j, err := l.replica.DotStatus(ctx, set, element, dots)
	if err := errors.Join(err, l.whole()); err != nil { // as for Lookup
		return bigset.DotStatuses{}, l.Member(), err
	}
	return j, l.Member(), nil
}

// Export implements peer.Replica.
func (l *Replica) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	m := l.Member() // taken before the read: an incarnation that ends during the read has sent it
	if err := l.whole(); err != nil {
		return nil, m, err
	}
	portion, err := l.replica.ExportPortion(ctx, set, after, bytesMax)
	if err != nil {
		return nil, m, err
	}
	if !portion.Done {
		portion.Dead = nil
		if after != nil {
			portion.Seen = nil
		}
	}
	return portion, m, nil
}

// Ingest applies a chunk of a copy, by the rules of ApplyFacts, and is durable when it returns. For pace see engine.Replica.IngestPortion.
func (l *Replica) Ingest(ctx context.Context, portion *bigset.Portion, pace engine.Pace) (bigset.FactsResult, peer.Member, error) {
	if err := l.ready(); err != nil {
		return bigset.FactsResult{}, l.Member(), err
	}
	r, err := l.replica.IngestPortion(ctx, portion, pace)
	return r, l.Member(), l.outcome(err)
}

// Requests implements peer.RequestLister.
func (l *Replica) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return l.replica.Requests(ctx, first, last)
}

// KeepRequests keeps what another replica has recorded of requests to one set, as engine.Replica.KeepRequests does.
func (l *Replica) KeepRequests(ctx context.Context, all []bigset.KeptRequest, d bigset.Durability) (taken int, m peer.Member, err error) {
	if err := l.ready(); err != nil {
		return 0, l.Member(), err
	}
	taken, err = l.replica.KeepRequests(ctx, all, d)
	return taken, l.Member(), l.outcome(err)
}

// SetNote keeps a note about a range with the store: see engine.Replica.SetNote.
func (l *Replica) SetNote(ctx context.Context, name string, first, last keyscheme.Slot, value []byte, d bigset.Durability) error {
	return l.replica.SetNote(ctx, name, first, last, value, d)
}

// Note returns the note with a name, or nil.
func (l *Replica) Note(ctx context.Context, name string) ([]byte, error) {
	return l.replica.Note(ctx, name)
}

// Digests implements peer.Replica.
func (l *Replica) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return l.replica.Digests(ctx, first, last)
}

// RangeDigests implements peer.Replica.
func (l *Replica) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	d, err := l.replica.RangeDigests(ctx, first, last, parts)
	return d, l.Member(), err
}

// AwaitNext waits for the first change of a set after it has called ready: see engine.Replica.AwaitNext.
func (l *Replica) AwaitNext(ctx context.Context, set []byte, ready func()) error {
	return l.replica.AwaitNext(ctx, set, ready)
}

// CountSets counts the sets with slots from first to last that have a live dot: see engine.Store.CountSets. A Joining replica returns
// peer.ErrJoining: it may hold a part of them only.
func (l *Replica) CountSets(ctx context.Context, first, last keyscheme.Slot) (bigset.SetCount, error) {
	if err := l.whole(); err != nil {
		return bigset.SetCount{}, err
	}
	n, err := l.store.CountSets(ctx, first, last)
	if err := errors.Join(err, l.whole()); err != nil { // a replica that has begun to join may have lost sets before they were counted
		return bigset.SetCount{}, err
	}
	return n, nil
}

// Removed returns elements that dead dots of a set had, as far as the store remembers them: see engine.Replica.Removed.
func (l *Replica) Removed(ctx context.Context, set []byte, dots *clock.Clock) ([]fold.Element, error) {
	return l.replica.Removed(ctx, set, dots)
}
