package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"bigset/clock"
	"bigset/keyscheme"
)

// What replicas ask each other: what has been seen, and what has become of single dots. Nothing here changes the store.

// State is what a store knows of a set at one moment.
type State struct {
	// Seen are the events that this store knows of, Dead those of them that are removed or replaced. Both are shared: read only.
	Seen, Dead *clock.Clock
	// Open is the number of keys with an open context (Options.OpenContexts); after a crash it may be too many.
	Open uint64
}

// State returns what this store knows of a set. A set of which it has never heard is ErrNotFound.
func (s *Store) State(ctx context.Context, name []byte) (state State, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		_, state = st.state()
		return nil
	})
	return state, err
}

// state returns a view, and what is known at its moment.
func (st *set) state() (*view, State) {
	st.mu.Lock()
	defer st.mu.Unlock()
	v := st.viewLocked()
	return v, State{v.seen, v.dead, uint64(max(0, st.open))}
}

// Verdict says what a store knows of a dot of an element.
type Verdict byte

const (
	// NotSeen is a dot of which the store has never heard.
	NotSeen Verdict = iota
	// Live is a dot by which the element is present.
	Live
	// Dead is a dot that was removed or replaced.
	Dead
	// Lost is a dot that was seen, is not dead, and has no key under the element. Where the dot is the element's, that is
	// damage, and says nothing about a remove.
	Lost
)

// String returns the verdict's name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict %d", byte(v))
}

var verdictNames = [...]string{"not seen", "live", "dead", "lost"}

// Judge says of each of some dots of an element what this store knows of it, all at one moment. Of a set of which it has never
// heard it has seen none. An element with an open key is refused with ErrOpenKey.
func (s *Store) Judge(ctx context.Context, name, element []byte, dots []clock.Dot) ([]Verdict, error) {
	if err := checkElement(element); err != nil {
		return nil, err
	}
	if err := checkDots(dots); err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, len(dots))
	err := s.usingSet(ctx, name, func(st *set) error {
		for try := 1; ; try++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			var same bool
			judge := func() (err error) {
				same, err = s.judge(st, element, dots, verdicts)
				return err
			}
			hold := try > lookUpTries // the last time nobody writes meanwhile
			var err error
			if hold {
				err = s.holding(st, judge)
			} else {
				err = judge()
			}
			if err != nil {
				return fmt.Errorf("engine: judge dots of %q in %q: %w", element, name, diskError(err))
			}
			if same || hold {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// judge judges dots by a view and the keys of an iterator that was opened after it. It reports false where a key may be
// missing because its dot has died in between, and it was dropped, or the filter hides it.
func (s *Store) judge(st *set, element []byte, dots []clock.Dot, verdicts []Verdict) (same bool, err error) {
	st.viewing.RLock()
	defer st.viewing.RUnlock()
	v := st.view()
	found, err := s.keysOf(st, element)
	if err != nil {
		return false, err
	}
	lost := false
	for i, d := range dots {
		switch {
		case !v.seen.Contains(d):
			verdicts[i] = NotSeen
		case v.dead.Contains(d):
			verdicts[i] = Dead
		case slices.Contains(found, d):
			verdicts[i] = Live
		default:
			verdicts[i], lost = Lost, true
		}
	}
	return !lost || st.view().version == v.version, nil
}

// keysOf returns the dots of an element's keys, dead or not.
func (s *Store) keysOf(st *set, element []byte) (dots []clock.Dot, err error) {
	it, err := s.elementIter(st)
	if err != nil {
		return nil, err
	}
	defer closing(it, &err)
	for ok := it.SeekPrefixGE(st.prefix.AppendElementBound(nil, element)); ok; ok = it.Next() {
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if keyscheme.IsOpen(value) {
			return nil, fmt.Errorf("%w: dot %v of element %.64q", ErrOpenKey, key.Dot(), element)
		}
		dots = append(dots, key.Dot())
	}
	return dots, it.Error()
}

// SetDigest is a short sum of what a store knows of a set. Two stores have the same one when Seen, Dead and the number of open
// keys are the same; it says nothing about keys.
type SetDigest struct {
	Slot keyscheme.Slot
	Name []byte
	Sum  [16]byte
}

// digestsMax is how many digests are made with one iterator.
const digestsMax = 512

// Digests lists the digests of all sets in the slots from first to last, both included, also of those without a live dot, in
// the order of slots, then of the lengths of names, then of names. It reads clocks and tombstones only. A list is no one
// moment: each digest is right by itself.
func (s *Store) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[SetDigest, error] {
	return func(yield func(SetDigest, error) bool) {
		if first > last {
			yield(SetDigest{}, fmt.Errorf("%w: slots %08x to %08x", ErrRequest, first, last))
			return
		}
		b := keyscheme.SlotRange(first, last)
		for done := false; !done; {
			page, next, err := s.digestPage(ctx, b)
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			if err != nil {
				yield(SetDigest{}, err)
				return
			}
			b.Lower, done = next, next == nil
		}
	}
}

// digestPage returns some digests and the bound at which the next ones begin, nil at the end.
func (s *Store) digestPage(ctx context.Context, b keyscheme.Bounds) (page []SetDigest, next []byte, err error) {
	began := time.Now()
	err = s.eachRecordIn(ctx, b, func(r setRecord) bool {
		p := keyscheme.NewPrefix(r.Name)
		page = append(page, SetDigest{p.Slot(), slices.Clone(r.Name), sumOf(&r)})
		if len(page) == digestsMax || time.Since(began) > iteratorAgeMax {
			next = p.AppendEnd(nil)
		}
		return next == nil
	})
	return page, next, err
}

// sumOf hashes what a store knows of a set: a change to it is a change of the protocol between replicas.
func sumOf(r *setRecord) (sum [16]byte) {
	var buf []byte
	field := func(b []byte) { buf = append(binary.AppendUvarint(buf, uint64(len(b))), b...) }
	field(r.Name)
	field(r.seen.Append(nil))
	field(r.dead.Append(nil))
	buf = binary.AppendUvarint(buf, uint64(max(0, r.open)))
	all := sha256.Sum256(buf)
	copy(sum[:], all[:])
	return sum
}
