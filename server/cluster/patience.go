package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// patience is how long a fill waits for an answer of another member, or for the next part of one. A member whose disk hangs still answers pings.
// The longest answer is a chunk of 8 MiB, which comes in this time at half a megabit a second.
const patience = 2 * time.Minute

// searchTimes is how many times longer a fill waits for the next keys of a search, and for the digests of ranges: a member may read a whole set
// before it finds one, and the clocks of all its sets.
const searchTimes = 15

// patient is a replica as a fill or a list asks it. What it does not answer in time fails with context.DeadlineExceeded.
type patient struct {
	replica
	run  coord.Runner
	most time.Duration
}

// Digests implements transfer.Sender.
func (p *patient) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return inTime(ctx, p, func(ctx context.Context) iter.Seq2[bigset.SetDigest, error] {
		return p.replica.Digests(ctx, first, last)
	})
}

// State implements transfer.Sender.
func (p *patient) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	return answer(ctx, p, func(ctx context.Context) (bigset.State, peer.Member, error) { return p.replica.State(ctx, set) })
}

// Locate implements transfer.Sender.
func (p *patient) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return inTime(ctx, p.long(), func(ctx context.Context) iter.Seq2[bigset.Facts, error] { return p.replica.Locate(ctx, set, dots) })
}

// Export implements transfer.Sender.
func (p *patient) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	return answer(ctx, p, func(ctx context.Context) (*bigset.Portion, peer.Member, error) {
		return p.replica.Export(ctx, set, after, bytesMax)
	})
}

// SliceDigests implements transfer.SliceSender.
func (p *patient) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return inTime(ctx, p, func(ctx context.Context) iter.Seq2[bigset.SliceDigest, error] {
		return p.replica.SliceDigests(ctx, first, last)
	})
}

// PageSums implements transfer.SliceSender.
func (p *patient) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	return answer(ctx, p, func(ctx context.Context) (bigset.PageSums, peer.Member, error) {
		return p.replica.PageSums(ctx, spec, after, most)
	})
}

// Pages implements transfer.SliceSender.
func (p *patient) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	return answer(ctx, p, func(ctx context.Context) (bigset.SlicePages, peer.Member, error) {
		return p.replica.Pages(ctx, spec, places)
	})
}

// Requests implements peer.RequestLister.
func (p *patient) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return inTime(ctx, p, func(ctx context.Context) iter.Seq2[bigset.KeptRequest, error] {
		return p.replica.Requests(ctx, first, last)
	})
}

// RangeDigests implements peer.Replica.
func (p *patient) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	return answer(ctx, p.long(), func(ctx context.Context) ([]bigset.RangeDigest, peer.Member, error) {
		return p.replica.RangeDigests(ctx, first, last, parts)
	})
}

// ApplyFacts implements peer.Replica.
func (p *patient) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	return answer(ctx, p, func(ctx context.Context) (bigset.FactsResult, peer.Member, error) {
		return p.replica.ApplyFacts(ctx, f, durability)
	})
}

// DropGeneration implements peer.SliceReplica.
func (p *patient) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	return done(ctx, p, func(ctx context.Context) (peer.Member, error) {
		return p.replica.DropGeneration(ctx, name, slices, generation)
	})
}

// MergePages implements peer.SliceReplica.
func (p *patient) MergePages(ctx context.Context, pages bigset.SlicePages) (peer.Member, error) {
	return done(ctx, p, func(ctx context.Context) (peer.Member, error) { return p.replica.MergePages(ctx, pages) })
}

// long is the same replica, with the time for a search.
func (p *patient) long() *patient { return &patient{p.replica, p.run, searchTimes * p.most} }

// answer waits for an answer, for a limited time.
func answer[T any](ctx context.Context, p *patient, ask func(context.Context) (T, peer.Member, error)) (T, peer.Member, error) {
	ctx, cancel := coord.Deadline(ctx, p.run, p.most)
	defer cancel()
	a, m, err := ask(ctx)
	return a, m, p.late(ctx, err)
}

// done is answer for a change that returns nothing else.
func done(ctx context.Context, p *patient, ask func(context.Context) (peer.Member, error)) (peer.Member, error) {
	_, m, err := answer(ctx, p, func(ctx context.Context) (struct{}, peer.Member, error) {
		m, err := ask(ctx)
		return struct{}{}, m, err
	})
	return m, err
}

// late returns the error of an answer, which says so if the answer did not come in time.
func (p *patient) late(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("nothing came within %v: %w", p.most, context.DeadlineExceeded)
	}
	return err
}

// inTime passes on an answer in parts. The time that the caller takes for a part does not count.
func inTime[T any](ctx context.Context, p *patient, ask func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		wait := func() (stop func()) {
			return p.run.After(p.most, func() { cancel(context.DeadlineExceeded) })
		}
		stop := wait()
		for part, err := range ask(ctx) {
			stop()
			if !yield(part, p.late(ctx, err)) {
				return
			}
			stop = wait()
		}
		stop()
	}
}
