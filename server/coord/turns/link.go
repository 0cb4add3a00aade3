package turns

import (
	"context"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Link is the connection to a replica for the calls with one question and one answer. A type that embeds it adds the other methods.
type Link struct {
	To   func() peer.Replica                              // the replica, in its current life
	Over func(ctx context.Context, do func() error) error // runs do as a network would: once, twice, later, or not at all
}

// over does a call. If the call fails there is no answer, even if the replica has given one.
func over[T any](ctx context.Context, l *Link, call func(peer.Replica) (T, peer.Member, error)) (T, peer.Member, error) {
	var answer T
	var by peer.Member // the life that has answered, which may have ended before the answer arrives
	err := l.Over(ctx, func() (err error) {
		answer, by, err = call(l.To())
		return err
	})
	if err != nil {
		var none T
		return none, l.To().Member(), err
	}
	return answer, by, nil
}

// Knows implements peer.Replica, as the other methods do.
func (l *Link) Knows(ctx context.Context, set, request []byte, try uint64) (bool, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bool, peer.Member, error) { return r.Knows(ctx, set, request, try) })
}

func (l *Link) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.FactsResult, peer.Member, error) { return r.ApplyFacts(ctx, f, durability) })
}

func (l *Link) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.HealResult, peer.Member, error) { return r.Heal(ctx, f, wrong) })
}

func (l *Link) Lost(ctx context.Context, set []byte) (*clock.Clock, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (*clock.Clock, peer.Member, error) { return r.Lost(ctx, set) })
}

func (l *Link) ElementDigests(ctx context.Context, set []byte, e bigset.ElementRange) (bigset.ElementDigests, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.ElementDigests, peer.Member, error) { return r.ElementDigests(ctx, set, e) })
}

func (l *Link) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.State, peer.Member, error) { return r.State(ctx, set) })
}

func (l *Link) Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) ([]bigset.Context, peer.Member, error) { return r.Lookup(ctx, set, elements) })
}

func (l *Link) CountParts(ctx context.Context, set []byte, c bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.PartCounts, peer.Member, error) { return r.CountParts(ctx, set, c) })
}

func (l *Link) DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (bigset.DotStatuses, peer.Member, error) {
		return r.DotStatus(ctx, set, element, dots)
	})
}

func (l *Link) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) (*bigset.Portion, peer.Member, error) { return r.Export(ctx, set, after, bytesMax) })
}

func (l *Link) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	return over(ctx, l, func(r peer.Replica) ([]bigset.RangeDigest, peer.Member, error) {
		return r.RangeDigests(ctx, first, last, parts)
	})
}
