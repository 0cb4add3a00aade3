package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/handoff"
	"bigset/server/peer"
)

const (
	// sumsMax is how many pages are compared at a time: 16 MiB of bits.
	sumsMax = 4096
	// sumBytes is about the size of the sum of a page as sent.
	sumBytes = 12
	// damagedMax is how many damaged pages of a slice an error names.
	damagedMax = 8
)

// pull is a PullSlice in progress. A step is one run of sums, or one portion of pages. Nothing is held open between steps.
type pull struct {
	from SliceSender
	to   SliceReceiver
	spec bigset.SliceSpec
	is   func(peer.Member) error                // whether the answer is from the right member
	pace func(ctx context.Context, n int) error // waits until n bytes may be sent
	most int                                    // pages in a portion

	pullState
	report PullReport
}

// pullState is the state that a restart resets.
type pullState struct {
	after     *bigset.PagePlace  // the last page compared
	all       bool               // all pages were
	due       []bigset.PagePlace // compared, to be fetched
	here      run
	announced bool // the receiver has the slice, with at least these layers
	layers    []bloomslice.Layer
	damaged   []error
}

// run is a part of the receiver's sums. Those before the current page have been removed.
type run struct {
	sums  []bigset.PageSum
	asked bool
	after *bigset.PagePlace // the last page requested
	done  bool              // none follow
}

func newPull(from SliceSender, to SliceReceiver, spec bigset.SliceSpec) *pull {
	return &pull{from: from, to: to, spec: spec, most: bigset.PagesMax, pace: func(ctx context.Context, _ int) error { return ctx.Err() }}
}

func (p *pull) restart() {
	p.pullState = pullState{}
	p.report.Restarts++
}

// step does a part. It may be repeated after an error.
func (p *pull) step(ctx context.Context) (done bool, err error) {
	switch {
	case len(p.due) > 0:
		n := min(len(p.due), p.most)
		if err = p.fetch(ctx, p.due[:n]); err != nil {
			return false, p.wrap(err)
		}
		p.due = p.due[n:]
		return false, nil
	case !p.all:
		return false, p.compare(ctx)
	}
	return true, errors.Join(p.damaged...)
}

// compare compares a run of the sender's pages.
func (p *pull) compare(ctx context.Context) error {
	there, m, err := p.from.PageSums(ctx, p.spec, p.after, sumsMax)
	if err := errors.Join(err, p.is(m)); damage(err) {
		return p.pass(ctx)
	} else if err != nil {
		return p.wrap(err)
	}
	if err := inOrder(p.after, there); err != nil {
		return p.wrap(err)
	}
	n := sumBytes * len(there.Sums)
	if err := p.pace(ctx, n); err != nil {
		return err
	}
	if !p.here.asked { // the answer also shows whether the receiver has the slice
		if err := p.ask(ctx); err != nil {
			return err
		}
	}
	if err := p.announce(ctx, there.Layers); err != nil {
		return err
	}
	due, err := p.lacking(ctx, there.Sums)
	if err != nil {
		return err
	}
	p.due, p.all = due, there.Done
	if len(there.Sums) > 0 {
		p.after = &there.Sums[len(there.Sums)-1].PagePlace
	}
	p.report.Compared += uint64(len(there.Sums))
	p.report.Bytes += uint64(n)
	return nil
}

// pass fetches a portion of pages without sums, whether or not they are stored, because the sum of one of the next pages can't be read.
func (p *pull) pass(ctx context.Context) error {
	there, m, err := p.from.Pages(ctx, p.spec, nil)
	if err := errors.Join(err, p.is(m)); err != nil {
		return p.wrap(err)
	}
	if err := p.announce(ctx, there.Layers); err != nil {
		return err
	}
	p.due = p.next(there.Layers)
	if p.all = len(p.due) == 0; !p.all {
		p.after = &p.due[len(p.due)-1]
	}
	return nil
}

// next returns the places of a portion of pages, in order.
func (p *pull) next(layers []bloomslice.Layer) (places []bigset.PagePlace) {
	for _, l := range layers {
		at := bigset.PagePlace{Layer: l.ID}
		if p.after != nil && p.after.Layer == l.ID {
			at.Page = p.after.Page + 1
		} else if p.after != nil && at.Compare(*p.after) < 0 {
			continue
		}
		for ; uint64(at.Page)*bloomslice.PageBytes < l.Shape.Bytes && len(places) < p.most; at.Page++ {
			places = append(places, at)
		}
	}
	return places
}

// inOrder checks an answer: an answer without progress would be requested forever.
func inOrder(after *bigset.PagePlace, r bigset.PageSums) error {
	order := r.Done || len(r.Sums) > 0
	for i := range r.Sums {
		place := &r.Sums[i].PagePlace
		order = order && (after == nil || after.Compare(*place) < 0)
		after = place
	}
	if !order || len(r.Sums) > sumsMax {
		return fmt.Errorf("%w: %d sums of pages", handoff.ErrOrder, len(r.Sums))
	}
	return nil
}

// lacking returns the sender's pages that differ here. The receiver's sums may be older than its pages: then more pages are fetched than
// necessary.
func (p *pull) lacking(ctx context.Context, there []bigset.PageSum) (due []bigset.PagePlace, err error) {
	for i := range there {
		here, err := p.sumHere(ctx, &there[i].PagePlace)
		if err != nil {
			return nil, err
		}
		if here == nil || here.Sum != there[i].Sum {
			due = append(due, there[i].PagePlace)
		}
	}
	return due, nil
}

// sumHere returns the receiver's sum of a page, or nil if it does not have the page. Pages must be requested in order.
func (p *pull) sumHere(ctx context.Context, place *bigset.PagePlace) (*bigset.PageSum, error) {
	for h := &p.here; ; {
		for len(h.sums) > 0 && h.sums[0].Compare(*place) < 0 {
			h.sums = h.sums[1:]
		}
		switch {
		case len(h.sums) > 0 && h.sums[0].PagePlace == *place:
			return &h.sums[0], nil
		case len(h.sums) > 0 || h.done:
			return nil, nil
		}
		if err := p.ask(ctx); err != nil {
			return nil, err
		}
	}
}

// ask requests the next of the receiver's sums.
func (p *pull) ask(ctx context.Context) error {
	h := &p.here
	r, _, err := p.to.PageSums(ctx, p.spec, h.after, sumsMax)
	if errors.Is(err, bigset.ErrNoFilter) || damage(err) {
		// announce creates the slice, or returns why it can't. A damaged slice is treated as if every page differed: what can be joined is
		// joined, the rest is reported.
		h.asked, h.done, h.sums = true, true, nil
		return nil
	}
	if err == nil {
		err = inOrder(h.after, r)
	}
	if err != nil {
		return p.wrap(err)
	}
	h.asked, h.done, h.sums = true, r.Done, r.Sums
	if len(r.Sums) > 0 {
		h.after = &r.Sums[len(r.Sums)-1].PagePlace
	}
	p.announced, p.layers = true, r.Layers
	return nil
}

// announce joins the sender's layers into the receiver, unless it has them. A layer may then count more keys than its bits show, which does no
// harm.
func (p *pull) announce(ctx context.Context, layers []bloomslice.Layer) error {
	if p.announced && covers(p.layers, layers) {
		return nil
	}
	if _, err := p.to.MergePages(ctx, bigset.SlicePages{SliceSpec: p.spec, Layers: layers}); err != nil {
		return p.wrap(err)
	}
	p.announced, p.layers = true, layers
	return nil
}

// covers reports whether a replica has layers, with at least as many keys each.
func covers(has, layers []bloomslice.Layer) bool {
	for _, l := range layers {
		if !slices.ContainsFunc(has, func(h bloomslice.Layer) bool { return h.ID == l.ID && h.Shape == l.Shape && h.Count >= l.Count }) {
			return false
		}
	}
	return true
}

// fetch fetches pages. If some are damaged, it fetches the others.
func (p *pull) fetch(ctx context.Context, places []bigset.PagePlace) error {
	err := p.bring(ctx, places)
	switch {
	case err == nil || !damage(err):
		return err
	case len(places) > 1:
		half := len(places) / 2
		if err := p.fetch(ctx, places[:half]); err != nil {
			return err
		}
		return p.fetch(ctx, places[half:])
	}
	if at := &places[0]; len(p.damaged) < damagedMax {
		p.damaged = append(p.damaged, p.wrap(fmt.Errorf("page %d of %v: %w", at.Page, at.Layer, err)))
	}
	return nil
}

// damage reports whether an error says that bytes on a disk are not those that were written.
func damage(err error) bool {
	return errors.Is(err, bigset.ErrCorrupt) || errors.Is(err, bloomslice.ErrCorruptPage)
}

func (p *pull) bring(ctx context.Context, places []bigset.PagePlace) error {
	got, m, err := p.from.Pages(ctx, p.spec, places)
	if err = errors.Join(err, p.is(m)); err == nil {
		err = p.asked(got, places)
	}
	if err != nil {
		return err
	}
	n := 0
	for i := range got.Pages {
		n += len(got.Pages[i].Value)
	}
	if err := p.pace(ctx, n); err != nil {
		return err
	}
	if _, err := p.to.MergePages(ctx, got); err != nil {
		return err
	}
	if covers(got.Layers, p.layers) {
		p.layers = got.Layers
	}
	p.report.Pages += uint64(len(got.Pages))
	p.report.Bytes += uint64(n)
	return nil
}

// asked checks that an answer contains only requested pages of the slice.
func (p *pull) asked(got bigset.SlicePages, places []bigset.PagePlace) error {
	same := bytes.Equal(got.Name, p.spec.Name) && got.Slice == p.spec.Slice && got.Generation == p.spec.Generation && got.Options == p.spec.Options
	for i := range got.Pages {
		at := slices.Index(places, got.Pages[i].PagePlace)
		same = same && at >= 0
		places = places[at+1:]
	}
	if !same {
		return fmt.Errorf("%w: pages that were not requested", handoff.ErrOrder)
	}
	return nil
}

func (p *pull) wrap(err error) error {
	return fmt.Errorf("transfer: slice %d of filter %.64q: %w", p.spec.Slice, p.spec.Name, err)
}
