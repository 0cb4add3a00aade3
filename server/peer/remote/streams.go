package remote

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/wire"
)

// items streams the items in the parts of a request's answer. check checks each item against the request and the item before it, nil for
// the first.
func items[P interface {
	~[]V
	peer.Message
}, V any](ctx context.Context, r *Replica, v wire.Verb, request peer.Message, check func(before, item *V) error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var before *V
		more := true
		err := r.stream(ctx, v, request, func(part []byte, from *sender) (bool, error) {
			p, err := decodePart[P](part, from)
			for i := range p {
				if err == nil {
					err = check(before, &p[i])
				}
				if err != nil {
					return true, err
				}
				before = &p[i]
				if more = yield(p[i], nil); !more {
					break
				}
			}
			return more, err
		})
		if err != nil && more {
			var none V
			yield(none, err)
		}
	}
}

// Digests implements peer.Replica.
func (r *Replica) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return items[peer.Digests](ctx, r, VerbDigests, peer.AskDigests{First: first, Last: last}, func(before, d *bigset.SetDigest) error {
		if d.Slot < first || d.Slot > last || before != nil && peer.CompareDigests(before, d) >= 0 {
			return fmt.Errorf("a digest of slot %08x, of another range or in no order", d.Slot)
		}
		return nil
	})
}

// SliceDigests implements peer.SliceReplica.
func (r *Replica) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return items[peer.SliceDigests](ctx, r, VerbSliceDigests, peer.AskSliceDigests{First: first, Last: last}, func(before, d *bigset.SliceDigest) error {
		if at := d.Slot(); at < first || at > last || before != nil && peer.CompareSliceDigests(before, d) >= 0 {
			return fmt.Errorf("a digest of slot %08x, of another range or in no order", at)
		}
		return nil
	})
}

// Locate implements peer.Replica.
func (r *Replica) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		more := true
		err := r.stream(ctx, VerbLocate, peer.Locate{Set: set, Dots: dots}, func(part []byte, from *sender) (bool, error) {
			f, err := decodePart[peer.Facts](part, from)
			switch {
			case err != nil:
				return true, err
			case !bytes.Equal(f.Set, set):
				return true, fmt.Errorf("facts of %.64q", f.Set)
			}
			more = yield(bigset.Facts(f), nil)
			return more, nil
		})
		if err != nil && more {
			yield(bigset.Facts{}, err)
		}
	}
}

// Read implements peer.Replica. It decodes chunks into those that o.Scrap returns.
func (r *Replica) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		var seen *clock.Clock // of the previous chunk
		more := true
		err := r.stream(ctx, VerbRead, peer.Read{Set: set, Options: o}, func(part []byte, from *sender) (bool, error) {
			var scrap *fold.Chunk
			if o.Scrap != nil {
				scrap = o.Scrap()
			}
			c, by, err := peer.DecodeChunk(part, scrap)
			if err == nil {
				err = from.check(by)
			}
			switch {
			case err != nil:
				return true, err
			case by.State != peer.Normal:
				return true, fmt.Errorf("a chunk of a member that is %v", by.State)
			case c.Clock == nil && seen == nil:
				return true, fmt.Errorf("a first chunk without a clock")
			case c.Clock == nil:
				c.Clock = seen
			}
			seen = c.Clock
			more = yield(c, nil)
			return more, nil
		})
		if err != nil && more {
			yield(nil, err)
		}
	}
}
