package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// ExchangeSlices brings two replicas what they have missed of each other, for all slices of bloom filters in a range of slots, both ends
// included: anti-entropy. They compare digests, and sums of pages where these differ. Pages that differ are sent, and layers with their
// counts. A slice that one knows to be dropped, or replaced by a later filter of the same name, is dropped by the other. Nothing else is
// removed, so an exchange may run while both replicas are marked, may be interrupted, and may be repeated. What it sends becomes durable
// like marks, at the next flush.
//
// If a slice fails, the exchange continues with the others, unless a replica is unavailable or does not answer in time, or ctx ends: these end the
// exchange. The error contains the failures, up to a maximum number.
func ExchangeSlices(ctx context.Context, a, b peer.SliceReplica, first, last keyscheme.Slot) (Exchanged, error) {
	e := &sliceExchange{a: a, b: b, droppedA: map[string]uint64{}, droppedB: map[string]uint64{}}
	err := e.run(ctx, first, last)
	return e.sum, errors.Join(append(e.errs, err)...)
}

// sliceExchange is one ExchangeSlices.
type sliceExchange struct {
	a, b peer.SliceReplica
	sum  Exchanged
	errs []error // of slices that were left
	// droppedA and droppedB map each filter to the generation that the replica was asked to drop, which drops all its slices.
	droppedA, droppedB map[string]uint64
}

func (e *sliceExchange) run(ctx context.Context, first, last keyscheme.Slot) error {
	for p, err := range pairs(e.a.SliceDigests(ctx, first, last), e.b.SliceDigests(ctx, first, last), peer.CompareSliceDigests) {
		if err != nil {
			return fmt.Errorf("coord: exchange slices: %w", err)
		}
		d := sliceDigests{p}
		if e.sum.Slices++; d.equal() {
			continue
		}
		if !d.noted() {
			e.sum.SlicesDiffer++
		}
		if err := cmp.Or(e.both(ctx, d), d.damage); err != nil {
			err = fmt.Errorf("coord: exchange: %w", err)
			ofSlice := errors.Is(err, bigset.ErrCorrupt) || errors.Is(err, bigset.ErrSliceAway)
			if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, peer.ErrUnavailable) && !ofSlice {
				return err
			}
			if len(e.errs) < errsMax {
				e.errs = append(e.errs, err)
			}
		}
	}
	return nil
}

// sliceDigests are what two replicas have of a slice. A replica that has never heard of it has generation 0.
type sliceDigests struct{ pair[bigset.SliceDigest] }

func (d *sliceDigests) equal() bool { return d.damage == nil && d.newer() == 0 && d.a.Sum == d.b.Sum }

// newer is above 0 if a's state replaces b's, below 0 if b's replaces a's, and 0 if neither does.
func (d *sliceDigests) newer() int {
	if order := cmp.Compare(d.a.Generation, d.b.Generation); order != 0 || d.a.Dropped == d.b.Dropped {
		return order
	}
	if d.a.Dropped {
		return 1
	}
	return -1
}

// noted reports whether the only difference is the note of a drop, for a slice that the other replica does not have. The other replica
// may need no note: if it has a later filter of the name, in other slices, it keeps none, and is sent the note again in each exchange.
func (d *sliceDigests) noted() bool {
	return d.damage == nil && (d.a.Dropped && d.b.Generation == 0 || d.b.Dropped && d.a.Generation == 0)
}

// both exchanges what the two replicas have of a slice.
func (e *sliceExchange) both(ctx context.Context, d sliceDigests) error {
	switch order := d.newer(); {
	case order > 0 && d.a.Dropped:
		return e.drop(ctx, d, &d.a, e.b, e.droppedB)
	case order < 0 && d.b.Dropped:
		return e.drop(ctx, d, &d.b, e.a, e.droppedA)
	case order > 0:
		return e.send(ctx, &d.a, e.a, e.b)
	case order < 0:
		return e.send(ctx, &d.b, e.b, e.a)
	}
	return errors.Join(e.send(ctx, &d.a, e.a, e.b), e.send(ctx, &d.b, e.b, e.a)) // also where one is damaged
}

// drop drops a filter at a replica, when the first of its slices is met.
func (e *sliceExchange) drop(ctx context.Context, p sliceDigests, d *bigset.SliceDigest, at peer.SliceReplica, done map[string]uint64) error {
	if done[string(d.Name)] < d.Generation {
		if _, err := at.DropGeneration(ctx, d.Name, d.Options.Slices, d.Generation); err != nil {
			return fmt.Errorf("drop filter %.64q at %s: %w", d.Name, at.Member().Node, err)
		}
		done[string(d.Name)] = d.Generation
	}
	if !p.noted() {
		e.sum.SlicesDropped++
	}
	return nil
}

// send sends one replica what another has of a slice. If the filter has been dropped since, the slice is left to the next exchange.
func (e *sliceExchange) send(ctx context.Context, d *bigset.SliceDigest, from, to peer.SliceReplica) error {
	r, err := transfer.PullSlice(ctx, from, to, d.SliceSpec)
	e.sum.Pages += r.Pages
	if errors.Is(err, bigset.ErrNoFilter) {
		return nil
	}
	return err
}
