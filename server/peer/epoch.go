package peer

import "context"

type epochKey struct{}

// WithEpoch returns a context for calls that were routed by the map of an epoch, so that a replica with another map refuses them.
func WithEpoch(ctx context.Context, epoch uint64) context.Context {
	return context.WithValue(ctx, epochKey{}, epoch)
}

// EpochOf returns the epoch by which a call was routed, if its context has one.
func EpochOf(ctx context.Context) (epoch uint64, ok bool) {
	epoch, ok = ctx.Value(epochKey{}).(uint64)
	return epoch, ok
}
