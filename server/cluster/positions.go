package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/wire"
)

// verbPosition asks a member for the position of a follower that it keeps. The body is the position's ID and the name of the set; the
// answer is keyscheme.Position.Append of the position, or nothing if the member does not keep it. The verb is on the wire.
const verbPosition wire.Verb = 252

// positionElsewhere asks the other members, all at once, for the position of a follower, and returns the first one that it gets. It returns
// nil if no member that answers keeps it.
func (m *Member) positionElsewhere(ctx context.Context, set, id []byte) (at *keyscheme.Position) {
	ctx, cancel := coord.Deadline(ctx, m.run, roundTime)
	defer cancel()
	body := append(slices.Clone(id), set...)
	all := tasks{run: m.run}
	var mu sync.Mutex
	for _, node := range slices.Sorted(maps.Keys(m.links)) {
		link := m.links[node]
		if !link.Up() {
			continue
		}
		all.Go(func() {
			got, err := m.stats.caller(node, link).Do(ctx, wire.Call{Verb: verbPosition, Body: body, Priority: wire.PriorityRead})
			if err != nil || len(got) == 0 {
				return
			}
			if p, err := keyscheme.DecodePosition(got); err == nil && len(p.ID) == 0 {
				mu.Lock()
				defer mu.Unlock()
				at = p
				cancel() // a member that hangs is not waited for
			}
		})
	}
	all.Wait()
	return at
}

// answerPosition answers another member. A position that is too long for a message counts as not kept.
func (m *Member) answerPosition(r *wire.Request) ([]byte, error) {
	if r.From.Role != wire.RoleNode || m.membership.conf.index(r.From.Name) < 0 {
		return nil, fmt.Errorf("%w: %v %q is not a member", ErrForeign, r.From.Role, r.From.Name)
	}
	if len(r.Body) < keyscheme.PositionIDBytes {
		return nil, fmt.Errorf("%w: a position's ID of %d bytes", ErrRecord, len(r.Body))
	}
	at := m.followers.Find(r.Body[keyscheme.PositionIDBytes:], r.Body[:keyscheme.PositionIDBytes])
	if at == nil {
		return nil, nil
	}
	b := at.Append(nil)
	if len(b) > wire.BodyBytesMax {
		return nil, nil
	}
	return b, nil
}
