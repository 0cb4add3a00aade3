package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/wire"
)

// Local is the replica that a Handler serves.
type Local interface {
	peer.Replica
	peer.Stamper
	peer.ManyDeltas
	peer.RequestLister
}

// Handler serves a replica to the replicas of other processes. A request changes nothing if it can't be decoded, if it is not from the node
// at the other end of the connection, or if the gate refuses it. Errors are *peer.ReplicaError, to be carried by peer.Errors.
func Handler(rep Local, gate Gate) wire.Handler { return HandlerIn(goroutines, rep, gate) }

// Runner runs what a handler does concurrently with its request. The zero value is not valid.
type Runner struct {
	// Go runs f concurrently with its caller.
	Go func(f func())
	// NewSignal returns the two ends of a signal: set, which may be called again, and wait, which returns once set was called.
	NewSignal func() (set, wait func())
}

// goroutines is the Runner of a real node.
var goroutines = Runner{
	Go: func(f func()) { go f() },
	NewSignal: func() (set, wait func()) {
		c := make(chan struct{})
		return sync.OnceFunc(func() { close(c) }), func() { <-c }
	},
}

// HandlerIn is Handler with another source of concurrency, for simulations.
func HandlerIn(run Runner, rep Local, gate Gate) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		v := &visit{ctx: ctx, run: run, rep: rep, gate: gate, r: r, send: send}
		m, err := v.request()
		if err != nil {
			return nil, v.refused(err)
		}
		return v.serve(m)
	}
}

// visit is a request that is being answered.
type visit struct {
	ctx  context.Context
	run  Runner
	rep  Local
	gate Gate
	r    *wire.Request
	send func([]byte) error

	bufs [2][]byte // buffers for parts, used in turn: the part that was sent last may still be on its way
	sent int
}

// request decodes the request, and checks its sender.
func (v *visit) request() (peer.Message, error) {
	if v.r.From == nil || v.r.From.Role != wire.RoleNode {
		return nil, fmt.Errorf("%w: only nodes speak to replicas", peer.ErrSender)
	}
	m, from, err := peer.DecodeOwned(v.r.Body)
	switch {
	case err != nil:
		return nil, err
	case from.Node != v.r.From.Name:
		return nil, fmt.Errorf("%w: a frame of %v from node %.255q", peer.ErrSender, from, v.r.From.Name)
	case !fits(v.r.Verb, m):
		return nil, fmt.Errorf("%w: a %T with verb %d", peer.ErrFrameKind, m, v.r.Verb)
	}
	return m, nil
}

// refused returns the answer to a request that was not looked at: nothing has happened.
func (v *visit) refused(err error) error { return v.failed(v.rep.Member(), unasked(err)) }

// unasked returns the error for a request that did not reach the replica: it says that nothing has happened.
func unasked(err error) error {
	if peer.Refused(err) || errors.Is(err, peer.ErrUnavailable) {
		return err
	}
	return unavailable(err)
}

// failed returns an error with the member that it is from.
func (v *visit) failed(by peer.Member, err error) error {
	return &peer.ReplicaError{Member: by, Err: err}
}

// enter passes the gate.
func (v *visit) enter(c Class, first, last keyscheme.Slot) (leave func(), err error) {
	leave, err = v.gate.Enter(v.ctx, c, first, last, v.r.Epoch)
	if err != nil {
		return nil, v.refused(err)
	}
	return leave, nil
}

// once answers a request with one frame.
func (v *visit) once(c Class, first, last keyscheme.Slot, do func() (peer.Message, peer.Member, error)) ([]byte, error) {
	leave, err := v.enter(c, first, last)
	if err != nil {
		return nil, err
	}
	defer leave()
	m, by, err := do()
	if err != nil {
		return nil, v.failed(by, err)
	}
	return v.answer(nil, by, m)
}

// answer encodes an answer. If the answer can't be sent, its error leaves open what has happened: the replica has done the request.
func (v *visit) answer(dst []byte, by peer.Member, m peer.Message) ([]byte, error) {
	b, err := peer.AppendVersion(dst, v.r.Body[0], by, m)
	if err != nil {
		return nil, v.failed(by, fmt.Errorf("%w: it can't be sent: %v", peer.ErrAnswer, err))
	}
	return b, nil
}

// onSet answers a request on a set with one frame.
func (v *visit) onSet(c Class, set []byte, do func() (peer.Message, peer.Member, error)) ([]byte, error) {
	at := keyscheme.SetSlot(set)
	return v.once(c, at, at, do)
}

// durability returns the durability that a verb stands for, given the first of its three verbs.
func (v *visit) durability(first wire.Verb) bigset.Durability {
	return bigset.Durability(v.r.Verb - first)
}

// serve answers a request.
func (v *visit) serve(m peer.Message) ([]byte, error) {
	ctx, rep := v.ctx, v.rep
	switch m := m.(type) {
	case peer.Write:
		if v.r.Verb == VerbWriteAhead {
			return v.writeAhead(m)
		}
		return v.onSet(Mint, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Write(ctx, m.Set, m.Ops, m.Options)
			return peer.Written(a), by, err
		})
	case peer.Knows:
		return v.onSet(Answer, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Knows(ctx, m.Set, m.Request, m.Try)
			return peer.Known(a), by, err
		})
	case peer.Delta:
		return v.onSet(Take, m.Set, func() (peer.Message, peer.Member, error) {
			by, err := rep.Apply(ctx, bigset.Delta(m), v.durability(VerbApply))
			return peer.Done{}, by, err
		})
	case peer.Deltas:
		return v.onSet(Take, m[0].Set, func() (peer.Message, peer.Member, error) {
			each, by, err := rep.ApplyMany(ctx, m, v.durability(VerbApplyMany))
			if each == nil {
				return peer.Done{}, by, err
			}
			return peer.Outcomes(each), by, err
		})
	case peer.Facts:
		return v.onSet(Take, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.ApplyFacts(ctx, bigset.Facts(m), v.durability(VerbApplyFacts))
			return peer.FactsResult(a), by, err
		})
	case peer.Heal:
		return v.onSet(Take, m.Facts.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Heal(ctx, m.Facts, m.Wrong)
			return peer.HealResult(a), by, err
		})
	case peer.Lookup:
		return v.onSet(Answer, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Lookup(ctx, m.Set, m.Elements)
			return peer.Contexts(a), by, err
		})
	case peer.Ask:
		return v.onSet(Answer, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.DotStatus(ctx, m.Set, m.Element, m.Dots)
			return peer.DotStatuses(a), by, err
		})
	case peer.AskCount:
		return v.onSet(Answer, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.CountParts(ctx, m.Set, m.Range)
			return peer.PartCounts(a), by, err
		})
	case peer.Read:
		return v.read(m)
	}
	return v.serveRepair(m)
}

// serveRepair answers a request of a repair, an exchange or a copy of sets.
func (v *visit) serveRepair(m peer.Message) ([]byte, error) {
	ctx, rep := v.ctx, v.rep
	switch m := m.(type) {
	case peer.AskLost:
		return v.onSet(Compare, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Lost(ctx, m.Set)
			return peer.Lost{Set: m.Set, Dots: a}, by, err
		})
	case peer.ElementRange:
		return v.onSet(Compare, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.ElementDigests(ctx, m.Set, m.Range)
			return peer.ElementDigests(a), by, err
		})
	case peer.AskState:
		return v.onSet(Compare, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.State(ctx, m.Set)
			return peer.State(a), by, err
		})
	case peer.Export:
		return v.onSet(Copy, m.Set, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Export(ctx, m.Set, m.After, m.Bytes)
			if err != nil {
				return nil, by, err
			}
			return peer.Portion(*a), by, nil
		})
	case peer.AskRangeDigests:
		return v.once(Compare, m.First, m.Last, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.RangeDigests(ctx, m.First, m.Last, m.Parts)
			return peer.RangeDigests(a), by, err
		})
	case peer.Locate:
		return v.locate(m)
	case peer.AskRequests:
		return v.requests(m)
	case peer.AskDigests:
		return batches[peer.Digests](v, m.First, m.Last, rep.Digests(ctx, m.First, m.Last))
	}
	return v.serveSlices(m)
}

// serveSlices answers a request about slices of bloom filters.
func (v *visit) serveSlices(m peer.Message) ([]byte, error) {
	ctx, rep := v.ctx, v.rep
	switch m := m.(type) {
	case peer.Mark:
		return v.onSlice(Mint, &m.Spec, func() (peer.Message, peer.Member, error) {
			a, added, by, err := rep.Mark(ctx, m.Spec, m.Hashes)
			return peer.Marked{Marks: a, Added: added}, by, err
		})
	case peer.Marks:
		return v.onSlice(Take, &m.SliceSpec, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.ApplyMarks(ctx, bigset.Marks(m))
			return peer.KeyAnswers(a), by, err
		})
	case peer.Check:
		return v.onSlice(Answer, &m.Spec, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Check(ctx, m.Spec, m.Hashes)
			return peer.KeyAnswers(a), by, err
		})
	case peer.DropGeneration:
		return v.once(Take, 0, keyscheme.SlotMax, func() (peer.Message, peer.Member, error) {
			by, err := rep.DropGeneration(ctx, m.Name, m.Slices, m.Generation)
			return peer.Done{}, by, err
		})
	case peer.AskSliceDigests:
		return batches[peer.SliceDigests](v, m.First, m.Last, rep.SliceDigests(ctx, m.First, m.Last))
	case peer.AskPageSums:
		return v.onSlice(Compare, &m.Spec, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.PageSums(ctx, m.Spec, m.After, m.Most)
			return peer.PageSums(a), by, err
		})
	case peer.AskPages:
		return v.onSlice(Compare, &m.Spec, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Pages(ctx, m.Spec, m.Places)
			return peer.SlicePages(a), by, err
		})
	case peer.SlicePages:
		return v.onSlice(Take, &m.SliceSpec, func() (peer.Message, peer.Member, error) {
			by, err := rep.MergePages(ctx, bigset.SlicePages(m))
			return peer.Done{}, by, err
		})
	case peer.FlushSlice:
		return v.onSlice(Take, &m.Spec, func() (peer.Message, peer.Member, error) {
			by, err := rep.FlushSlice(ctx, m.Spec)
			return peer.Done{}, by, err
		})
	case peer.MarkMany:
		return v.markMany(m)
	case peer.CheckMany:
		return v.checkMany(m)
	case peer.MarksMany:
		return v.applyMarksMany(m)
	case peer.AskStamp:
		return v.once(Answer, 0, keyscheme.SlotMax, func() (peer.Message, peer.Member, error) {
			a, by, err := rep.Stamp(ctx, m.Spec, m.Digest)
			return a, by, err
		})
	}
	return nil, v.refused(fmt.Errorf("%w: a %T", peer.ErrFrameKind, m))
}

// onSlice answers a request on a slice with one frame.
func (v *visit) onSlice(c Class, spec *bigset.SliceSpec, do func() (peer.Message, peer.Member, error)) ([]byte, error) {
	at := spec.Slot()
	return v.once(c, at, at, do)
}
