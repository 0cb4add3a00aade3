package follow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"bigset/keyscheme"
	"bigset/server/door"
)

// Options are the limits of positions. Zero fields mean the default.
type Options struct {
	// TokenBytes is the longest encoding of a position that travels in a token; default 32 KiB. As text in the head of a request it takes a
	// third more.
	TokenBytes int
	// BytesMax is about how much memory the positions of a node take; default 64 MiB. Those that were used least lately go first.
	BytesMax int64
	// LocateDots is the largest number of missing events that are looked for one by one, if the answer has a limit or they are a quarter of
	// the set; default 10,000. More are read from a listing of the set.
	LocateDots uint64
	// WaitersMax is how many answers may wait at one time; default 10,000. One more is refused with door.ErrUnavailable.
	WaitersMax int
	// Elsewhere returns a position of a set that this node does not keep and another one does, by its ID; nil if no node that answers keeps
	// it. By default no other node exists.
	Elsewhere func(ctx context.Context, set, id []byte) *keyscheme.Position
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// keptTime is for how long a position is kept after it was made or asked for last.
const keptTime = 10 * time.Minute

func (o *Options) tokenBytes() int    { return cmp.Or(o.TokenBytes, 32<<10) }
func (o *Options) bytesMax() int64    { return cmp.Or(o.BytesMax, 64<<20) }
func (o *Options) locateDots() uint64 { return cmp.Or(o.LocateDots, 10_000) }

func (o *Options) waitersMax() int { return cmp.Or(o.WaitersMax, 10_000) }

func (o *Options) time() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// Kept are the positions that a node keeps because they are long. The zero value is ready. Its options may be set before it is used first.
type Kept struct {
	Options

	mu    sync.Mutex
	all   map[id]*kept
	bytes int64
	life  context.Context // ends with Stop; nil until somebody needs it
	end   context.CancelFunc

	waiters int // answers that wait
	askings map[askingOf]*asking
}

// Stop ends all waits, also those that begin later: these answers end as if nothing had happened. It may be called more than once.
func (k *Kept) Stop() {
	k.untilStop()
	k.end()
}

// untilStop returns the context that Stop ends.
func (k *Kept) untilStop() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life == nil {
		k.life, k.end = context.WithCancel(context.Background())
	}
	return k.life
}

// enter lets an answer wait until leave is called, unless too many do. Those that wait for changes of the same set share what is known of it.
func (k *Kept) enter(q *door.Changes) (a *asking, leave func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiters >= k.waitersMax() {
		return nil, nil, fmt.Errorf("%w: %d followers wait here for changes; ask without a wait, or another node", door.ErrUnavailable, k.waiters)
	}
	k.waiters++
	a, unshare := k.attend(q)
	return a, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.waiters--
		unshare()
	}, nil
}

type id [keyscheme.PositionIDBytes]byte

// kept is a position that is kept for the follower of one set.
type kept struct {
	set    string
	at     *keyscheme.Position // immutable
	bytes  int64
	until  time.Time
	before id // the one that the follower had: it goes when this one is used
}

// put keeps a position, which must not change afterwards, that follows another one, and returns the one that stands for it. If they are equal, that is the one before, kept
// for longer. Where there is no room for both, the one before goes first, and then those of others. A position that is larger than all that may be kept is kept alone.
func (k *Kept) put(set []byte, p *keyscheme.Position, before []byte) *keyscheme.Position {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := &kept{set: string(set), at: p, until: k.time().Add(keptTime), bytes: int64(len(set) + p.Seen.HeapBytes() + p.Dead.HeapBytes() + len(p.After) + 256)}
	copy(e.before[:], before)
	k.trim(0)
	if was := k.all[e.before]; was != nil && was.set == e.set && same(was.at, p) {
		was.until = e.until
		return &keyscheme.Position{ID: e.before[:]}
	}
	if k.bytes+e.bytes > k.bytesMax() {
		k.drop(e.before)
	}
	k.trim(e.bytes)
	var n id
	_, _ = rand.Read(n[:]) // never fails
	if k.all == nil {
		k.all = map[id]*kept{}
	}
	k.all[n], k.bytes = e, k.bytes+e.bytes
	return &keyscheme.Position{ID: n[:]}
}

// same reports whether two positions are equal.
func same(a, b *keyscheme.Position) bool {
	return a.Listed == b.Listed && bytes.Equal(a.After, b.After) && a.Seen.Equal(b.Seen) && a.Dead.Equal(b.Dead)
}

// get returns a position of a set, nil if it is not kept. The one before it is not needed any more: the follower has this one.
func (k *Kept) get(set, number []byte) *keyscheme.Position {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trim(0)
	e := k.all[id(number)]
	if e == nil || e.set != string(set) {
		return nil
	}
	e.until = k.time().Add(keptTime)
	k.drop(e.before)
	return e.at
}

// Find returns the position of a set with an ID, if this node keeps it; otherwise nil.
func (k *Kept) Find(set, number []byte) *keyscheme.Position {
	if len(number) != keyscheme.PositionIDBytes {
		return nil
	}
	return k.get(set, number)
}

// find is get, which also asks other nodes. here reports whether this node keeps the position.
func (k *Kept) find(ctx context.Context, set, number []byte) (at *keyscheme.Position, here bool) {
	if at = k.get(set, number); at != nil || k.Elsewhere == nil {
		return at, true
	}
	return k.Elsewhere(ctx, set, number), false
}

// trim forgets what has expired, and what was used least lately until there is room for some bytes. It is called with mu held.
func (k *Kept) trim(room int64) {
	now := k.time()
	for n, e := range k.all {
		if !now.Before(e.until) {
			k.drop(n)
		}
	}
	for k.bytes+room > k.bytesMax() && len(k.all) > 0 {
		var oldest id
		var until time.Time
		for n, e := range k.all {
			if until.IsZero() || e.until.Before(until) {
				oldest, until = n, e.until
			}
		}
		k.drop(oldest)
	}
}

func (k *Kept) drop(n id) {
	if e := k.all[n]; e != nil {
		k.bytes -= e.bytes
		delete(k.all, n)
	}
}
