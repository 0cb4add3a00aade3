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

// ExchangeSlices has two replicas tell each other what either lacks, of all slices of bloom filters in a range of slots, both ends
// included: anti-entropy. They compare digests, and where these differ sums of pages; pages that differ go over, and layers with their
// counts. What one knows to be dropped, or replaced by a later filter of the name, the other drops. Nothing else is taken away, so it may
// go on while both are marked, be broken off, and be done again. What it brings is as durable as what comes by marks, at the next flush.
//
// What fails for one slice is left, and the others go on, unless a replica is not available or ctx ends: then so does the exchange. The
// error has all that failed, up to a number.
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
	// droppedA and droppedB have the generation of each filter that the replica was told to drop: that drops all slices of it.
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
			if ctx.Err() != nil || errors.Is(err, peer.ErrUnavailable) && !ofSlice {
				return err
			}
			if len(e.errs) < errsMax {
				e.errs = append(e.errs, err)
			}
		}
	}
	return nil
}

// sliceDigests are what two replicas have of a slice; of what one has never heard of, it has the generation 0.
type sliceDigests struct{ pair[bigset.SliceDigest] }

func (d *sliceDigests) equal() bool { return d.damage == nil && d.newer() == 0 && d.a.Sum == d.b.Sum }

// newer is above 0 where what a has takes the place of what b has, and below where it is the other way round.
func (d *sliceDigests) newer() int {
	if order := cmp.Compare(d.a.Generation, d.b.Generation); order != 0 || d.a.Dropped == d.b.Dropped {
		return order
	}
	if d.a.Dropped {
		return 1
	}
	return -1
}

// noted reports whether all that differs is the note of a drop, of a slice of which the other replica has nothing. That one may need no note: where it has a later
// filter of the name, in other slices, it keeps none, and is told again in each exchange.
func (d *sliceDigests) noted() bool {
	return d.damage == nil && (d.a.Dropped && d.b.Generation == 0 || d.b.Dropped && d.a.Generation == 0)
}

// both has the two replicas tell each other what they have of a slice.
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

// drop drops a filter at a replica, with the first of its slices that is met.
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

// send brings one replica what another has of a slice. What is no longer so, because the filter was dropped meanwhile, is left to the next
// exchange.
func (e *sliceExchange) send(ctx context.Context, d *bigset.SliceDigest, from, to peer.SliceReplica) error {
	r, err := transfer.PullSlice(ctx, from, to, d.SliceSpec)
	e.sum.Pages += r.Pages
	if errors.Is(err, bigset.ErrNoFilter) {
		return nil
	}
	return err
}
