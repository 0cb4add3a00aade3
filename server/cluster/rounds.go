package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"bigset/server/coord"
	"bigset/server/wire"
)

// Run keeps the member in agreement until ctx ends. Rounds begin an interval apart. After a round that took longer, because a
// member did not answer, the next one begins after a tenth of an interval: the others may have news.
func (m *Membership) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		m.Round(ctx)
		pause := max(m.conf.Interval-time.Since(began), m.conf.Interval/10)
		if v := m.View(); !v.Serves || !v.Sets || !v.Filters || v.Record.Origin != "" {
			pause = min(pause, 100*time.Millisecond)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// Wake makes the next round begin at once: a request has met another epoch.
func (m *Membership) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// roundTime is how long the others may take to answer in a round.
const roundTime = 2 * time.Second

// Round asks the others for their state and acts on it.
func (m *Membership) Round(ctx context.Context) {
	m.turn.Lock()
	defer m.turn.Unlock()
	ctx, cancel := coord.Deadline(ctx, m.conf.Runner, roundTime)
	defer cancel()
	states := m.askAll(ctx)
	waits, err := m.step(ctx, states)
	if err != nil {
		waits = strings.TrimSuffix(strings.ReplaceAll(err.Error(), "\n", "; ")+"; "+waits, "; ")
	}
	m.mu.Lock()
	if waits != m.waits && waits != "" {
		level := slog.LevelInfo
		if err != nil {
			level = slog.LevelWarn
		}
		m.conf.Log.Log(ctx, level, "cluster: waiting", "for", waits)
	}
	m.waits = waits
	m.mu.Unlock()
}

// askAll asks all other members for their state.
func (m *Membership) askAll(ctx context.Context) map[string]State {
	all := tasks{run: m.conf.Runner}
	var mu sync.Mutex
	states := map[string]State{}
	for _, p := range m.conf.Peers {
		id, to := p.ID, m.conf.Callers[p.ID]
		if to == nil {
			continue
		}
		all.Go(func() {
			var s State
			err := ask(ctx, to, verbState, struct{}{}, &s)
			if err == nil && s.ID != id {
				err = fmt.Errorf("%w: node %s answers in the place of %s", ErrForeign, s.ID, id)
			}
			if err == nil && s.Committed == nil && (s.Restoring || s.Sets || s.Filters) {
				err = fmt.Errorf("%w: node %s is a member of no record", ErrRecord, id)
			}
			for _, r := range []*Record{s.Committed, s.Prepared} {
				if err == nil && r != nil {
					err = r.check()
				}
			}
			m.mu.Lock()
			o := m.others[id]
			if o.err = err; err == nil {
				o.state, o.at = s, m.conf.Now()
			}
			m.others[id] = o
			m.mu.Unlock()
			if err == nil {
				mu.Lock()
				states[id] = s
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if m.conf.Heard != nil {
		m.conf.Heard(maps.Clone(states))
	}
	return states
}

// missing says which members have not answered, and why if a person has to do something about it.
func (m *Membership) missing(states map[string]State) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids, bad, reasons []string
	for _, p := range m.conf.Peers {
		if _, ok := states[p.ID]; ok || p.ID == m.conf.Node {
			continue
		}
		o, asked := m.others[p.ID]
		if asked && o.err == nil { // it has answered, and step says why that does not count
			bad = append(bad, p.ID)
			continue
		}
		if !passing(o.err) {
			reasons = append(reasons, p.ID+": "+o.err.Error())
		}
		ids = append(ids, p.ID)
	}
	var parts []string
	if len(ids) > 0 {
		parts = append(parts, strings.Join(ids, ", ")+" can't be reached")
	}
	parts = append(parts, reasons...)
	if len(bad) > 0 {
		parts = append(parts, "this node can't take the record of "+strings.Join(bad, ", "))
	}
	return strings.Join(parts, "; ")
}

// passing reports whether the error of a question for a member says only that the member is down, slow, or about to start or stop. Other
// errors, such as those of certificates and names, stay until a person does something about them.
func passing(err error) bool {
	var sys *os.SyscallError
	var slow net.Error
	switch {
	case errors.Is(err, ErrForeign), errors.Is(err, ErrRecord):
		return false
	case err == nil, err == wire.ErrNotSent, errors.Is(err, wire.ErrLost), errors.Is(err, wire.ErrBusy), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &sys), errors.As(err, &slow) && slow.Timeout():
		return true
	}
	return false
}

// step acts on the states of the others, and returns what this member waits for. A member with a record that this one can't take counts as one
// that does not answer, and ends the step of no other.
func (m *Membership) step(ctx context.Context, states map[string]State) (waits string, err error) {
	var bad []error
	by := map[string][]string{}                           // members by the text of the error that their record has caused
	for _, id := range slices.Sorted(maps.Keys(states)) { // a record committed on any member is valid on all
		s := states[id]
		if s.Committed == nil {
			continue
		}
		if err := m.commit(ctx, s.Committed); err != nil {
			text := err.Error()
			if by[text] == nil {
				bad = append(bad, err)
			}
			by[text] = append(by[text], id)
			delete(states, id)
		}
	}
	for i, err := range bad {
		bad[i] = fmt.Errorf("%s: %w", strings.Join(by[err.Error()], ", "), err)
	}
	waits, err = m.act(ctx, states)
	if len(bad) == 0 {
		return waits, err
	}
	return waits, errors.Join(append(bad, err)...)
}

// act is step for states that this member has taken.
func (m *Membership) act(ctx context.Context, states map[string]State) (waits string, err error) {
	ids := slices.Sorted(maps.Keys(states))
	now := m.shown.Load()
	l, v, mayLack := now.ledger, now.view, now.mayLack
	if p := l.Prepared; p != nil && p.Proposer == m.conf.Node {
		if err := m.forget(ctx, m.conf.Node); err != nil {
			return "", err
		}
	}
	for _, id := range ids { // proposals of this member from before its restart
		if s := states[id]; s.Prepared != nil && s.Prepared.Proposer == m.conf.Node && s.Prepared.Epoch > l.epoch() {
			if err := ask(ctx, m.conf.Callers[id], verbWithdraw, m.conf.Node, nil); err != nil {
				return "", err
			}
		}
	}
	for _, id := range ids { // members that missed the last commit
		if s := states[id]; l.Committed != nil && (s.Committed == nil || s.Committed.Epoch < l.epoch()) {
			_ = ask(ctx, m.conf.Callers[id], verbCommit, l.Committed, nil) // on failure the member learns it by asking
		}
	}
	var next *Record
	switch {
	case l.Restore:
		if gone := m.missing(states); gone != "" {
			return "the restore of the cluster, for which all members are needed: " + gone, nil
		}
		if next, waits, err = m.restore(ctx, states); next == nil {
			return waits, err
		}
	case l.Committed == nil:
		if gone := m.missing(states); gone != "" {
			return "the birth of the cluster, for which all members are needed: " + gone, nil
		}
		if m.conf.Peers[0].ID != m.conf.Node {
			return "the birth of the cluster, by " + m.conf.Peers[0].ID, nil
		}
		if next, err = m.birth(ctx, states); err != nil {
			return "", err
		}
	case !v.Serves:
		next = l.Committed.rejoined(m.conf.Node, m.conf.Disk.Identity(), mayLack.sets, mayLack.filters, now.unfilled)
		if gone := m.missing(states); gone != "" {
			return "a new epoch, to which all members have to agree: " + gone, nil
		}
	case !v.Sets || !v.Filters:
		return "its copy of what it may lack" + m.fill(v), nil
	case l.Committed.Origin == m.conf.Node:
		for _, p := range m.conf.Peers {
			if s, ok := states[p.ID]; p.ID != m.conf.Node && (!ok || !s.Sets || !s.Filters || s.Committed.Epoch != l.epoch()) {
				return "", nil // it serves; the others are still copying
			}
		}
		next = l.Committed.clone()
		next.Epoch, next.Proposer, next.Origin = next.Epoch+1, m.conf.Node, ""
	default:
		return "", nil
	}
	return "", m.propose(ctx, next)
}

// propose asks all members to agree to a record, and commits it.
func (m *Membership) propose(ctx context.Context, r *Record) error {
	if err := m.offer(ctx, r); err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		m.asking = false
		m.mu.Unlock()
	}()
	for _, p := range m.conf.Peers {
		if p.ID == m.conf.Node {
			continue
		}
		if err := ask(ctx, m.conf.Callers[p.ID], verbPropose, r, nil); err != nil {
			err = fmt.Errorf("%s does not agree to epoch %d: %w", p.ID, r.Epoch, err)
			return errors.Join(err, m.takeBack(ctx))
		}
	}
	if err := m.adopt(ctx, r); err != nil {
		return errors.Join(err, m.takeBack(ctx))
	}
	m.conf.Log.Info("cluster: epoch", "epoch", r.Epoch, "by", r.Proposer)
	for _, p := range m.conf.Peers {
		if p.ID != m.conf.Node {
			_ = ask(ctx, m.conf.Callers[p.ID], verbCommit, r, nil) // a member that misses it learns it in its next round
		}
	}
	return nil
}

// offer records a proposal of this member.
func (m *Membership) offer(ctx context.Context, r *Record) error {
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	l, err := m.ledger.withdraw(m.conf.Node).propose(r)
	if err != nil {
		return err
	}
	if err := m.save(ctx, l); err != nil {
		return err
	}
	m.mu.Lock()
	m.asking, m.yielded = true, false
	m.mu.Unlock()
	return nil
}

// adopt commits a proposal of this member that all have agreed to, here first: the others may still be asked under the former epoch, under which
// this member must not answer.
func (m *Membership) adopt(ctx context.Context, r *Record) error {
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	m.mu.Lock()
	yielded := m.yielded
	m.mu.Unlock()
	l := m.ledger
	if yielded || l.Prepared == nil || !l.Prepared.same(r) {
		return fmt.Errorf("%w: another member proposes epoch %d", ErrRecord, r.Epoch)
	}
	if l, err = l.commit(r); err != nil {
		return err
	}
	before := m.mayLack
	if e := r.Members[r.entry(m.conf.Node)]; e.Sets == r.Epoch || e.Filters == r.Epoch {
		m.mayLack = doubts{}
	}
	if err = m.save(ctx, l); err != nil {
		m.mayLack = before
	}
	return err
}

// takeBack withdraws this member's proposal from all members.
func (m *Membership) takeBack(ctx context.Context) error {
	err := m.forget(ctx, m.conf.Node)
	for _, p := range m.conf.Peers {
		if to := m.conf.Callers[p.ID]; to != nil {
			_ = ask(ctx, to, verbWithdraw, m.conf.Node, nil) // a member that misses it hears of it in the next round
		}
	}
	return err
}

// birth returns the first record of the cluster.
func (m *Membership) birth(ctx context.Context, states map[string]State) (*Record, error) {
	own, err := m.State(ctx)
	if err != nil {
		return nil, err
	}
	states[m.conf.Node] = own
	r := &Record{Cluster: make([]byte, 16), Name: m.conf.Name, Generation: 1, Epoch: 1, Proposer: m.conf.Node, Settings: m.conf.Settings}
	_, _ = rand.Read(r.Cluster)
	var holders []string
	for _, p := range m.conf.Peers {
		s := states[p.ID]
		r.Members = append(r.Members, Entry{ID: p.ID, Incarnation: s.Identity})
		r.Born = max(r.Born, s.Born)
		if s.HasData {
			holders = append(holders, p.ID)
			r.Origin, r.Seal, r.Domain = p.ID, s.Seal, s.Domain
		}
	}
	switch len(holders) {
	case 0:
		r.Seal, r.Domain = own.Seal, own.Domain
	case 1:
		for i := range r.Members {
			if e := &r.Members[i]; e.ID != r.Origin {
				e.Sets, e.Filters = 1, 1
			}
		}
		if len(r.Members) == 1 {
			r.Origin = ""
		}
	default:
		return nil, fmt.Errorf("%w: %s hold data: at most one member may when a cluster is born; start the others with empty folders, or export and import their sets",
			ErrConfig, strings.Join(holders, " and "))
	}
	return r, nil
}

// fill starts to fill this member, unless a fill is in progress. It returns why fills can't succeed without a person, or "".
func (m *Membership) fill(v View) (lost string) {
	f := &m.filler
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running || m.conf.Fill == nil {
		return f.lost
	}
	f.running = true
	f.ended.Go(func() {
		ctx, lost := context.Background(), ""
		defer func() {
			f.mu.Lock()
			f.running, f.lost = false, lost
			f.mu.Unlock()
			m.Wake()
		}()
		err := m.conf.Fill(ctx, v)
		if err == nil {
			err = m.certify(ctx, v)
		}
		if err == nil {
			f.cause = ""
			return
		}
		level := slog.LevelWarn
		if errors.Is(err, errUnlisted) || err.Error() == f.cause { // in the normal course, or logged before
			level = slog.LevelDebug
		}
		f.cause = err.Error()
		m.conf.Log.Log(ctx, level, "cluster: this member could not be filled, it is tried again", "epoch", v.Record.Epoch, "cause", err)
		if l := (*lostError)(nil); errors.As(err, &l) {
			lost = ": " + l.Error()
		}
		pause(m.conf.Runner, 100*time.Millisecond)
	})
	return f.lost
}

// certify records that this member has been filled under a view.
func (m *Membership) certify(ctx context.Context, v View) error {
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if now := m.View(); now.Epoch() != v.Epoch() {
		return nil // under another epoch, fill runs again and continues where it was
	}
	f := filled{m.conf.Disk.Identity(), v.Record.Epoch, v.Record.Epoch}
	b, err := json.Marshal(f)
	if err == nil {
		err = m.conf.Disk.Save(ctx, keyFilled, b)
	}
	if err == nil {
		err = m.conf.Disk.Certified(ctx, true, true)
	}
	if err != nil {
		return err
	}
	m.filled = f
	m.look()
	return nil
}
