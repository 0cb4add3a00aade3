package sim

import (
	"context"
	"errors"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/fold"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// copying is a copy of one replica to another by server/transfer. Its progress is kept in the store of the receiver, so that an
// interrupted copy continues, even after a crash.
type copying struct {
	from, to *replica
	mover    *transfer.Mover
	*transfer.Copy
}

// CopyFrom implements convergence.Copier.
func (r *replica) CopyFrom(src convergence.Replica) (c convergence.Copy, resumed bool, err error) {
	from := src.(*replica)
	if from.joining {
		return nil, false, convergence.ErrNotReady
	}
	m, err := transfer.New(end{r}, transfer.Options{ChunkBytes: 1 + r.env.Rand.IntN(80)}) // an element or two
	if err != nil {
		return nil, false, err
	}
	began := &copying{from: from, to: r, mover: m}
	if err := began.start(); err != nil {
		return nil, false, err
	}
	return began, began.Resumed(), nil
}

func (c *copying) start() (err error) {
	slot := keyscheme.SetSlot(c.to.set)
	if c.Copy, err = c.mover.Start(bg, end{c.from}, handoff.Range{First: slot, Last: slot}); err == nil && c.Resumed() {
		c.to.env.Sometimes("copy resumed")
	}
	return err
}

// Step implements convergence.Copy.
func (c *copying) Step() (done bool, err error) {
	done, err = c.Copy.Step(bg)
	switch {
	case errors.Is(err, transfer.ErrReceiver): // its store was opened again after a fault
		return false, c.start()
	case errors.Is(err, handoff.ErrIncomplete): // no keys are lost here
		c.to.wrong = err
		return false, err
	case !done || err != nil:
		return false, err
	}
	c.to.filled |= 1 << c.from.env.ID
	if c.to.filled|1<<c.to.env.ID == 1<<c.to.env.Replicas-1 {
		c.to.joining = false
	}
	return true, nil
}

// Cut implements convergence.Copy.
func (c *copying) Cut() error {
	c.Stop()
	return nil
}

// Leave implements convergence.Leaver.
func (r *replica) Leave() error {
	if err := r.store.Leave(); err != nil {
		return err
	}
	r.hangUp()
	r.joining, r.onDisk, r.filled = true, true, 0
	return nil
}

// end is a replica at either end of a copy.
type end struct{ r *replica }

var (
	_ transfer.Sender   = end{}
	_ transfer.Receiver = end{}
)

func (e end) Member() peer.Member { return e.r.member() }

func (e end) State(context.Context, []byte) (bigset.State, peer.Member, error) {
	st, err := e.r.store.State()
	return st, e.Member(), err
}

func (e end) Locate(_ context.Context, _ []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	e.r.env.Sometimes("copy fetched what had not come by its chunks")
	return e.r.store.Locate(dots)
}

func (e end) Export(_ context.Context, _, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	portion, err := e.r.store.Export(after, bytesMax)
	if err == nil && !portion.Done { // see peer.Replica
		if portion.Dead = nil; after != nil {
			portion.Seen = nil
		}
	}
	return portion, e.Member(), err
}

// Digests implements transfer.Sender. The slot has one set.
func (e end) Digests(_ context.Context, first, _ keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		if st, err := stateOf(e.r.store); err != nil || !st.Seen.Empty() {
			yield(bigset.SetDigest{Slot: first, Name: e.r.set}, err)
		}
	}
}

func (e end) ApplyFacts(_ context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	return bigset.FactsResult{}, e.Member(), e.r.store.ApplyFacts(f, d)
}

func (e end) Ingest(_ context.Context, portion *bigset.Portion, _ func(context.Context, float64) error) (bigset.FactsResult, peer.Member, error) {
	return bigset.FactsResult{}, e.Member(), e.r.store.Ingest(portion)
}

func (e end) SetNote(_ context.Context, name string, _, _ keyscheme.Slot, value []byte, d bigset.Durability) error {
	return e.r.store.SetNote(name, value, d)
}

func (e end) Note(_ context.Context, name string) ([]byte, error) {
	note, err := e.r.store.Note(name)
	if note != nil {
		e.r.env.Sometimes("copy noted")
	}
	return note, err
}

// chunkOf returns what a store in memory exports: the first elements of a chunk of a read, packed.
func chunkOf(set []byte, st bigset.State, c *fold.Chunk) *bigset.Portion {
	s := &bigset.Portion{Set: set, Done: c.Done, Seen: st.Seen, Dead: st.Dead}
	if !c.Done {
		s.Bound = c.Bound
	}
	s.Pack(c.Elements)
	return s
}
