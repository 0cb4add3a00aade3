package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bigset/handoff"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// fill copies into this member what it may lack. It copies each range from enough owners that every write acknowledged before this member
// joined was at one of them. The owners have adopted the epoch before, so no such write is still on its way.
func (m *Member) fill(_ context.Context, v View) error {
	l := m.live.Load()
	if l == nil || l.epoch != v.Epoch() {
		return errors.New("cluster: the epoch has changed")
	}
	if listed, _ := m.filters.list.state(); !listed { // dropped filters must not come back, and filters made without a cluster must be adopted before they are copied
		return errors.New("cluster: it is not known yet which filters exist")
	}
	e := v.Record.Members[v.Self]
	mover, err := transfer.New(m.local, transfer.Options{Ahead: m.conf.Runner == nil, ChunkBytes: m.conf.CopyChunkBytes, Now: m.run.Now,
		BytesPerSecond: m.conf.CopyBytesPerSecond, Epoch: max(e.Sets, e.Filters),
		Report: func(r transfer.Report) { m.copied.Store(&r) }})
	if err != nil {
		return err
	}
	defer m.copied.Store(nil)
	for _, r := range l.runs() {
		if err := m.fillRun(l, mover, r, !v.Sets); err != nil {
			return fmt.Errorf("slots %08x to %08x: %w", uint32(r.first), uint32(r.last), err)
		}
	}
	return nil
}

// fillRun fills one range.
func (m *Member) fillRun(l *live, mover *transfer.Mover, r run, sets bool) error {
	sources, needed := r.owners, len(r.owners)-min(l.view.Record.Settings.W, len(r.owners))+1
	if l.origin >= 0 {
		sources, needed = []int{l.origin}, 1
	}
	var errs []error
	var got []int
	for _, i := range l.ordered(sources) {
		if i == l.self || len(got) == needed {
			continue
		}
		if _, err := mover.Copy(m.life, l.replicas[i], handoff.Range{First: r.first, Last: r.last}); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.conf.Peers[i].ID, err))
			continue
		}
		got = append(got, i)
	}
	if len(got) >= needed {
		return nil
	}
	err := fmt.Errorf("copied from %d of %d members that it takes: %w", len(got), needed, errors.Join(errs...))
	if l.origin >= 0 || !slices.ContainsFunc(errs, func(err error) bool { return !passes(err) }) {
		return err // a later try may succeed, and uniting does not copy the request ids that the others keep
	}
	return m.unite(l, r, sets, got, err)
}

// passes reports whether an error of a copy says only that the sender could not be reached, not that it has lost anything.
func passes(err error) bool {
	return unreachable(err) || errors.Is(err, peer.ErrUnavailable) && !errors.Is(err, peer.ErrJoining)
}

// unite exchanges a range with all its other owners. It runs if too many owners may have lost acknowledged writes in one crash of all, so
// that too few of them may be sources for the others. Then the owners together have all that is left. got are the owners that were sources.
func (m *Member) unite(l *live, r run, sets bool, got []int, cause error) error {
	var names []string
	for _, i := range r.owners {
		if i == l.self {
			continue
		}
		e := l.view.Record.Members[i]
		// This is a new disk that has not been filled: the old contents are gone, and a power cut does not explain that. If the cluster was
		// restored with that disk, the loss is accepted.
		if !slices.Contains(got, i) && e.Disk > 0 && e.Disk == max(e.Sets, e.Filters) && e.Disk != l.view.Record.Restored {
			return cause
		}
		if sets {
			if _, err := coord.Exchange(m.life, l.replicas[l.self], l.replicas[i], r.first, r.last); err != nil {
				return fmt.Errorf("%w; and %s can't unite with it: %w", cause, e.ID, err)
			}
		}
		if _, err := coord.ExchangeSlices(m.life, l.replicas[l.self], l.replicas[i], r.first, r.last); err != nil {
			return fmt.Errorf("%w; and %s can't unite with it: %w", cause, e.ID, err)
		}
		names = append(names, e.ID)
	}
	if err := m.conf.Filters.FlushAll(m.life); err != nil { // the exchange has brought marks that are only in memory, and this member is about to serve reads
		return err
	}
	m.conf.Log.Warn("cluster: all owners of a range may have lost what they acknowledged: what they have was united, and what was acknowledged last may be missing",
		"first", fmt.Sprintf("%08x", uint32(r.first)), "last", fmt.Sprintf("%08x", uint32(r.last)), "members", strings.Join(names, ","))
	return nil
}
