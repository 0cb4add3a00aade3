package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/transfer"
)

// errUnlisted is the error of a fill while it is not known yet which filters exist.
var errUnlisted = errors.New("cluster: it is not known yet which filters exist")

// lostError is the error of a fill that can't succeed: disks are lost that together may have been the only ones with acknowledged data.
type lostError struct {
	nodes []string // whose disks are new
	err   error
}

func (e *lostError) Error() string {
	return fmt.Sprintf("more disks are lost than the cluster survives by itself: %s joined with new ones. Stop all nodes, run `bigset cluster restore` on those that have data, and start all again", strings.Join(e.nodes, " and "))
}

func (e *lostError) Unwrap() error { return e.err }

// fill copies into this member what it may lack. It copies each range from enough owners that every write acknowledged before this member
// joined was at one of them. The owners have adopted the epoch before, so no such write is still on its way.
func (m *Member) fill(_ context.Context, v View) error {
	l := m.live.Load()
	if l == nil || l.epoch != v.Epoch() {
		return errors.New("cluster: the epoch has changed")
	}
	if listed, _ := m.filters.list.state(); !listed { // dropped filters must not come back, and filters made without a cluster must be adopted before they are copied
		return errUnlisted
	}
	e := v.Record.Members[v.Self]
	f := filling{show: &m.copied, now: map[keyscheme.Slot]transfer.Report{}, slow: map[int]int{}}
	mover, err := transfer.New(m.local, transfer.Options{Ahead: m.conf.Runner == nil, ChunkBytes: m.conf.CopyChunkBytes, Now: m.run.Now,
		BytesPerSecond: m.conf.CopyBytesPerSecond, Epoch: max(e.Sets, e.Filters), Report: f.report})
	if err != nil {
		return err
	}
	defer m.copied.Store(nil)
	runs := l.runs()
	if l.origin == l.self { // it answers for all ranges
		runs = l.ranges()
	}
	for _, r := range runs {
		others, needed := l.sources(r)
		f.all += float64(min(needed, len(others))) * slotsIn(handoff.Range{First: r.first, Last: r.last})
	}
	for _, r := range runs {
		if err := m.fillHalves(l, mover, &f, r, !v.Sets); err != nil {
			return err
		}
	}
	return nil
}

// fillHalves fills a range. With a bound on copies its halves are copied at once, so that one is written while the other waits for the disk,
// and the bound is reached. They begin with different sources, if there are several. Without a bound two copies would take the disk and the
// processors from clients, so the range is copied as a whole.
func (m *Member) fillHalves(l *live, mover *transfer.Mover, f *filling, r run, sets bool) error {
	halves := r.halves()
	if m.conf.CopyBytesPerSecond == 0 || m.conf.Runner != nil { // a runner lets only one goroutine run
		halves = []run{r}
	}
	errs := make([]error, len(halves))
	var copies sync.WaitGroup
	for i, half := range halves {
		copies.Go(func() {
			if err := m.fillRun(l, mover, f, half, i > 0, sets); err != nil {
				errs[i] = fmt.Errorf("slots %08x to %08x: %w", uint32(half.first), uint32(half.last), err)
			}
		})
	}
	copies.Wait()
	return errors.Join(errs...)
}

// halves divides a range; one slot is not divided.
func (r run) halves() []run {
	if r.first == r.last {
		return []run{r}
	}
	lower, upper := r, r
	lower.last = r.first + (r.last-r.first)/2
	upper.first = lower.last + 1
	return []run{lower, upper}
}

// sources returns the other members that a range may be copied from, and from how many of them it is copied. If these are more than exist, what
// this member has acknowledged may be at no other one: W is 1, or the others have yet to copy what it had at birth.
func (l *live) sources(r run) (others []int, needed int) {
	if l.origin >= 0 && l.origin != l.self {
		return []int{l.origin}, 1
	}
	others = slices.DeleteFunc(slices.Clone(r.owners), func(i int) bool { return i == l.self })
	if l.origin == l.self {
		return others, len(others) + 1
	}
	return others, len(r.owners) - min(l.view.Record.Settings.W, len(r.owners)) + 1
}

// Copied is how far a member has come that copies what it may lack.
type Copied struct {
	Bytes uint64 `json:"bytes"` // received since the member began or began again
	// Portion is between 0 and 1: of the slots that are copied. Sets are the first half of a range, filters the second half.
	Portion float64 `json:"portion"`
}

// filling is how far a fill has come. The goroutines of its copies use it.
type filling struct {
	all  float64 // slots that are copied, from each source
	show *atomic.Pointer[Copied]

	mu    sync.Mutex
	done  float64                            // slots of the copies that have ended
	bytes uint64                             // of the copies that have ended
	now   map[keyscheme.Slot]transfer.Report // the current copies, by their first slots
	slow  map[int]int                        // how many copies a member did not answer in time
}

// failed remembers a source that did not answer a copy in time.
func (f *filling) failed(source int, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slow[source]++
	}
}

// order moves sources that did not answer in time to the end: each would delay each range.
func (f *filling) order(sources []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(sources, func(a, b int) int { return cmp.Compare(f.slow[a], f.slow[b]) })
}

// report shows a step of a copy.
func (f *filling) report(r transfer.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[r.Slots.First] = r
	c, done := Copied{Bytes: f.bytes}, f.done
	for first, r := range f.now {
		c.Bytes += r.Bytes
		done += float64(max(r.Slot, first)-first) / 2 // the first steps have no slot
		if r.Filter != nil {
			done += slotsIn(r.Slots) / 2
		}
	}
	c.Portion = done / f.all
	f.show.Store(&c)
}

// copied counts a copy that has ended.
func (f *filling) copied(slots handoff.Range, r transfer.Report, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.now, slots.First)
	f.bytes += r.Bytes
	if whole {
		f.done += slotsIn(slots)
	}
}

// slotsIn returns the number of slots in a range.
func slotsIn(r handoff.Range) float64 { return float64(r.Last-r.First) + 1 }

// fillRun fills a half of a range.
func (m *Member) fillRun(l *live, mover *transfer.Mover, f *filling, r run, upper, sets bool) error {
	sources, needed := l.sources(r)
	sources = l.ordered(sources)
	if upper { // the lower half begins with the nearest one
		slices.Reverse(sources[:min(needed, len(sources))])
	}
	f.order(sources)
	slots := handoff.Range{First: r.first, Last: r.last}
	var errs []error
	var got []int
	for _, i := range sources {
		if len(got) == needed {
			break
		}
		report, err := mover.Copy(m.life, m.patiently(l, i), slots)
		f.copied(slots, report, err == nil)
		if err != nil {
			f.failed(i, err)
			errs = append(errs, fmt.Errorf("%s: %w", m.conf.Peers[i].ID, err))
			continue
		}
		got = append(got, i)
	}
	if len(got) >= needed {
		return nil
	}
	err := fmt.Errorf("copied from %d of %d members that it takes", len(got), needed)
	if len(errs) > 0 {
		err = fmt.Errorf("%w: %w", err, errors.Join(errs...))
	}
	alone := needed > len(sources)
	switch {
	case alone && l.view.Record.lost(l.self):
		return l.view.Record.lostWith(l.self, l.self, err)
	case !alone && l.origin >= 0, len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !passes(err) }):
		return err // a later try may succeed, and uniting does not copy the request ids that the others keep
	}
	return m.unite(l, r, sets, got, err)
}

// patiently returns the replica of another member with a limit to the time for an answer.
func (m *Member) patiently(l *live, i int) *patient {
	return &patient{l.replicas[i], m.run, cmp.Or(m.conf.Patience, patience)}
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
		if !slices.Contains(got, i) && l.view.Record.lost(i) {
			if !errors.Is(cause, peer.ErrJoining) {
				return cause
			}
			return l.view.Record.lostWith(i, l.self, cause)
		}
		if sets {
			if _, err := coord.Exchange(m.life, l.replicas[l.self], m.patiently(l, i), r.first, r.last); err != nil {
				return fmt.Errorf("%w; and %s can't unite with it: %w", cause, e.ID, err)
			}
		}
		if _, err := coord.ExchangeSlices(m.life, l.replicas[l.self], m.patiently(l, i), r.first, r.last); err != nil {
			return fmt.Errorf("%w; and %s can't unite with it: %w", cause, e.ID, err)
		}
		names = append(names, e.ID)
	}
	if err := m.conf.Filters.FlushAll(m.life); err != nil { // the exchange has brought marks that are only in memory, and this member is about to serve reads
		return err
	}
	what := "cluster: all owners of a range may have lost what they acknowledged: what they have was united, and what was acknowledged last may be missing"
	if _, needed := l.sources(r); needed > len(names) { // no other member needs to have it
		what = "cluster: this member may have lost what it acknowledged: it has taken what the other owners of a range have, and what was acknowledged last may be missing"
	}
	m.conf.Log.Warn(what,
		"first", fmt.Sprintf("%08x", uint32(r.first)), "last", fmt.Sprintf("%08x", uint32(r.last)), "members", strings.Join(names, ","))
	return nil
}
