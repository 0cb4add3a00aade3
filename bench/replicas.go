package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset/bench/system"

	"bigset"
	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

// replica is a store in this process that contains the same sets as others.
type replica struct {
	*system.Bigset
	peer *local.Replica
}

// replicated opens n empty stores, calls f and removes the stores.
func (e *env) replicated(n int, o system.Options, f func([]*replica) error) error {
	return e.inFolders(n, func(dirs []string) error { return e.replicatedIn(dirs, o, f) })
}

// inFolders calls f with folders for n stores and removes the folders.
func (e *env) inFolders(n int, f func(dirs []string) error) error {
	if n == 0 {
		return f(nil)
	}
	dir := e.folder()
	return e.inFolder(dir, func() error {
		return e.inFolders(n-1, func(dirs []string) error { return f(append(dirs, dir)) })
	})
}

// replicatedIn opens the stores in some folders, calls f and closes them.
func (e *env) replicatedIn(dirs []string, o system.Options, f func([]*replica) error) error {
	if len(dirs) == 0 {
		return f(nil)
	}
	last := len(dirs) - 1
	return e.opened(contender{system: system.NameBigset}, dirs[last], o, func(sys system.System) error {
		r := &replica{Bigset: sys.(*system.Bigset)}
		var err error
		if r.peer, err = local.New(fmt.Sprintf("node-%d", last), r.Store(), peer.Normal); err != nil {
			return err
		}
		return e.replicatedIn(dirs[:last], o, func(list []*replica) error { return f(append(list, r)) })
	})
}

// replicate makes one replica do operations on a set, and others apply them. It returns the dots of the operations.
func (e *env) replicate(name string, ops []bigset.Op, by *replica, to ...*replica) ([]clock.Dot, error) {
	r, err := by.Store().Write(e.ctx, []byte(name), ops, bigset.WriteOptions{})
	for _, other := range to {
		if err == nil {
			err = other.Store().Replica().ApplyDelta(e.ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync})
		}
	}
	return r.Dots, err
}

// adds appends adds of the elements with numbers from first to before last, each with an empty context.
func (e *env) adds(ops []bigset.Op, first, last int) []bigset.Op {
	for i := first; i < last; i++ {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e.names().Append(nil, i), Context: bigset.Saw()})
	}
	return ops
}

// replicatedLoad inserts elements 0 to n-1 in batches on the first replica and applies them on the others, so that all have them.
func (e *env) replicatedLoad(name string, list []*replica, n int) error {
	var ops []bigset.Op
	for first := 0; first < n; first += batchSize {
		ops = e.adds(ops[:0], first, min(n, first+batchSize))
		if _, err := e.replicate(name, ops, list[0], list[1:]...); err != nil {
			return err
		}
	}
	if err := e.settled(list); err != nil {
		return err
	}
	for _, r := range list { // a read from all together would not notice what one is missing
		if err := system.CountBy(r.Set(name), n); err != nil {
			return err
		}
	}
	return nil
}

// settled flushes the stores and waits until they are idle.
func (e *env) settled(list []*replica) error {
	for _, r := range list {
		if _, err := r.Settle(e.ctx); err != nil {
			return err
		}
		if err := r.RestFully(e.ctx); err != nil {
			return err
		}
	}
	return nil
}

// coordinated calls f with a coordinator of the replicas, and waits until everything it has sent has been applied.
func (e *env) coordinated(list []*replica, f func(*coord.Coordinator) error) (err error) {
	var place []peer.Replica
	for _, r := range list {
		place = append(place, r.peer)
	}
	c, err := coord.New(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return place })})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(e.ctx))) }()
	return f(c)
}

// allSlots makes two replicas exchange what either of them is missing.
func allSlots(ctx context.Context, a, b peer.Replica) (coord.Exchanged, error) {
	return coord.Exchange(ctx, a, b, 0, keyscheme.SlotMax)
}

// meter counts the bytes of the frames between two replicas.
type meter struct {
	bytes uint64
	buf   []byte
}

// count counts a message from one of the replicas.
func (m *meter) count(from peer.Member, msg peer.Message) (err error) {
	m.buf, err = peer.Append(m.buf[:0], from, msg)
	m.bytes += uint64(len(m.buf))
	return err
}

// metered is a replica that counts the requests and answers of Exchange. Requests without a frame of their own, such as the request for a
// state, count as the frame of a request without dots.
type metered struct {
	peer.Replica
	*meter
}

func (m metered) ask(set []byte) error { return m.count(m.Member(), peer.Ask{Set: set}) }

func (m metered) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	s, by, err := m.Replica.State(ctx, set)
	if err == nil {
		err = errors.Join(m.ask(set), m.count(by, peer.State(s)))
	}
	return s, by, err
}

func (m metered) ApplyFacts(ctx context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	r, by, err := m.Replica.ApplyFacts(ctx, f, d)
	if err == nil {
		err = errors.Join(m.count(by, peer.Facts(f)), m.ask(nil))
	}
	return r, by, err
}

// Locate counts the request. Its answers are counted where they are applied: they go from one replica to the other once.
func (m metered) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	if err := m.count(m.Member(), peer.Locate{Set: set, Dots: dots}); err != nil {
		return func(yield func(bigset.Facts, error) bool) { yield(bigset.Facts{}, err) }
	}
	return m.Replica.Locate(ctx, set, dots)
}

// Digests counts each digest as if it were sent alone.
func (m metered) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		for d, err := range m.Replica.Digests(ctx, first, last) {
			if err == nil {
				err = errors.Join(m.ask(d.Name), m.count(m.Member(), peer.Digests{d}))
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// Export counts a chunk and the request for it. Its keys are packed: they are counted, and not encoded in a frame again.
func (m metered) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	portion, by, err := m.Replica.Export(ctx, set, after, bytesMax)
	if err != nil {
		return nil, by, err
	}
	frame := peer.Portion(*portion)
	frame.Count, frame.Keys = 0, nil
	err = errors.Join(m.count(m.Member(), peer.Export{Set: set, After: after, Bytes: bytesMax}), m.count(by, frame))
	m.bytes += uint64(len(portion.Keys))
	return portion, by, err
}

// copySet copies a set durably to an empty replica. With ahead, the next chunk is read while one is written.
func (e *env) copySet(from, to *replica, ahead bool, m *meter) error {
	mover, err := transfer.New(to.peer, transfer.Options{Ahead: ahead})
	if err != nil {
		return err
	}
	slot := keyscheme.SetSlot([]byte(system.SetName))
	_, err = mover.Copy(e.ctx, metered{from.peer, m}, handoff.Range{First: slot, Last: slot})
	return err
}
