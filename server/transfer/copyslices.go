package transfer

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/handoff"
)

const (
	// slicesListed is about how many slices are listed at a time.
	slicesListed = 512
	// slicesLeftMax is how many skipped slices an error names.
	slicesLeftMax = 8
)

// slicing is the part of a copy that brings slices of bloom filters, after the sets. It has no note: a resumed copy compares sums.
type slicing struct {
	begun  bool
	slots  handoff.Range // slots not listed yet
	listed bool          // all slots are
	next   []sliceListed
	pull   *pull   // the current slice
	left   []error // errors of slices that have not arrived completely
	// dropped is the generation up to which the receiver has dropped each filter: a drop applies to all slices of the filter.
	dropped map[string]uint64
}

// sliceListed is a slice that the sender has.
type sliceListed struct {
	bigset.SliceDigest
	damage error // why it has no digest; the slice is skipped unless all of it arrives
}

func (s *slicing) begin(slots handoff.Range) {
	s.begun, s.slots, s.dropped = true, slots, map[string]uint64{}
}

// sliceStep does a part of the work on slices. It reports true when nothing is left to do.
func (c *Copy) sliceStep(ctx context.Context) (done bool, err error) {
	s := &c.slices
	switch {
	case s.pull != nil:
		return false, c.pullStep(ctx)
	case len(s.next) > 0 && s.next[0].Dropped:
		return false, c.drop(ctx)
	case len(s.next) > 0:
		c.pullNext()
		return false, nil
	case !s.listed:
		return false, c.listSlices(ctx)
	}
	return true, nil
}

// listSlices lists the sender's next slices, all of a slot at once.
func (c *Copy) listSlices(ctx context.Context) error {
	s := &c.slices
	from, has := c.from.(SliceSender)
	if !has {
		s.listed = true
		return nil
	}
	slots, next, listed := s.slots, []sliceListed(nil), true
	last := slots.First
	for d, err := range from.SliceDigests(ctx, slots.First, slots.Last) {
		if err != nil && !damage(err) { // what can be read of a damaged slice is copied
			return fmt.Errorf("transfer: list slices of %s: %w", c.node, err)
		}
		slot := d.Slot()
		if slot < last || slot > slots.Last {
			return fmt.Errorf("%w: slice %d of filter %.64q is listed in slot %d", handoff.ErrOrder, d.Slice, d.Name, slot)
		}
		if len(next) >= slicesListed && slot != last {
			slots.First, listed = slot, false
			break
		}
		next, last = append(next, sliceListed{d, err}), slot
	}
	if err := c.is(c.from.Member()); err != nil {
		return err
	}
	if _, takes := c.m.to.(SliceReceiver); !takes && len(next) > 0 {
		return fmt.Errorf("%w: %s has slice %d of filter %.64q", ErrNoSlices, c.node, next[0].Slice, next[0].Name)
	}
	s.slots, s.next, s.listed = slots, next, listed
	return nil
}

// drop drops a filter at the receiver that the sender reports as dropped, at the first of its slices.
func (c *Copy) drop(ctx context.Context) error {
	s := &c.slices
	d := &s.next[0]
	if s.dropped[string(d.Name)] < d.Generation {
		if _, err := c.m.to.(SliceReceiver).DropGeneration(ctx, d.Name, d.Options.Slices, d.Generation); err != nil {
			return fmt.Errorf("transfer: drop filter %.64q: %w", d.Name, err)
		}
		s.dropped[string(d.Name)] = d.Generation
	}
	s.next = s.next[1:]
	c.report.Dropped++
	return nil
}

// pullNext begins with the next slice.
func (c *Copy) pullNext() {
	s := &c.slices
	s.pull = newPull(c.from.(SliceSender), c.m.to.(SliceReceiver), s.next[0].SliceSpec)
	s.pull.is, s.pull.pace = c.is, c.m.pace.take
	s.pull.most = max(1, min(bigset.PagesMax, c.m.opt.ChunkBytes/bloomslice.PageBytes))
	c.report.Set, c.report.Filter, c.report.Slot = nil, s.pull.spec.Name, s.next[0].Slot()
}

// pullStep does a part of the current slice. A slice that is damaged or can't be joined is skipped, and the others are copied.
func (c *Copy) pullStep(ctx context.Context) error {
	s := &c.slices
	p, before := s.pull, s.pull.report
	done, err := p.step(ctx)
	c.report.Pages += p.report.Pages - before.Pages
	c.report.Bytes += p.report.Bytes - before.Bytes
	switch {
	case errors.Is(err, errRestart):
		return err
	case errors.Is(err, bigset.ErrNoFilter): // the generation was dropped or replaced
		if s.next[0].damage == nil {
			c.nextSlice()
			return nil
		}
		err = errors.Join(s.next[0].damage, err)
	case err != nil && !left(err), err == nil && !done:
		return err
	}
	if _, err := p.to.FlushSlice(ctx, p.spec); err != nil && !errors.Is(err, bigset.ErrNoFilter) && !errors.Is(err, bigset.ErrSliceAway) {
		return p.wrap(err) // also for a damaged slice: a part of it has arrived
	}
	if err == nil {
		c.report.Slices++
	} else if len(s.left) < slicesLeftMax {
		s.left = append(s.left, fmt.Errorf("%w: %w", handoff.ErrIncomplete, err))
	}
	c.nextSlice()
	return nil
}

// left reports whether an error concerns one slice alone, so that the copy continues without it.
func left(err error) bool {
	return damage(err) || errors.Is(err, bigset.ErrSliceAway) || errors.Is(err, bloomslice.ErrOptions) || errors.Is(err, bigset.ErrRequest)
}

func (c *Copy) nextSlice() {
	c.slices.next, c.slices.pull = c.slices.next[1:], nil
}
