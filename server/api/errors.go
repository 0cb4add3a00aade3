package api

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
	"bigset/server/wire"
)

// kinds are the errors that keep their meaning over the wire. Their positions, from 1 on, are on the wire: append new ones at the end.
var kinds = []error{
	ErrBody, door.ErrUnavailable, door.ErrUnknown, door.ErrQuorum, bigset.ErrCursor,
	bigset.ErrNotFound, bigset.ErrLimit, bigset.ErrContext, bigset.ErrBehind, bigset.ErrContextRequired, bigset.ErrRequest, bigset.ErrCorrupt,
	bigset.ErrDiskFull, bigset.ErrFailed, bigset.ErrClosed,
	keyscheme.ErrTokenMalformed, keyscheme.ErrTokenVersion, keyscheme.ErrTokenForm, keyscheme.ErrTokenDomain, keyscheme.ErrTokenSet,
	keyscheme.ErrTokenElement, keyscheme.ErrTokenSeal, keyscheme.ErrTokenTooLarge,
	context.Canceled, context.DeadlineExceeded, bigset.ErrNoFilter, bigset.ErrFilterOpen, bloomslice.ErrOptions,
	tokens.ErrNotFound, tokens.ErrFull, tokens.ErrEntry, tokens.ErrUnlearned, door.ErrMembersAway, wire.ErrIdle,
}

// textBytesMax bounds the text of an error on the wire.
const textBytesMax = 4 << 10

// Errors encodes the errors of a Handler for the wire: their text, which of the known errors they wrap, and the counts of a
// *door.UnknownError. It is a wire.Errors.
type Errors struct{}

// Append appends an error.
func (Errors) Append(dst []byte, err error) []byte {
	text := err.Error()
	if len(text) > textBytesMax {
		text = text[:textBytesMax]
	}
	dst = putBytes(append(dst, version), []byte(text))
	var unknown *door.UnknownError
	has := errors.As(err, &unknown)
	dst = putBool(dst, has)
	if has {
		dst = putInt(putInt(putInt(putInt(dst, unknown.Acked), unknown.Durable), unknown.W), unknown.DW)
	}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			dst = putInt(dst, i+1)
		}
	}
	return dst
}

// Decode returns an error with the same text, for which errors.Is and errors.As answer as for the appended one. Kinds that this program
// does not know are left out. An error that has only such kinds, and bytes that can't be read, such as those of a later version, may be an error
// after which the outcome is unknown: for them it returns wire.ErrLost.
func (Errors) Decode(b []byte) error {
	in := begin(b)
	e := &remoteError{text: string(in.bytes())}
	if in.bool() {
		e.causes = append(e.causes, &door.UnknownError{Acked: in.int(), Durable: in.int(), W: in.int(), DW: in.int()})
	}
	strange := false
	for last := 0; len(in.b) > 0; {
		k := in.int()
		if k <= last {
			in.fail("kinds of errors are out of order")
			break
		}
		last = k
		if strange = k > len(kinds); !strange {
			e.causes = append(e.causes, kinds[k-1])
		}
	}
	if err := in.end(); err != nil {
		return fmt.Errorf("%w: it is an error that can't be read: %v", wire.ErrLost, err) // not wrapped: ErrBody would say that nothing has happened
	}
	if strange && len(e.causes) == 0 {
		return fmt.Errorf("%w: it is an error of a kind that is not known here: %s", wire.ErrLost, e.text)
	}
	return e
}

// remoteError is an error from another process.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }
