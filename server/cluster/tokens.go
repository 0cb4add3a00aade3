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

// verbTokens gives a member a list of tokens, which it merges with its own. The answer is the list that it has then. Bodies are those of package tokens. It is on the wire.
const verbTokens wire.Verb = 250

// Tokens returns the tokens that were not removed, as far as this member knows.
func (m *Member) Tokens() []tokens.Entry { return m.conf.Tokens.Active() }

// ChangeToken adds a token, or removes one, for good, where the entry is Removed. It is on this member's disk when it returns, and on those of the others, but for the ones
// that are away. These learn of it from any other member, within a second or two after they are back.
func (m *Member) ChangeToken(ctx context.Context, e tokens.Entry) (away []string, err error) {
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

// giveTokens exchanges lists with all other members but one, side by side. It returns why some have not.
func (m *Member) giveTokens(ctx context.Context, but string) map[string]error {
	all := tasks{run: m.run}
	var mu sync.Mutex
	failed := map[string]error{}
	for id, link := range m.links {
		if id == but {
			continue
		}
		all.Go(func() {
			err := fmt.Errorf("%w: %s", wire.ErrNotSent, id)
			if m.reached(ctx, link) {
				err = m.swapTokens(ctx, id)
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

// swapTokens gives another member the list, and takes what that one has.
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

// mergeTokens takes the list of another member. What was news goes on to the others: one of them may not reach the member where it comes from.
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
			m.giveTokens(ctx, from) // who is away learns in a round
		})
	}
	return err
}

// answerTokens answers another member.
func (m *Member) answerTokens(ctx context.Context, r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || m.membership.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is no member", ErrForeign, r.From.Role, r.From.Name)
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

// tokensText is what a member says of its list: equal ones mean equal lists.
func (m *Member) tokensText() string {
	if m.conf.Tokens == nil {
		return ""
	}
	return strconv.FormatUint(m.conf.Tokens.Sum(), 16)
}

// learnTokens exchanges lists with the members whose list is another one. Members of an older program have none. Once it has done so with all others at a time, this member is one
// that has met them.
func (m *Member) learnTokens(ctx context.Context, states map[string]State) error {
	v := m.membership.View()
	if m.conf.Tokens == nil || !v.Serves {
		return nil
	}
	var errs []error
	met := len(states) == len(m.links)
	for _, id := range slices.Sorted(maps.Keys(states)) {
		s := states[id]
		switch {
		case s.Committed == nil || !s.Committed.of(v.Record):
			met = false // it has not heard yet, or is no member any more
		case s.Tokens != "" && s.Tokens != m.tokensText():
			errs = append(errs, m.swapTokens(ctx, id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if met {
		m.tokensMet.Store(true)
	}
	return nil
}

// tokensLearned has the list count once this member has learned all that was acknowledged.
func (m *Member) tokensLearned() {
	if listed, _ := m.filters.list.state(); listed && m.conf.Tokens != nil {
		m.conf.Tokens.Learned()
	}
}
