package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/wire"
)

// Verbs about filters. They are on the wire. Bodies are JSON.
const (
	verbEntries wire.Verb = 244 // a name: the entries after it
	verbReady   wire.Verb = 245 // whether a change may be decided
	verbDecide  wire.Verb = 246 // a decision for the first member to make
	verbChanged wire.Verb = 247 // an entry decided by the first member
	verbOrder   wire.Verb = 248 // an order
	verbFigures wire.Verb = 249 // names of filters; answered by what is known about them
)

// Decides reports whether a verb asks the first member for a change. Simulations send one at a time.
func Decides(v wire.Verb) bool { return v == verbDecide }

// aboutFilters reports whether a verb is about filters.
func aboutFilters(v wire.Verb) bool { return v >= verbEntries && v <= verbFigures }

// Decisions and orders. They are on the wire.
const (
	doCreate = "create"
	doDrop   = "drop"
	doClear  = "clear"
	doClose  = "close"
	doFlush  = "flush"
)

// decision asks the first member to create, drop or clear a filter.
type decision struct {
	Do    string       `json:"do"`
	Entry *FilterEntry `json:"entry"` // for create, its generation has no effect
}

// decided is the outcome of a decision.
type decided struct {
	Created bool         `json:"created"`
	Entry   *FilterEntry `json:"entry,omitempty"` // that all members have on disk; former versions do not send it
}

// order asks all members to close or flush a filter, or to flush all filters.
type order struct {
	Do   string `json:"do"`
	Name Hex    `json:"name,omitempty"`
}

// decree is a decision of the first member.
type decree struct {
	Generation uint64      `json:"generation"` // of the cluster, with the epoch of its restore: a decree of another generation decides nothing
	Restored   uint64      `json:"restored"`
	Entry      FilterEntry `json:"entry"`
}

// readiness is a member's answer before a change is decided.
type readiness struct {
	Listed     bool   `json:"listed"`     // it has everything acknowledged
	Sum        uint64 `json:"sum,string"` // of its catalogue
	Generation uint64 `json:"generation"` // the largest one in its store or its catalogue
	Open       bool   `json:"open"`       // the filter in question is in memory
}

// question asks what is known about filters.
type question struct {
	Names []Hex    `json:"names"`
	Asked []string `json:"asked"` // members that are asked: the first of them that holds a slice reports its figures
	// Exact asks each member about every slice that it holds: a member that lags has no effect then.
	Exact bool `json:"exact"`
}

// filterFigures is what a member knows about a filter.
type filterFigures struct {
	door.FilterInfo                // of its slices, and of its clients' requests
	Slices          []sliceFigures `json:"slices,omitempty"` // for an exact question
}

// sliceFigures are the figures of one slice.
type sliceFigures struct {
	Slice uint32 `json:"slice"`
	bloomslice.Figures
}

// first returns the ID of the member that decides.
func (f *Filters) first() string { return f.m.conf.Peers[0].ID }

// decide asks the first member to decide on a change.
func (f *Filters) decide(ctx context.Context, d decision) (r decided, err error) {
	ctx, cancel := coord.Deadline(ctx, f.m.run, orderTime)
	defer cancel()
	first := f.first()
	if first == f.m.conf.Node {
		return f.decideHere(ctx, d)
	}
	if !f.m.reached(ctx, f.m.links[first]) {
		return r, f.takesAll(d.Do, first)
	}
	if err = ask(ctx, f.m.links[first], verbDecide, d, &r); err == nil && r.Entry != nil {
		f.list.heard(r.Entry)
	}
	return r, f.undecided(d.Do, first, err)
}

// undecided returns what the error of the first member, or of the way to it, says about a change.
func (f *Filters) undecided(do, first string, err error) error {
	switch {
	case err == nil, errors.Is(err, door.ErrUnavailable) && !errors.Is(err, door.ErrUnknown): // nothing was decided, whatever else the error says
		return err
	case errors.Is(err, wire.ErrBusy):
		return fmt.Errorf("%w: node %s: %w", door.ErrUnavailable, first, err)
	case errors.Is(err, wire.ErrNotSent):
		return f.takesAll(do, first)
	case errors.Is(err, wire.ErrLost), errors.Is(err, context.DeadlineExceeded):
		return &door.UnknownError{Err: fmt.Errorf("node %s: %w", first, err)}
	}
	return err
}

// takesAll is the error of a change while members are away.
func (f *Filters) takesAll(do string, away ...string) error {
	if len(away) == 0 {
		return fmt.Errorf("%w: to %s a filter takes all members", door.ErrMembersAway, do)
	}
	return fmt.Errorf("%w: to %s a filter takes all members: %s can't be reached", door.ErrMembersAway, do, strings.Join(away, ", "))
}

// decideHere decides on a change. It runs on the first member, one decision at a time.
func (f *Filters) decideHere(ctx context.Context, d decision) (r decided, err error) {
	if d.Entry == nil {
		return r, fmt.Errorf("%w: a decision without a filter", ErrRecord)
	}
	if err := d.Entry.check(); err != nil {
		return r, err
	}
	end, err := f.begin(ctx)
	if err != nil {
		return r, err
	}
	defer end()
	all, differ, err := f.ready(ctx, d)
	if err != nil {
		return r, err
	}
	was := f.list.get(d.Entry.Name)
	next, refused := f.next(&d, was, all)
	if next == nil {
		if was == nil {
			return r, refused
		}
		// All members must know what the answer says. They do if nothing was learned since they were asked.
		if _, sum := f.list.state(); !differ && sum == all.Sum {
			f.list.heard(was)
		} else if err := f.announce(ctx, was); err != nil {
			return r, err
		}
		return decided{Entry: was}, refused
	}
	if err := next.check(); err != nil {
		return r, err
	}
	if err := f.take(ctx, []FilterEntry{*next}); err != nil {
		return r, &door.UnknownError{Err: err}
	}
	if err := f.announce(ctx, next); err != nil {
		return r, err
	}
	return decided{d.Do == doCreate, next}, nil
}

// begin waits until no other decision is in progress, or ctx has ended: nothing has happened then. The caller calls end after its decision.
func (f *Filters) begin(ctx context.Context) (end func(), err error) {
	select {
	case f.deciding <- struct{}{}:
		if ctx.Err() == nil {
			return func() { <-f.deciding }, nil
		}
		<-f.deciding
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("%w: node %s decides on other changes of filters, which take long: try again", door.ErrUnavailable, f.m.conf.Node)
}

// announce sends a decision to all other members.
func (f *Filters) announce(ctx context.Context, e *FilterEntry) error {
	r := f.m.View().Record
	if _, errs := toAll[struct{}](ctx, f.m, nil, verbChanged, decree{r.Generation, r.Restored, *e}); len(errs) > 0 {
		return &door.UnknownError{Err: joined(errs)}
	}
	f.list.heard(e)
	return nil
}

// serves returns an error unless this member serves.
func (f *Filters) serves() error {
	if v := f.m.View(); !v.Serves {
		return fmt.Errorf("%w: node %s waits for %s", door.ErrUnavailable, f.m.conf.Node, f.m.membership.Waits())
	}
	return nil
}

// next returns the entry that follows from a decision; nil means no change.
func (f *Filters) next(d *decision, was *FilterEntry, all readiness) (*FilterEntry, error) {
	e := *d.Entry
	switch {
	case d.Do == doCreate && was != nil && was.State == FilterActive:
		return nil, nil
	case d.Do == doCreate && was != nil && was.State == FilterCleared: // it comes back with all its contents
		e = *was
		e.Change, e.State = was.Change+1, FilterActive
	case d.Do == doCreate:
		e.Generation, e.Change, e.State = bigset.NextGeneration(all.Generation, f.m.run.Now()), 0, FilterActive
	case d.Do != doDrop && d.Do != doClear:
		return nil, fmt.Errorf("%w: no decision %q", ErrRecord, d.Do)
	case was == nil || was.State != FilterActive || was.Generation != e.Generation:
		return nil, bigset.ErrNoFilter
	case d.Do == doClear && all.Open:
		return nil, bigset.ErrFilterOpen
	default:
		e = *was
		e.Change, e.State = was.Change+1, FilterDropped
		if d.Do == doClear {
			e.State = FilterCleared
		}
	}
	return &e, nil
}

// ready asks all members whether a change may be decided, and learns what they know: so a first member that has lost its disk learns it
// from the others. differ reports that not all members know the same filters.
func (f *Filters) ready(ctx context.Context, d decision) (all readiness, differ bool, err error) {
	name := d.Entry.Name
	if d.Do != doClear {
		name = nil
	}
	if all, err = f.readiness(name); err != nil {
		return all, false, err
	}
	if err := f.unlisted(); err != nil {
		return all, false, err
	}
	own := all.Sum
	answers, errs := toAll[readiness](ctx, f.m, nil, verbReady, name)
	if len(errs) > 0 {
		return all, false, f.unready(d.Do, errs)
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		a := answers[id]
		switch {
		case !a.Listed:
			return all, false, fmt.Errorf("%w: node %s does not know yet which filters exist", door.ErrUnavailable, id)
		case a.Sum != own:
			differ = true
			if err := f.learn(ctx, id); err != nil {
				return all, false, fmt.Errorf("%w: %w", door.ErrUnavailable, err)
			}
		}
		all.Generation, all.Open = max(all.Generation, a.Generation), all.Open || a.Open
	}
	all.Generation = max(all.Generation, f.list.lastGeneration())
	return all, differ, nil
}

// unready returns why a change is not decided, from the errors of the members that are not ready. A member that is busy is not away: asked a
// moment later, it may have room.
func (f *Filters) unready(do string, errs map[string]error) error {
	var away []string
	busy := 0
	for id, err := range errs {
		switch {
		case errors.Is(err, wire.ErrBusy):
			busy++
		case unreachable(err):
			away = append(away, id)
		}
	}
	if busy == len(errs) {
		return fmt.Errorf("%w: %w", door.ErrUnavailable, joined(errs))
	}
	slices.Sort(away)
	return fmt.Errorf("%w: %w", f.takesAll(do, away...), joined(errs))
}

// readiness is this member's answer before a change. With a name, it says whether that filter is in memory. A member whose store takes no
// writes counts as away: the change could not be on its disk.
func (f *Filters) readiness(name []byte) (r readiness, err error) {
	if err := f.serves(); err != nil {
		return r, err
	}
	if err := f.m.disk.Failed(); err != nil {
		return r, fmt.Errorf("%w: node %s waits for %s", door.ErrMembersAway, f.m.conf.Node, restart(err))
	}
	r.Listed, r.Sum = f.list.state()
	r.Generation = max(f.local.LastGeneration(), f.list.lastGeneration())
	if len(name) > 0 {
		var have door.FilterInfo
		have, err = f.local.Figures(name, func(uint32) bool { return true })
		x, _ := f.find(name)
		r.Open = have.InMemory || x != nil && x.open.Load()
	}
	return r, err
}

// take merges entries. When it returns, they are on disk and have taken effect here.
func (f *Filters) take(ctx context.Context, entries []FilterEntry) error {
	f.taking.Lock() // a caller with nothing new waits until earlier entries have taken effect
	defer f.taking.Unlock()
	if _, err := f.list.merge(ctx, entries); err != nil {
		return err
	}
	var errs []error
	for i := range entries {
		held := f.list.get(entries[i].Name)
		f.serve(held, true)
		if held.State == FilterDropped { // again, in case it failed before; a second drop changes nothing
			errs = append(errs, f.drop(ctx, held))
		}
	}
	return errors.Join(errs...)
}

// drop drops a filter in this member's store.
func (f *Filters) drop(ctx context.Context, e *FilterEntry) error {
	_, err := f.m.local.DropGeneration(context.WithoutCancel(ctx), e.Name, e.Slices, e.Generation)
	return err
}

// toAll asks the other members in parallel: those in ids, or all if ids is nil.
func toAll[A any](ctx context.Context, m *Member, ids []string, v wire.Verb, request any) (answers map[string]A, errs map[string]error) {
	var mu sync.Mutex
	all := tasks{run: m.run}
	answers, errs = map[string]A{}, map[string]error{}
	for _, p := range m.conf.Peers {
		id, link := p.ID, m.links[p.ID]
		if link == nil || ids != nil && !slices.Contains(ids, id) {
			continue
		}
		all.Go(func() {
			var a A
			var err error
			if m.reached(ctx, link) { // otherwise dialing could take seconds
				err = ask(ctx, m.stats.caller(id, link), v, request, &a)
			} else {
				err = unconnected(link)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[id] = fmt.Errorf("node %s: %w", id, err)
				return
			}
			answers[id] = a
		})
	}
	all.Wait()
	return answers, errs
}

// unconnected returns why a request to a member was not sent.
func unconnected(link Way) error {
	switch _, err := link.Remote(); {
	case err == nil:
		return fmt.Errorf("%w: not connected", wire.ErrNotSent)
	case errors.Is(err, wire.ErrNotSent):
		return err
	default:
		return fmt.Errorf("%w: %w", wire.ErrNotSent, err)
	}
}

// reachTime is how long to wait for a member that is not connected.
const reachTime = 200 * time.Millisecond

// reached waits a short time until a member is connected, and reports whether it is.
func (m *Member) reached(ctx context.Context, link Way) bool {
	link.Wake()
	for end := m.run.Now().Add(reachTime); !link.Up(); pause(m.run, 2*time.Millisecond) {
		if ctx.Err() != nil || m.run.Now().After(end) {
			return false
		}
	}
	return true
}

func joined(errs map[string]error) error {
	var all []error
	for _, id := range slices.Sorted(maps.Keys(errs)) {
		all = append(all, errs[id])
	}
	return errors.Join(all...)
}

// unreachable reports whether an error says that a member was not reached.
func unreachable(err error) bool {
	return errors.Is(err, wire.ErrNotSent) || errors.Is(err, wire.ErrLost) || errors.Is(err, context.DeadlineExceeded)
}

// unwritable reports whether an error says that a member's store takes no writes: it has failed, or its disk is full.
func unwritable(err error) bool {
	return errors.Is(err, bigset.ErrFailed) || errors.Is(err, bigset.ErrDiskFull)
}

// everywhere sends an order to all members and follows it here. away has the errors of the members that could not carry it out: those that
// can't be reached, and those whose store takes no writes. If these are all members, or another one fails, everywhere returns an error.
func (f *Filters) everywhere(ctx context.Context, o order) (away map[string]error, err error) {
	ctx, cancel := coord.Deadline(ctx, f.m.run, orderTime)
	defer cancel()
	here := tasks{run: f.m.run}
	here.Go(func() { err = f.follow(ctx, o) })
	_, errs := toAll[struct{}](ctx, f.m, nil, verbOrder, o)
	here.Wait()
	away = map[string]error{}
	if unwritable(err) {
		id := f.m.conf.Node
		away[id], err = fmt.Errorf("node %s: %w", id, err), nil
	}
	for id, e := range errs {
		if unreachable(e) || unwritable(e) {
			away[id] = e
			continue
		}
		err = errors.Join(err, e)
	}
	if err == nil && len(away) == len(f.m.conf.Peers) {
		err = fmt.Errorf("%w: no member can do it: %v", door.ErrUnavailable, joined(away))
	}
	return away, err
}

// follow carries out an order on this member.
func (f *Filters) follow(ctx context.Context, o order) error {
	switch {
	case o.Do == doClose && len(o.Name) > 0:
		if x, err := f.find(o.Name); err == nil {
			if x.open.Swap(false) {
				x.pageOuts.Add(1)
			}
		}
		return f.local.Close(ctx, o.Name)
	case o.Do == doFlush && len(o.Name) > 0:
		return f.local.Flush(ctx, o.Name)
	case o.Do == doFlush:
		return f.local.FlushAll(ctx)
	}
	return fmt.Errorf("%w: no order %q", ErrRecord, o.Do)
}

// askFigures asks members what they know about filters. Each answer contains all filters, in the order of the names.
func (f *Filters) askFigures(ctx context.Context, names []Hex, absolute bool) ([][]filterFigures, error) {
	ctx, cancel := coord.Deadline(ctx, f.m.run, orderTime)
	defer cancel()
	for {
		q := question{Names: names, Asked: []string{f.m.conf.Node}, Exact: absolute}
		for _, p := range f.m.conf.Peers {
			if link := f.m.links[p.ID]; link != nil && link.Up() {
				q.Asked = append(q.Asked, p.ID)
			}
		}
		if absolute && len(q.Asked) < len(f.m.conf.Peers) {
			return nil, fmt.Errorf("%w: exact figures take all members, and only %s can be reached", door.ErrMembersAway, strings.Join(q.Asked, ", "))
		}
		here, err := f.answer(q)
		if err != nil {
			return nil, err
		}
		answers, errs := toAll[[]filterFigures](ctx, f.m, q.Asked, verbFigures, q)
		all, again := [][]filterFigures{here}, false
		for _, id := range q.Asked[1:] {
			a, ok := answers[id]
			switch {
			case ok && len(a) == len(names):
				all = append(all, a)
			case ok:
				return nil, fmt.Errorf("%w: node %s answers for %d filters, asked for %d", ErrRecord, id, len(a), len(names))
			case !unreachable(errs[id]) || ctx.Err() != nil || absolute:
				return nil, errs[id]
			default:
				again = true // without this member, another one reports its slices
			}
		}
		if !again {
			return all, nil
		}
		pause(f.m.run, 10*time.Millisecond) // until its link is known to be down
	}
}

// answer answers a question with the figures of the slices that this member has to report and of its clients' requests.
func (f *Filters) answer(q question) ([]filterFigures, error) {
	all := make([]filterFigures, len(q.Names))
	for i, name := range q.Names {
		have, err := f.figures(name, q.Asked)
		if err == nil && q.Exact {
			all[i].Slices, err = f.slices(name)
		}
		if err != nil {
			return nil, err
		}
		all[i].FilterInfo = door.FilterInfo{Figures: have.Figures, InMemory: have.InMemory}
		if x, err := f.find(name); err == nil {
			all[i].InMemory = have.InMemory || x.open.Load()
			all[i].PageIns, all[i].PageOuts = x.pageIns.Load(), x.pageOuts.Load()
			all[i].CheckHits, all[i].CheckMisses = x.checkHits.Load(), x.checkMisses.Load()
			all[i].SetHits, all[i].SetMisses = x.setHits.Load(), x.setMisses.Load()
		}
	}
	return all, nil
}

// entriesBytes is how much of the catalogue one answer contains. Over a link of 0.5 Mbit/s it arrives well before roundTime has passed.
const entriesBytes = 64 << 10

// control answers another member.
func (f *Filters) control(ctx context.Context, r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || f.m.membership.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is not a member", ErrForeign, r.From.Role, r.From.Name)
	}
	switch r.Verb {
	case verbEntries:
		return answered(r.Body, func(after Hex) ([]FilterEntry, error) { return f.list.after(after, entriesBytes), nil })
	case verbReady:
		return answered(r.Body, func(name Hex) (readiness, error) { return f.readiness(name) })
	case verbDecide:
		if f.first() != f.m.conf.Node {
			return nil, fmt.Errorf("%w: node %s is asked to decide, and the first member is %s", ErrForeign, f.m.conf.Node, f.first())
		}
		return answered(r.Body, func(d decision) (decided, error) { return f.decideHere(ctx, d) })
	case verbChanged:
		if r.From.Name != f.first() {
			return nil, fmt.Errorf("%w: %q decides, and the first member is %s", ErrForeign, r.From.Name, f.first())
		}
		return answered(r.Body, func(c decree) (struct{}, error) {
			if err := errors.Join(c.Entry.check(), f.serves()); err != nil {
				return struct{}{}, err
			}
			if own := f.m.View().Record; c.Generation != own.Generation || c.Restored != own.Restored {
				return struct{}{}, fmt.Errorf("%w: a filter of generation %d of the cluster, and this is generation %d", ErrForeign, c.Generation, own.Generation)
			}
			return struct{}{}, f.take(ctx, []FilterEntry{c.Entry})
		})
	case verbOrder:
		return answered(r.Body, func(o order) (struct{}, error) { return struct{}{}, f.follow(ctx, o) })
	case verbFigures:
		return answered(r.Body, f.answer)
	}
	return nil, fmt.Errorf("%w: verb %d", ErrRecord, r.Verb)
}

// answered decodes a request and encodes its answer.
func answered[Q, A any](body []byte, do func(Q) (A, error)) ([]byte, error) {
	var q Q
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	a, err := do(q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}
