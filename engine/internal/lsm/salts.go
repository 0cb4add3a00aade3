package lsm

import (
	"encoding/binary"
	"fmt"
	"math"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// A store mints under the actor of its incarnation, except in slots that it dropped since it took that actor: the sets there have
// lost their clocks, so their counters start again. Each drop gets the next salt, a number, and the slots of the drop mint under a
// salted actor:
//
//	actor of the incarnation (12 bytes) · salt + the actor's last 4 bytes as a number (4 bytes)
//
// The salt follows the whole actor, because two copies of a folder may give the same salts, and differ only in the actor's last
// bytes. The last 4 bytes of the result are as random as those of the actor, because dotRanges identifies an actor by them.
//
// One record, the table, says which slots have which salt. It names its actor and applies only under that actor: a new incarnation
// starts without salts. No salt is given twice under one actor. DropRange writes the table, synced, before it excises the range.

const (
	formatSalts   = 3    // the first format that may have a table: an older program would mint under the plain actor
	saltsVersion  = 1    // first byte of the table
	saltRangesMax = 4096 // in one table: a drop that needs more renews the actor of the incarnation, which empties the table
)

// keySalts is the key of the table, in the store's own metadata.
var keySalts = []byte("s")

// saltRange is a range of slots, both ends included, that mints under a salted actor.
type saltRange struct {
	first, last keyscheme.Slot
	salt        uint32
	actor       clock.Actor // salted
}

// minting says under which actor a store mints the dots of each slot. It is immutable.
type minting struct {
	actor  clock.Actor // of the incarnation
	newest clock.Actor // actor, or the salted one of the last drop
	given  uint32      // the highest salt that was given under actor, 0 for none
	ranges []saltRange // ascending and disjoint; at most saltRangesMax
}

// newMinting returns how a store mints that has dropped no range under its actor.
func newMinting(actor clock.Actor) *minting { return &minting{actor: actor, newest: actor} }

// saltedActor returns an actor with a salt, which must not be 0.
func saltedActor(actor clock.Actor, salt uint32) clock.Actor {
	tail := binary.BigEndian.Uint32([]byte(actor[len(actor)-saltBytes:]))
	return actor + clock.Actor(binary.BigEndian.AppendUint32(nil, tail+salt))
}

// at returns the actor of a slot.
func (m *minting) at(slot keyscheme.Slot) clock.Actor {
	for r := m.ranges; len(r) > 0; {
		switch mid := len(r) / 2; {
		case slot < r[mid].first:
			r = r[:mid]
		case slot > r[mid].last:
			r = r[mid+1:]
		default:
			return r[mid].actor
		}
	}
	return m.actor
}

// dropped returns how the store mints after a drop of the slots from first to last, or nil if no salt is left for it, or no room in
// the table.
func (m *minting) dropped(first, last keyscheme.Slot) *minting {
	if m.given == math.MaxUint32 {
		return nil
	}
	salt := m.given + 1
	next := &minting{actor: m.actor, newest: saltedActor(m.actor, salt), given: salt, ranges: make([]saltRange, 0, len(m.ranges)+2)}
	for _, r := range m.ranges { // the part of each before the drop
		if r.first < first {
			r.last = min(r.last, first-1)
			next.ranges = append(next.ranges, r)
		}
	}
	next.ranges = append(next.ranges, saltRange{first, last, salt, next.newest})
	for _, r := range m.ranges { // and the part after it
		if r.last > last {
			r.first = max(r.first, last+1)
			next.ranges = append(next.ranges, r)
		}
	}
	if len(next.ranges) > saltRangesMax {
		return nil
	}
	return next
}

// append appends the table, which has at least one range.
func (m *minting) append(dst []byte) []byte {
	dst = append(append(dst, saltsVersion), m.actor...)
	dst = binary.BigEndian.AppendUint32(dst, m.given)
	for _, r := range m.ranges {
		dst = keyscheme.AppendSlot(keyscheme.AppendSlot(dst, r.first), r.last)
		dst = binary.BigEndian.AppendUint32(dst, r.salt)
	}
	return dst
}

// Lengths in a table.
const (
	saltsHeadBytes = 1 + actorBytes + saltBytes
	saltRangeBytes = 2*keyscheme.SlotBytes + saltBytes
)

// decodeMinting inverts append. It refuses everything else.
func decodeMinting(b []byte) (*minting, error) {
	n := (len(b) - saltsHeadBytes) / saltRangeBytes
	if n < 1 || n > saltRangesMax || len(b) != saltsHeadBytes+n*saltRangeBytes || b[0] != saltsVersion {
		return nil, fmt.Errorf("%w: table of salts of %d bytes: %.17x", bigset.ErrCorrupt, len(b), b)
	}
	m := newMinting(clock.Actor(b[1 : 1+actorBytes]))
	m.given, m.ranges = binary.BigEndian.Uint32(b[1+actorBytes:]), make([]saltRange, n)
	m.newest = saltedActor(m.actor, m.given)
	for i := range m.ranges {
		b := b[saltsHeadBytes+i*saltRangeBytes:]
		r := saltRange{first: slotAt(b), last: slotAt(b[keyscheme.SlotBytes:]), salt: binary.BigEndian.Uint32(b[2*keyscheme.SlotBytes:])}
		r.actor = saltedActor(m.actor, r.salt)
		ordered := r.first <= r.last
		if i > 0 {
			before := m.ranges[i-1]
			ordered = ordered && before.last < r.first && (before.salt != r.salt || before.last+1 < r.first)
		}
		if !ordered || r.salt == 0 || r.salt > m.given {
			return nil, fmt.Errorf("%w: table of salts: range %d of %d, slots %08x to %08x, salt %d of %d", bigset.ErrCorrupt, i+1, n, r.first, r.last, r.salt, m.given)
		}
		m.ranges[i] = r
	}
	return m, nil
}

func slotAt(b []byte) keyscheme.Slot { return keyscheme.Slot(binary.BigEndian.Uint32(b)) }
