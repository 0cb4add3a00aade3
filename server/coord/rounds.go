package coord

import (
	"errors"
	"maps"
	"sync"
	"time"

	"bigset/keyscheme"
	"bigset/server/peer"
)

// rounds is the position of anti-entropy in its round over all shares, and when each share was last compared.
type rounds struct {
	mu      sync.Mutex
	next    int                     // the turn
	running map[shareKey]struct{}   // in progress
	away    map[[2]string]time.Time // pairs of nodes, one of which did not answer, and until when they are left alone
	done    map[shareKey]time.Time  // when all of a share was last compared
}

// shareKey is a share by the names of its nodes.
type shareKey struct {
	a, b        string
	first, last keyscheme.Slot
}

func (s *Share) key() shareKey {
	return shareKey{s.A.Member().Node, s.B.Member().Node, s.First, s.Last}
}

func newRounds() *rounds {
	return &rounds{running: map[shareKey]struct{}{}, away: map[[2]string]time.Time{}, done: map[shareKey]time.Time{}}
}

// begin returns the share whose turn it is, if any. It skips shares in progress, and those of nodes that did not answer lately.
func (r *rounds) begin(shares []Share, now time.Time) (Share, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range shares {
		turn := r.next % len(shares)
		if r.next = turn + 1; turn == 0 {
			r.forget(shares)
		}
		s := shares[turn]
		k := s.key()
		_, running := r.running[k]
		if until, away := r.away[[2]string{k.a, k.b}]; running || away && now.Before(until) {
			continue
		}
		r.running[k] = struct{}{}
		return s, true
	}
	return Share{}, false
}

// forget forgets shares that no longer exist.
func (r *rounds) forget(shares []Share) {
	if len(r.done) <= len(shares) && len(r.away) <= len(shares) {
		return
	}
	all, pairs := map[shareKey]struct{}{}, map[[2]string]struct{}{}
	for i := range shares {
		k := shares[i].key()
		all[k], pairs[[2]string{k.a, k.b}] = struct{}{}, struct{}{}
	}
	maps.DeleteFunc(r.done, func(k shareKey, _ time.Time) bool { _, ok := all[k]; return !ok })
	maps.DeleteFunc(r.away, func(k [2]string, _ time.Time) bool { _, ok := pairs[k]; return !ok })
}

// end records the outcome of an exchange. If a node did not answer, the other shares of the same two nodes wait for a while.
func (r *rounds) end(s Share, err error, now time.Time, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := s.key()
	delete(r.running, k)
	delete(r.away, [2]string{k.a, k.b})
	switch {
	case err == nil:
		r.done[k] = now
	case errors.Is(err, peer.ErrUnavailable):
		r.away[[2]string{k.a, k.b}] = now.Add(rest)
	}
}

// Compared returns the time since which all shares of two nodes have been compared, by the name of Share.B's node: the oldest time at which
// one of them was last compared. Nodes with a share that was never compared are left out, and so are those whose shares another coordinator
// handles.
func (c *Coordinator) Compared() map[string]time.Time {
	if c.opt.Shares == nil {
		return nil
	}
	return c.rounds.compared(c.opt.Shares())
}

func (r *rounds) compared(shares []Share) map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]time.Time{}
	for i := range shares {
		k := shares[i].key()
		at, ok := r.done[k]
		old, has := all[k.b]
		switch {
		case !ok:
			all[k.b] = time.Time{}
		case !has || at.Before(old):
			all[k.b] = at
		}
	}
	maps.DeleteFunc(all, func(_ string, at time.Time) bool { return at.IsZero() })
	return all
}
