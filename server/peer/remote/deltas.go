package remote

import (
	"context"
	"fmt"

	"bigset"
	"bigset/server/peer"
	"bigset/server/wire"
)

// errOneByOne is peer.ErrOneByOne as an error of the wire.
var errOneByOne = fmt.Errorf("%w: %w", wire.ErrNotSent, peer.ErrOneByOne)

// deltasFrame returns what encodes deltas for the connection that they go over.
func (r *Replica) deltasFrame(all []bigset.Delta) func(version byte) ([]byte, error) {
	return func(version byte) ([]byte, error) {
		if framesOf(version) < peer.DeltasVersion {
			return nil, errOneByOne
		}
		return encode(version, r.opt.Self(), peer.Deltas(all))
	}
}

// ApplyMany implements peer.ManyDeltas.
func (r *Replica) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	if durability > bigset.NoSync {
		return nil, r.Member(), fmt.Errorf("%w: durability %d", bigset.ErrRequest, durability)
	}
	b, err := r.opt.Caller.Do(ctx, r.call(VerbApplyMany+wire.Verb(durability), r.deltasFrame(all)))
	return r.outcomes(len(all), b, err)
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

// SendDeltas implements peer.DeltasSender.
func (r *Replica) SendDeltas(ctx context.Context, all []bigset.Delta, durability bigset.Durability, done func([]error, error)) bool {
	to, ok := r.opt.Caller.(wire.Sender)
	if !ok || durability > bigset.NoSync {
		return false
	}
	return to.Send(ctx, r.call(VerbApplyMany+wire.Verb(durability), r.deltasFrame(all)), func(b []byte, err error) {
		each, _, err := r.outcomes(len(all), b, err)
		done(each, err)
	})
}
