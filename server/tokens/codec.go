package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// The parts of an encoding; docs/format.md draws it. It is on disk and on the wire.
const (
	formatVersion = 1
	stateActive   = 1
	stateRemoved  = 2
	listMax       = 2 * EntriesMax // entries: lists that diverged may together have more entries than one list accepts
)

// Append appends a list of entries, sorted by ID.
func Append(dst []byte, entries []Entry) []byte {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	dst = binary.AppendUvarint(append(dst, formatVersion), uint64(len(sorted)))
	for i := range sorted {
		dst = appendEntry(dst, &sorted[i])
	}
	return dst
}

func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, e.ID[:]...)
	if e.Removed {
		return append(dst, stateRemoved)
	}
	dst = append(append(dst, stateActive), e.Hash[:]...)
	dst = binary.AppendUvarint(append(dst, byte(e.Verbs)), e.Created)
	dst = append(binary.AppendUvarint(dst, uint64(len(e.Prefix))), e.Prefix...)
	return append(binary.AppendUvarint(dst, uint64(len(e.Label))), e.Label...)
}

// Decode inverts Append. It accepts only what Append makes of well-formed entries with distinct IDs; otherwise it returns ErrEntry.
func Decode(b []byte) ([]Entry, error) {
	in := input{b: b}
	if v := in.byte(); v != formatVersion {
		return nil, fmt.Errorf("%w: a list of version %d, this program knows %d", ErrEntry, v, formatVersion)
	}
	n := in.number()
	if n > uint64(len(in.b))/uint64(len(ID{})+1) {
		return nil, fmt.Errorf("%w: a list of %d tokens in %d bytes", ErrEntry, n, len(b))
	}
	if n > listMax {
		return nil, fmt.Errorf("%w: a list of %d tokens, the maximum is %d", ErrEntry, n, listMax)
	}
	entries := make([]Entry, 0, n)
	for i := range n {
		e := in.entry()
		if in.short {
			break
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		if i > 0 && bytes.Compare(entries[i-1].ID[:], e.ID[:]) >= 0 {
			return nil, fmt.Errorf("%w: a list in no order", ErrEntry)
		}
		entries = append(entries, e)
	}
	if in.short || !bytes.Equal(Append(nil, entries), b) { // numbers have one form, and nothing follows the last entry
		return nil, fmt.Errorf("%w: a list of %d bytes that is not whole, or not in its form", ErrEntry, len(b))
	}
	return entries, nil
}

// input is what is left to decode. Once it was too short, it returns zeros.
type input struct {
	b     []byte
	short bool
}

func (in *input) bytes(n uint64) []byte {
	if n > uint64(len(in.b)) {
		in.b, in.short = nil, true
		return nil
	}
	b := in.b[:n]
	in.b = in.b[n:]
	return b
}

func (in *input) byte() byte {
	if b := in.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (in *input) number() uint64 {
	v, n := binary.Uvarint(in.b)
	if n <= 0 {
		in.b, in.short = nil, true
		return 0
	}
	in.b = in.b[n:]
	return v
}

func (in *input) entry() (e Entry) {
	copy(e.ID[:], in.bytes(uint64(len(e.ID))))
	switch state := in.byte(); state {
	case stateRemoved:
		e.Removed = true
		return e
	case stateActive:
	default:
		in.short = true
		return e
	}
	copy(e.Hash[:], in.bytes(sha256.Size))
	e.Verbs, e.Created = Verbs(in.byte()), in.number()
	e.Prefix = bytes.Clone(in.bytes(in.number()))
	e.Label = string(in.bytes(in.number()))
	return e
}
