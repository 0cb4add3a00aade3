package riakpb

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
)

// refusal is an error whose text is the answer.
type refusal string

func (r refusal) Error() string { return string(r) }

// unserved says why a message of Riak is not served, and what to use instead.
func unserved(code byte) string {
	for _, u := range []struct {
		codes []byte
		why   string
	}{
		{[]byte{9, 11}, "objects are not stored here, only sets: use DtFetchReq and DtUpdateReq"},
		{[]byte{15, 17}, "buckets and keys are not listed over this protocol: use the HTTP port, or SCAN over redis's protocol"},
		{[]byte{19, 21, 29, 31, 32}, "buckets have no properties here: every type is one of sets"},
		{[]byte{23, 25, 27, 54, 56, 57, 58, 60}, "queries are not supported here: read ranges of a set over HTTP"},
		{[]byte{50, 52}, "counters are not supported here, only sets are"},
		{[]byte{3, 5}, "clients have no ids here"},
		{[]byte{33, 70}, "a node answers for every set: any node may be asked"},
		{[]byte{90, 92, 94, 96, 98, 100, 104}, "time series are not supported here"},
	} {
		for _, c := range u.codes {
			if c == code {
				return fmt.Sprintf("message code %d is not served: %s", code, u.why)
			}
		}
	}
	return fmt.Sprintf("Unknown message code: %d", code) // Riak's words
}

// answerOf returns the text that answers an error, and whether the node is at fault.
func answerOf(err error) (text string, fault bool) {
	var r refusal
	switch {
	case errors.As(err, &r):
		return string(r), false
	case errors.Is(err, door.ErrUnknown):
		return "unknown outcome, the change may have happened: " + door.Text(err), true
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", false // Riak's word
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, context.Canceled):
		return "nothing has happened, ask again or ask another node: " + door.Text(err), false
	case errors.Is(err, tokens.ErrNoToken), errors.Is(err, tokens.ErrSecret), errors.Is(err, tokens.ErrDenied), errors.Is(err, tokens.ErrUnlearned):
		return door.Text(err), false
	case errors.Is(err, bigset.ErrDiskFull):
		return "the disk is full: " + door.Text(err), true
	}
	if errors.Is(err, keyscheme.ErrToken) {
		return "the context is not one that a node gave for this set: " + door.Text(err), false
	}
	for _, known := range []error{bigset.ErrLimit, bigset.ErrRequest, bigset.ErrContext, bigset.ErrBehind, door.ErrQuorum} {
		if errors.Is(err, known) {
			return door.Text(err), false
		}
	}
	return "internal error, which the log of the node has: " + door.Text(err), true
}
