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

// patience is how long a copy waits for an answer of its source, or for the next part of one. A source whose disk hangs still answers pings. The
// longest answer is a chunk of 8 MiB, which comes in this time at half a megabit a second.
const patience = 2 * time.Minute

// searchTimes is how many times longer a copy waits for the next keys of a search: a source may read a whole set before it finds one.
const searchTimes = 15

// patient is a replica elsewhere as the source of a copy. What it does not answer in time fails with context.DeadlineExceeded.
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
	ctx, cancel := coord.Deadline(ctx, p.run, p.most)
	defer cancel()
	s, m, err := p.replica.State(ctx, set)
	return s, m, p.late(ctx, err)
}

// Locate implements transfer.Sender.
func (p *patient) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	long := &patient{p.replica, p.run, searchTimes * p.most}
	return inTime(ctx, long, func(ctx context.Context) iter.Seq2[bigset.Facts, error] { return p.replica.Locate(ctx, set, dots) })
}

// Export implements transfer.Sender.
func (p *patient) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	ctx, cancel := coord.Deadline(ctx, p.run, p.most)
	defer cancel()
	portion, m, err := p.replica.Export(ctx, set, after, bytesMax)
	return portion, m, p.late(ctx, err)
}

// SliceDigests implements transfer.SliceSender.
func (p *patient) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return inTime(ctx, p, func(ctx context.Context) iter.Seq2[bigset.SliceDigest, error] {
		return p.replica.SliceDigests(ctx, first, last)
	})
}

// PageSums implements transfer.SliceSender.
func (p *patient) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	ctx, cancel := coord.Deadline(ctx, p.run, p.most)
	defer cancel()
	sums, m, err := p.replica.PageSums(ctx, spec, after, most)
	return sums, m, p.late(ctx, err)
}

// Pages implements transfer.SliceSender.
func (p *patient) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	ctx, cancel := coord.Deadline(ctx, p.run, p.most)
	defer cancel()
	pages, m, err := p.replica.Pages(ctx, spec, places)
	return pages, m, p.late(ctx, err)
}

// Requests implements peer.RequestLister.
func (p *patient) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return inTime(ctx, p, func(ctx context.Context) iter.Seq2[bigset.KeptRequest, error] {
		return p.replica.Requests(ctx, first, last)
	})
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
