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

// Disk stores a list. Any goroutine may call the methods, but only one at a time.
type Disk interface {
	// Load returns the list saved last, or nil.
	Load() ([]byte, error)
	// Save stores a list. The list is on disk when Save returns.
	Save(ctx context.Context, list []byte) error
}

// List contains the tokens that a node knows.
type List struct {
	disk   Disk
	saving sync.Mutex // held by the goroutine that changes the list

	mu     sync.RWMutex
	tokens map[ID]*token
	sum    uint64

	closed  atomic.Bool // a token exists or has existed
	learned atomic.Bool
}

// token is an entry that Grants point to.
type token struct {
	Entry
	gone atomic.Bool // the token has been removed
}

// Open reads a list. If learned is false, the list permits nothing until Learned is called.
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

// Learned declares that the list contains everything acknowledged.
func (l *List) Learned() { l.learned.Store(true) }

// hold loads a whole list into memory.
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

// Entries returns all entries, in no particular order.
func (l *List) Entries() []Entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	entries := make([]Entry, 0, len(l.tokens))
	for _, t := range l.tokens {
		entries = append(entries, t.Entry)
	}
	return entries
}

// Active returns the tokens that have not been removed, sorted by label and ID.
func (l *List) Active() []Entry {
	entries := slices.DeleteFunc(l.Entries(), func(e Entry) bool { return e.Removed })
	Sort(entries)
	return entries
}

// Sort sorts tokens by label and ID.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Label, b.Label), bytes.Compare(a.ID[:], b.ID[:])) })
}

// Sum returns a number that is equal for equal lists, and almost never equal for different ones.
func (l *List) Sum() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sum
}

// Change adds a token or, if the entry is Removed, removes one.
func (l *List) Change(ctx context.Context, e Entry) error {
	if e.Removed {
		return l.Remove(ctx, e.ID)
	}
	return l.Add(ctx, e)
}

// Add adds a new token. Adding the same token again changes nothing.
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
		return fmt.Errorf("%w: %d, the maximum is %d: remove unused ones", ErrFull, active, ActiveMax)
	case all >= EntriesMax:
		return fmt.Errorf("%w: %d with those that were removed, the maximum is %d, and removing more makes no room: give clients a token that exists, or export the sets and import them into a new store", ErrFull, all, EntriesMax)
	}
	_, err := l.Merge(ctx, []Entry{e})
	return err
}

// Remove removes a token for good. Removing it again changes nothing. For an ID that was never added it returns ErrNotFound.
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

// Merge takes entries of another list and reports whether some were new. They are on disk and in effect when it returns.
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
	if len(all) > listMax { // a longer list could not be read again
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
