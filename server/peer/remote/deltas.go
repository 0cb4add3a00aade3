package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bigset"
	"bigset/server/peer"
	"bigset/server/wire"
)

// errOneByOne says that the other side speaks a version that knows no frames of several deltas. It wraps wire.ErrNotSent: nothing has happened.
var errOneByOne = fmt.Errorf("%w: the other side takes deltas one by one", wire.ErrNotSent)

// deltasFrame returns what encodes deltas for the connection that they go over.
func (r *Replica) deltasFrame(all []bigset.Delta) func(version byte) ([]byte, error) {
	return func(version byte) ([]byte, error) {
		if framesOf(version) < peer.DeltasVersion {
			return nil, errOneByOne
		}
		return encode(version, r.opt.Self(), peer.Deltas(all))
	}
}

// ApplyMany implements peer.ManyDeltas. A node of an older version is sent one delta after the other, without waiting for answers between them.
func (r *Replica) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	if durability > bigset.NoSync {
		return nil, r.Member(), fmt.Errorf("%w: durability %d", bigset.ErrRequest, durability)
	}
	b, err := r.opt.Caller.Do(ctx, r.call(ctx, VerbApplyMany+wire.Verb(durability), r.deltasFrame(all)))
	if errors.Is(err, errOneByOne) {
		return r.applyEach(ctx, all, durability), r.Member(), nil
	}
	return r.outcomes(len(all), b, err)
}

// applyEach applies deltas by a call each, beside one another.
func (r *Replica) applyEach(ctx context.Context, all []bigset.Delta, durability bigset.Durability) []error {
	each := make([]error, len(all))
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { _, each[i] = r.Apply(ctx, all[i], durability) })
	}
	wg.Wait()
	return each
}

// outcomes returns what has come of a call of several deltas.
func (r *Replica) outcomes(n int, b []byte, err error) ([]error, peer.Member, error) {
	m, by, err := answered[peer.Message](r, b, err)
	if err != nil {
		return nil, by, err
	}
	switch m := m.(type) {
	case peer.Done:
		return nil, by, nil
	case peer.Outcomes:
		if len(m) == n {
			return m, by, nil
		}
		return nil, by, r.strange("outcomes of %d deltas, not %d", len(m), n)
	}
	return nil, by, r.strange("a %T", m)
}

// SendDeltas implements peer.DeltasSender. A node of an older version is sent each delta by a call of its own.
func (r *Replica) SendDeltas(ctx context.Context, all []bigset.Delta, durability bigset.Durability, done func([]error, error)) bool {
	to, ok := r.opt.Caller.(wire.Sender)
	if !ok || durability > bigset.NoSync {
		return false
	}
	return to.Send(ctx, r.call(ctx, VerbApplyMany+wire.Verb(durability), r.deltasFrame(all)), func(b []byte, err error) {
		if errors.Is(err, errOneByOne) {
			go func() { done(r.applyEach(ctx, all, durability), nil) }()
			return
		}
		each, _, err := r.outcomes(len(all), b, err)
		done(each, err)
	})
}
