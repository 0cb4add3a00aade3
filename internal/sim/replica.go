package sim

import (
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// mark is the operation that is written to sync what precedes it.
var mark = []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("mark")}}

// replica is a copy of the schedule's set in a store. Its messages are frames of server/peer.
type replica struct {
	env     convergence.Env
	store   store
	set     []byte
	names   *names
	streams []*stream // that read from it

	joining bool   // it may be missing what it had acknowledged, until it has copied from every other replica
	onDisk  bool   // joining, as its disk records it
	filled  uint32 // the replicas from which a copy is complete
	wrong   error  // an error with which a copy must not end, but did
}

var _ interface {
	convergence.Batcher
	convergence.Durable
	convergence.Backuper
	convergence.DiskFaulter
	convergence.Repairer
	convergence.Copier
	convergence.Leaver
	convergence.Maintainer
	convergence.Verifier
	convergence.Fingerprinter
	convergence.Dumper
} = (*replica)(nil)

// replicaDisk is what is left of a replica.
type replicaDisk struct {
	store   any
	joining bool
}

func (r *replica) member() peer.Member {
	m := peer.Member{Node: string(rune('A' + r.env.ID)), Incarnation: r.store.Actor(), State: peer.Normal}
	if r.joining {
		m.State = peer.Joining
	}
	return m
}

// durability draws the durability of the next call.
func (r *replica) durability() bigset.Durability {
	if r.env.Rand.IntN(4) == 0 {
		return bigset.Sync
	}
	return bigset.NoSync
}

// Do implements convergence.Replica.
func (r *replica) Do(op convergence.Op) (convergence.Effect, error) {
	return r.DoBatch([]convergence.Op{op})
}

// DoBatch implements convergence.Batcher. The delete of a whole set is a batch of its own.
func (r *replica) DoBatch(ops []convergence.Op) (e convergence.Effect, err error) {
	if r.joining {
		return e, convergence.ErrNotReady
	}
	d := r.durability()
	e.Durable = d == bigset.Sync
	var delta bigset.Delta
	if ops[0].Kind == "clear" && len(ops) == 1 {
		delta, err = r.clear(ops[0], d)
	} else {
		delta, e.Tags, err = r.write(ops, d)
	}
	switch {
	case peer.Refused(err) || errors.Is(err, bigset.ErrBehind):
		return e, fmt.Errorf("%w: %w", convergence.ErrRefused, err)
	case err != nil || delta.Empty():
		return e, err
	}
	if len(e.Tags) == 1 {
		e.Tag = e.Tags[0]
	}
	frame, err := r.frame(peer.Delta(delta))
	e.Out = [][]byte{frame}
	return e, err
}

func (r *replica) clear(op convergence.Op, d bigset.Durability) (bigset.Delta, error) {
	c, err := decode(op.Context)
	if err != nil {
		return bigset.Delta{}, err
	}
	delta, err := r.store.Drop(c.Wide, d)
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.Delta{}, nil
	}
	return delta, err
}

func (r *replica) write(ops []convergence.Op, d bigset.Durability) (bigset.Delta, []string, error) {
	var list []bigset.Op
	for _, op := range ops {
		o := bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(op.Elem)}
		switch op.Kind {
		case "remove":
			o.Kind = keyscheme.OpRemove
		case "clear":
			return bigset.Delta{}, nil, fmt.Errorf("%w: a clear in a batch", convergence.ErrRefused)
		}
		if err := bigset.CheckElement(o.Element); err != nil { // as a server does for its clients
			return bigset.Delta{}, nil, fmt.Errorf("%w: %w", convergence.ErrRefused, err)
		}
		var err error
		if o.Context, err = decode(op.Context); err != nil {
			return bigset.Delta{}, nil, err
		}
		list = append(list, o)
	}
	r.names.met(r.env.ID, r.store.Actor())
	result, err := r.store.Write(list, d)
	if result.Delta.Actor != "" { // of the range, which is another if that was dropped before
		r.names.met(r.env.ID, result.Delta.Actor)
	}
	if err != nil {
		return bigset.Delta{}, nil, err
	}
	tags := make([]string, len(ops))
	for i, dot := range result.Dots {
		if dot.Valid() {
			tags[i] = r.names.dot(dot)
		}
	}
	return result.Delta, tags, nil
}

func (r *replica) frame(m peer.Message) ([]byte, error) { return peer.Append(nil, r.member(), m) }

// Receive implements convergence.Replica.
func (r *replica) Receive(msg []byte) (durable bool, err error) {
	m, _, err := peer.Decode(msg)
	if err != nil {
		return false, err
	}
	d := r.durability()
	switch m := m.(type) {
	case peer.Delta:
		err = r.store.ApplyDelta(bigset.Delta(m), d)
	case peer.Facts:
		err = r.store.ApplyFacts(bigset.Facts(m), d)
	default:
		err = peer.ErrFrameKind
	}
	return d == bigset.Sync && err == nil, err
}

// Read implements convergence.Replica. What it shows must be exactly what is seen and not dead.
func (r *replica) Read() (v convergence.View, err error) {
	if r.joining {
		return v, convergence.ErrNotReady
	}
	st, err := stateOf(r.store)
	if err != nil {
		return v, err
	}
	var shown []clock.Dot
	for c, err := range r.store.Read(bigset.ReadOptions{BatchSize: 1 + r.env.Rand.IntN(4)}) {
		if errors.Is(err, bigset.ErrNotFound) {
			break
		}
		if err != nil {
			return v, err
		}
		if !c.Clock.Equal(st.Seen) {
			return v, fmt.Errorf("sim: a chunk of clock %v, and %v is seen", c.Clock, st.Seen)
		}
		for _, e := range c.Elements {
			v.Items = append(v.Items, r.names.item(e))
			shown = append(shown, e.Dots...)
		}
	}
	if err := accounted(st.Seen, st.Dead, shown); err != nil {
		return v, err
	}
	v.Whole = encode(wide, st.Seen)
	v.Ranges = []convergence.Range{{Context: v.Whole}}
	return v, nil
}

// accounted checks that dots are exactly those that are seen and not dead, each once.
func accounted(seen, dead *clock.Clock, dots []clock.Dot) error {
	once := make(map[clock.Dot]bool, len(dots))
	for _, d := range dots {
		if once[d] || !seen.Contains(d) || dead.Contains(d) {
			return fmt.Errorf("sim: %v is not live, or is shown twice", d)
		}
		once[d] = true
	}
	if !seen.Descends(dead) || seen.Len()-dead.Len() != uint64(len(dots)) {
		return fmt.Errorf("sim: seen %v, dead %v, there %v", seen, dead, dots)
	}
	return nil
}

// item shows an element with its narrow context. Wide contexts serve the elements that are absent: an operation that kills only
// what its coordinator already knows to be dead makes no event, so a replica that has not heard of that death would not hear of it.
func (n *names) item(e fold.Element) convergence.Item {
	it := convergence.Item{Elem: string(e.Name), Context: encode(narrow, clock.Of(e.Dots...))}
	for _, d := range e.Dots {
		it.Tags = append(it.Tags, n.dot(d))
	}
	slices.Sort(it.Tags)
	return it
}

// Sync implements convergence.Durable.
func (r *replica) Sync() error {
	err := r.store.Sync()
	if err == nil {
		r.onDisk = r.joining
	}
	return err
}

// Crash implements convergence.Durable.
func (r *replica) Crash(quarters int) (any, error) {
	r.hangUp()
	return replicaDisk{r.store.Crash(quarters), r.onDisk}, nil
}

// Stop implements convergence.Durable.
func (r *replica) Stop() (any, error) {
	r.hangUp()
	disk, err := r.store.Stop()
	return replicaDisk{disk, r.joining}, err
}

// Close implements convergence.Replica.
func (r *replica) Close() error {
	r.hangUp()
	r.store.Close()
	return nil
}

// hangUp ends the streams that read from here.
func (r *replica) hangUp() {
	for _, s := range r.streams {
		s.stop()
	}
	r.streams = nil
}

// Backup implements convergence.Backuper. A replica that is opened from it has lost writes.
func (r *replica) Backup() (any, error) {
	disk, err := r.store.Backup()
	return replicaDisk{disk, true}, err
}

// DiskFault implements convergence.DiskFaulter. If the store has to be opened again, its readers are ended.
func (r *replica) DiskFault(kind string) error {
	r.hangUp()
	return r.store.Fault(kind)
}

// Ask implements convergence.Repairer: it sends what this replica has seen, and what of it is dead.
func (r *replica) Ask() ([]byte, error) {
	st, err := stateOf(r.store)
	if err != nil {
		return nil, err
	}
	return r.frame(peer.State(st))
}

// Answer implements convergence.Repairer: it sends the deaths and the keys that are missing at the other replica.
func (r *replica) Answer(ask []byte) (out [][]byte, err error) {
	m, _, err := peer.Decode(ask)
	if err != nil {
		return nil, err
	}
	lacks, ok := m.(peer.State)
	has, err := stateOf(r.store)
	if err != nil || !ok {
		return nil, errors.Join(err, peer.ErrFrameKind)
	}
	tell := func(f bigset.Facts) {
		frame, e := r.frame(peer.Facts(f))
		out, err = append(out, frame), errors.Join(err, e)
	}
	dead := has.Dead.Clone()
	if dead.Subtract(lacks.Dead); !dead.Empty() {
		tell(bigset.Facts{Set: r.set, Dead: dead})
	}
	missing := has.Seen.Clone()
	missing.Subtract(lacks.Seen)
	missing.Subtract(has.Dead)
	if missing.Empty() {
		return out, err
	}
	for f, e := range r.store.Locate(missing) {
		if e != nil {
			return out, e
		}
		tell(f)
	}
	return out, err
}

// Maintain implements convergence.Maintainer.
func (r *replica) Maintain(n int) (string, error) { return r.store.Maintain(n) }

// Verify implements convergence.Verifier.
func (r *replica) Verify() error { return errors.Join(r.wrong, r.store.Verify()) }

// Fingerprint implements convergence.Fingerprinter.
func (r *replica) Fingerprint() string { return r.Dump() }

// Dump implements convergence.Dumper.
func (r *replica) Dump() string {
	st, err := stateOf(r.store)
	if err != nil {
		return err.Error()
	}
	var keys []string
	for c, err := range r.store.Read(bigset.ReadOptions{}) {
		if err != nil {
			break
		}
		for _, e := range c.Elements {
			keys = append(keys, fmt.Sprintf("%s%s", e.Name, r.names.dots(e.Dots)))
		}
	}
	slices.Sort(keys)
	return fmt.Sprintf("seen %s dead %s keys %v", r.names.clock(st.Seen), r.names.clock(st.Dead), keys)
}
