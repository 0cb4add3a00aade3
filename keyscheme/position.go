package keyscheme

import (
	"encoding/binary"

	"bigset/clock"
)

// PositionIDBytes is the length of Position.ID.
const PositionIDBytes = 16

// Position is how far a follower of a set has come: what it was given. It is in a token, or the node keeps it and the token has its ID.
type Position struct {
	// Seen are the events that the follower was given, or that were dead before it could be; Dead are those of them that it knows to be dead. Nil is none.
	Seen, Dead *clock.Clock
	// Listed says that the follower is in the middle of a listing of the set, which goes on after the element After.
	Listed bool
	After  []byte
	// ID, if it is not empty, has PositionIDBytes bytes and stands for everything else, which the node keeps.
	ID []byte
}

// The first byte of a position's payload. They are in tokens.
const (
	positionWhole  = 'w'
	positionListed = 'l'
	positionKept   = 'k'
)

// Append appends the encoding of a position. An ID whose length is not PositionIDBytes panics.
func (p *Position) Append(dst []byte) []byte {
	if len(p.ID) > 0 {
		return append(append(dst, positionKept), (*[PositionIDBytes]byte)(p.ID)[:]...)
	}
	kind := byte(positionWhole)
	if p.Listed {
		kind = positionListed
	}
	dst = appendPart(append(dst, kind), p.Seen.Append(nil))
	dst = appendPart(dst, p.Dead.Append(nil))
	if p.Listed {
		dst = append(dst, p.After...)
	}
	return dst
}

func appendPart(dst, part []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}

// DecodePosition inverts Append. After and ID alias b. Its errors wrap ErrToken.
func DecodePosition(b []byte) (*Position, error) {
	if len(b) == 0 {
		return nil, ErrTokenMalformed
	}
	kind, b := b[0], b[1:]
	p := &Position{}
	switch kind {
	case positionKept:
		if len(b) != PositionIDBytes {
			return nil, ErrTokenMalformed
		}
		p.ID = b
		return p, nil
	case positionWhole, positionListed:
	default:
		return nil, ErrTokenMalformed
	}
	for _, c := range []**clock.Clock{&p.Seen, &p.Dead} {
		n, size := binary.Uvarint(b)
		if size <= 0 || size > 1 && b[size-1] == 0 || n > uint64(len(b)-size) {
			return nil, ErrTokenMalformed
		}
		part, err := clock.Decode(b[size : size+int(n)])
		if err != nil {
			return nil, tokenFault(err)
		}
		*c, b = part, b[size+int(n):]
	}
	if p.Listed = kind == positionListed; p.Listed {
		if len(b) > ElementBytesMax {
			return nil, ErrTokenMalformed
		}
		p.After = b
		return p, nil
	}
	if len(b) > 0 {
		return nil, ErrTokenMalformed
	}
	return p, nil
}
