package tokens

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Disk keeps a list. Both methods may be called by any goroutine, one at a time.
type Disk interface {
	// Load returns what was saved last, nil where nothing was.
	Load() ([]byte, error)
	// Save keeps a list. It is on disk when it returns.
	Save(ctx context.Context, list []byte) error
}

// List is the tokens that a node knows.
type List struct {
	disk   Disk
	saving sync.Mutex // of who changes it

	mu     sync.RWMutex
	tokens map[ID]*token
	sum    uint64

	closed  atomic.Bool // there are tokens, or there were
	learned atomic.Bool
}

// token is an entry that Grants are of.
type token struct {
	Entry
	gone atomic.Bool // it was removed
}

// Open reads a list. Where learned is false it permits nothing until Learned is called.
func Open(d Disk, learned bool) (*List, error) {
	l := &List{disk: d, tokens: map[ID]*token{}}
	l.learned.Store(learned)
	b, err := d.Load()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	if len(b) > 0 {
		if entries, err = Decode(b); err != nil {
			return nil, fmt.Errorf("the list on disk: %w", err)
		}
	}
	l.hold(entries)
	return l, nil
}

// Learned says that the list has all that was acknowledged.
func (l *List) Learned() { l.learned.Store(true) }

// hold takes a whole list in memory.
func (l *List) hold(entries []Entry) {
	sum := sha256.Sum256(Append(nil, entries))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		was := l.tokens[e.ID]
		if was != nil && was.compare(&e) == 0 {
			continue
		}
		if was != nil {
			was.gone.Store(true)
		}
		t := &token{Entry: e}
		t.gone.Store(e.Removed)
		l.tokens[e.ID] = t
	}
	l.sum = binary.BigEndian.Uint64(sum[:])
	l.closed.Store(len(l.tokens) > 0)
}

// Entries returns all entries, in no order.
func (l *List) Entries() []Entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	entries := make([]Entry, 0, len(l.tokens))
	for _, t := range l.tokens {
		entries = append(entries, t.Entry)
	}
	return entries
}

// Active returns the tokens that were not removed, by their labels and IDs.
func (l *List) Active() []Entry {
	entries := slices.DeleteFunc(l.Entries(), func(e Entry) bool { return e.Removed })
	Sort(entries)
	return entries
}

// Sort sorts tokens by their labels and IDs.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Label, b.Label), bytes.Compare(a.ID[:], b.ID[:])) })
}

// Sum returns a number that is the same for equal lists, and hardly ever for others.
func (l *List) Sum() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sum
}

// Change adds a token, or removes one where the entry is Removed.
func (l *List) Change(ctx context.Context, e Entry) error {
	if e.Removed {
		return l.Remove(ctx, e.ID)
	}
	return l.Add(ctx, e)
}

// Add takes a new token. To add the same again changes nothing.
func (l *List) Add(ctx context.Context, e Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Removed {
		return fmt.Errorf("%w: %v was removed", ErrEntry, e.ID)
	}
	active, all, was := 0, 0, (*Entry)(nil)
	for _, o := range l.Entries() {
		all++
		if !o.Removed {
			active++
		}
		if o.ID == e.ID {
			was = &o
		}
	}
	switch {
	case was != nil && was.compare(&e) == 0:
		return nil
	case was != nil:
		return fmt.Errorf("%w: there was a token %v before", ErrEntry, e.ID)
	case active >= ActiveMax:
		return fmt.Errorf("%w: %d, the maximum is %d: remove some", ErrFull, active, ActiveMax)
	case all >= EntriesMax:
		return fmt.Errorf("%w: %d with those that were removed, the maximum is %d", ErrFull, all, EntriesMax)
	}
	_, err := l.Merge(ctx, []Entry{e})
	return err
}

// Remove removes a token for good. To remove it again changes nothing; one that there never was is ErrNotFound.
func (l *List) Remove(ctx context.Context, id ID) error {
	l.mu.RLock()
	t := l.tokens[id]
	l.mu.RUnlock()
	if t == nil {
		return fmt.Errorf("%w: %v", ErrNotFound, id)
	}
	_, err := l.Merge(ctx, []Entry{t.removed()})
	return err
}

// Merge takes entries of another list, and reports whether some were news. They are on disk, and count, when it returns.
func (l *List) Merge(ctx context.Context, entries []Entry) (news bool, err error) {
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return false, err
		}
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	all := map[ID]Entry{}
	for _, e := range l.Entries() {
		all[e.ID] = e
	}
	for _, e := range entries {
		if was, ok := all[e.ID]; !ok || e.compare(&was) > 0 {
			all[e.ID], news = e, true
		}
	}
	if !news {
		return false, nil
	}
	if len(all) > listMax { // or the list could not be read again
		return false, fmt.Errorf("%w: %d with those that were removed, the maximum is %d", ErrFull, len(all), listMax)
	}
	list := slices.Collect(maps.Values(all))
	if err := l.disk.Save(context.WithoutCancel(ctx), Append(nil, list)); err != nil {
		return false, err
	}
	l.hold(list)
	return true, nil
}

// find returns the token of a secret.
func (l *List) find(secret []byte) (*token, error) {
	id, ok := idOf(secret)
	if !ok {
		return nil, ErrSecret
	}
	l.mu.RLock()
	t := l.tokens[id]
	l.mu.RUnlock()
	if t == nil {
		return nil, ErrSecret
	}
	hash := sha256.Sum256(secret)
	if subtle.ConstantTimeCompare(hash[:], t.Hash[:]) != 1 || t.gone.Load() {
		return nil, ErrSecret
	}
	return t, nil
}
