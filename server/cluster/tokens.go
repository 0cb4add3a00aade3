package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/tokens"
	"bigset/server/wire"
)

// verbTokens sends a member a list of tokens, which it merges with its own. The answer is the merged list. Bodies are those of package
// tokens. The verb is on the wire.
const verbTokens wire.Verb = 250

// AccessTokens returns the tokens that have not been removed, as far as this member knows.
func (m *Member) AccessTokens() []tokens.Entry { return m.conf.Tokens.Active() }

// ChangeAccessToken adds an access token or, if the entry is Removed, removes one for good. When it returns, the change is on this member's disk and on
// the disks of the others, except members that are away. These learn the change from any other member, within a second or two after they
// are back.
func (m *Member) ChangeAccessToken(ctx context.Context, e tokens.Entry) (away []string, err error) {
	if listed, _ := m.filters.list.state(); !listed {
		return nil, fmt.Errorf("%w: node %s: %w", door.ErrUnavailable, m.conf.Node, tokens.ErrUnlearned)
	}
	if err := m.conf.Tokens.Change(ctx, e); err != nil {
		return nil, err
	}
	ctx, cancel := coord.Deadline(ctx, m.run, roundTime)
	defer cancel()
	failed := m.giveTokens(ctx, m.conf.Node)
	return slices.Sorted(maps.Keys(failed)), nil
}

// giveTokens exchanges lists with all other members except but, in parallel. It returns the errors by member.
func (m *Member) giveTokens(ctx context.Context, but string) map[string]error {
	all := tasks{run: m.run}
	var mu sync.Mutex
	failed := map[string]error{}
	for id, link := range m.links {
		if id == but {
			continue
		}
		all.Go(func() {
			var err error
			if m.reached(ctx, link) {
				err = m.swapTokens(ctx, id)
			} else {
				err = unconnected(link)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[id] = err
			}
		})
	}
	all.Wait()
	return failed
}

// swapTokens sends another member the list and merges its answer.
func (m *Member) swapTokens(ctx context.Context, id string) error {
	got, err := m.stats.caller(id, m.links[id]).Do(ctx, wire.Call{Verb: verbTokens, Body: tokens.Append(nil, m.conf.Tokens.Entries())})
	if err == nil {
		err = m.mergeTokens(ctx, got, id)
	}
	if err != nil {
		return fmt.Errorf("tokens of node %s: %w", id, err)
	}
	return nil
}

// mergeTokens merges the list of another member. New entries are passed on to the others: one of them may not reach the member that sent
// them.
func (m *Member) mergeTokens(ctx context.Context, list []byte, from string) error {
	entries, err := tokens.Decode(list)
	if err != nil {
		return err
	}
	news, err := m.conf.Tokens.Merge(ctx, entries)
	if news {
		m.ended.Go(func() {
			ctx, cancel := coord.Deadline(m.life, m.run, roundTime)
			defer cancel()
			m.giveTokens(ctx, from) // a member that is away learns them in a round
		})
	}
	return err
}

// answerTokens answers another member.
func (m *Member) answerTokens(ctx context.Context, r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || m.membership.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is not a member", ErrForeign, r.From.Role, r.From.Name)
	}
	if m.conf.Tokens == nil {
		return nil, fmt.Errorf("%w: node %s keeps no tokens", ErrRecord, m.conf.Node)
	}
	if err := m.mergeTokens(ctx, r.Body, r.From.Name); err != nil {
		if errors.Is(err, tokens.ErrEntry) {
			err = fmt.Errorf("%w: %w", ErrRecord, err)
		}
		return nil, err
	}
	return tokens.Append(nil, m.conf.Tokens.Entries()), nil
}

// tokensText is the sum that a member reports of its list: equal sums mean equal lists.
func (m *Member) tokensText() string {
	if m.conf.Tokens == nil {
		return ""
	}
	return strconv.FormatUint(m.conf.Tokens.Sum(), 16)
}

// learnTokens exchanges lists with the members whose list differs, in parallel: one that does not answer delays no other, and is given up after
// roundTime. Members of an older program have no list. After one exchange with all others, this member has met them. enough says that this
// member knows in spite of an error what a whole member knows: it did before, or such a member was reached.
func (m *Member) learnTokens(ctx context.Context, states map[string]State) (enough bool, err error) {
	v := m.membership.View()
	if m.conf.Tokens == nil || !v.Serves {
		return true, nil
	}
	ctx, cancel := coord.Deadline(ctx, m.run, roundTime)
	defer cancel()
	all := tasks{run: m.run}
	ids := slices.Sorted(maps.Keys(states))
	errs := make([]error, len(ids))
	met := len(states) == len(m.links)
	for i, id := range ids {
		s := states[id]
		switch {
		case s.Committed == nil || !s.Committed.of(v.Record):
			met = false // it has not heard the record yet, or is no longer a member
		case s.Tokens != "" && s.Tokens != m.tokensText():
			all.Go(func() { errs[i] = m.swapTokens(ctx, id) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		enough, _ := m.filters.list.state()
		for i, id := range ids {
			s := states[id]
			enough = enough || errs[i] == nil && s.Listed && s.Tokens != "" && s.Committed != nil && s.Committed.of(v.Record)
		}
		return enough, err
	}
	if met {
		m.tokensMet.Store(true)
	}
	return true, nil
}

// tokensLearned puts the list into effect if this member has learned everything acknowledged.
func (m *Member) tokensLearned() {
	if listed, _ := m.filters.list.state(); listed && m.conf.Tokens != nil {
		m.conf.Tokens.Learned()
	}
}
