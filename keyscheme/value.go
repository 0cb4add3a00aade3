package keyscheme

import (
	"encoding/binary"
	"fmt"

	"bigset/clock"
)

// The first bytes of values. They are on disk.
const (
	elementUnresolved = 1 << 0 // flag of an element value: a wide context follows

	valueVersion  = 1    // of clock and tombstone values
	bundleVersion = 0xFF // instead of a version: operands that could not be united
)

// ResolvedValue is the value of an element key that carries no context, as nearly all do. It must not be changed.
var ResolvedValue = []byte{0}

// AppendElementValue appends the value of an element key. With a wide context, which is still to be resolved, the key is
// unresolved; with nil the value is ResolvedValue. An empty context is still a context.
func AppendElementValue(dst []byte, context *clock.Clock) []byte {
	if context == nil {
		return append(dst, ResolvedValue...)
	}
	return context.Append(append(dst, elementUnresolved))
}

// IsUnresolved reports whether an element key may carry an unresolved context, for which it must be kept even when its dot is dead.
// Everything but ResolvedValue counts as unresolved, including damaged values: a caller that drops keys by this must keep what it
// cannot read.
func IsUnresolved(value []byte) bool { return len(value) != 1 || value[0] != 0 }

// DecodeElementValue returns the context of an unresolved element value, or nil for a resolved one. Its error is ErrCorruptValue.
func DecodeElementValue(value []byte) (*clock.Clock, error) {
	switch {
	case !IsUnresolved(value):
		return nil, nil
	case len(value) == 0:
		return nil, corrupt("element", "empty")
	case value[0] != elementUnresolved:
		return nil, corrupt("element", "unknown flags")
	}
	return decodeClock("element", value[1:])
}

// ClockFlags say what may be true of a set. They are on disk, and are combined with OR.
type ClockFlags byte

// FlagSiblings says that some element may have two live dots, so that the set may have more live dots than elements.
const FlagSiblings ClockFlags = 1 << 0

// FlagClockPages and FlagTombstonePages say that the set's clock, or its tombstone, may have pages in addition to its own key. A
// reader of a set without these flags need not look for pages.
const (
	FlagClockPages     ClockFlags = 1 << 1
	FlagTombstonePages ClockFlags = 1 << 2
)

// FlagTombstone says that the set has a tombstone key. Without the flag no such key exists, and readers need not look for it.
const FlagTombstone ClockFlags = 1 << 3

const flagsKnown = FlagSiblings | FlagClockPages | FlagTombstonePages | FlagTombstone

// ClockValue is the value of a set's clock key, and of each merge operand to it. Values of one key unite by joining Seen, OR of
// Flags and sum of Open.
type ClockValue struct {
	Seen       *clock.Clock // the events the replica knows of; in an operand, those it adds
	Unresolved int64        // how many keys are unresolved; in an operand, how that number changes
	Flags      ClockFlags
}

// AppendClockValue appends the value of a clock key, or an operand to it. A nil Seen is the empty clock.
func AppendClockValue(dst []byte, v ClockValue) []byte {
	return v.Seen.AppendCompressed(AppendClockHead(dst, v))
}

// AppendClockHead appends the part of a clock key's value that precedes Seen. The caller appends the encoded Seen, so that a caller
// that needs its length does not encode it twice.
func AppendClockHead(dst []byte, v ClockValue) []byte {
	return binary.AppendVarint(append(dst, valueVersion, byte(v.Flags)), v.Unresolved)
}

// DecodeClockValue inverts AppendClockValue. Its error is ErrCorruptValue, which it also returns for a bundle.
func DecodeClockValue(value []byte) (ClockValue, error) {
	v, encoded, err := clockHead(value)
	if err != nil {
		return ClockValue{}, err
	}
	if v.Seen, err = decodeClock("clock", encoded); err != nil {
		return ClockValue{}, err
	}
	return v, nil
}

// clockHead decodes a clock value but leaves Seen encoded.
func clockHead(value []byte) (v ClockValue, encoded []byte, err error) {
	encoded, err = cutVersion("clock", value)
	if err != nil {
		return v, nil, err
	}
	if len(encoded) == 0 {
		return v, nil, corrupt("clock", "no flags")
	}
	if v.Flags = ClockFlags(encoded[0]); v.Flags&^flagsKnown != 0 {
		return v, nil, corrupt("clock", "unknown flags")
	}
	unresolved, n := binary.Varint(encoded[1:])
	if n <= 0 || n > 1 && encoded[n] == 0 { // the last byte of a varint that is longer than needed is 0
		return v, nil, corrupt("clock", "bad count of unresolved keys")
	}
	v.Unresolved = unresolved
	return v, encoded[1+n:], nil
}

// AppendTombstoneValue appends the value of a set's tombstone key, of one of its pages, or of a merge operand to them: the dots
// that are dead, or in an operand those that it adds. Values of one key unite by union. A nil dead is the empty clock.
func AppendTombstoneValue(dst []byte, dead *clock.Clock) []byte {
	return dead.AppendCompressed(append(dst, valueVersion))
}

// AppendTombstoneDots appends the tombstone value of a few dots, without making a clock of them: what one write adds to Dead. It
// sorts dots.
func AppendTombstoneDots(dst []byte, dots []clock.Dot) []byte {
	return clock.AppendDots(append(dst, valueVersion), dots)
}

// DecodeTombstoneValue inverts AppendTombstoneValue. Its error is ErrCorruptValue, which it also returns for a bundle.
func DecodeTombstoneValue(value []byte) (*clock.Clock, error) {
	encoded, err := cutVersion("tombstone", value)
	if err != nil {
		return nil, err
	}
	return decodeClock("tombstone", encoded)
}

// AppendPageValue appends the value of a page of a clock or a tombstone, or of a merge operand to it: part n of one actor's
// counters. Values of one key unite by union. It has the layout of a tombstone's value.
func AppendPageValue(dst []byte, c *clock.Counters, n uint64) []byte {
	return c.AppendPart(append(dst, valueVersion), n)
}

// AddPageValue adds to c what the value of a page holds. Its error is ErrCorruptValue, which it also returns for a bundle; then c
// is unchanged.
func AddPageValue(c *clock.Clock, value []byte) error {
	encoded, err := cutVersion("page", value)
	if err != nil {
		return err
	}
	if err := c.UnionEncoded(encoded); err != nil {
		return fmt.Errorf("%w: page: %w", ErrCorruptValue, err)
	}
	return nil
}

// DecodePageValue returns what the value of a page holds. Its error is ErrCorruptValue, which it also returns for a bundle.
func DecodePageValue(value []byte) (*clock.Clock, error) {
	encoded, err := cutVersion("page", value)
	if err != nil {
		return nil, err
	}
	return decodeClock("page", encoded)
}

func cutVersion(what string, value []byte) (rest []byte, err error) {
	switch {
	case len(value) == 0:
		return nil, corrupt(what, "empty")
	case value[0] == bundleVersion:
		return nil, corrupt(what, "a bundle of operands that could not be united")
	case value[0] != valueVersion:
		return nil, corrupt(what, "unknown version")
	}
	return value[1:], nil
}

func decodeClock(what string, encoded []byte) (*clock.Clock, error) {
	c, err := clock.Decode(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorruptValue, what, err)
	}
	return c, nil
}
