package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
)

// fault is an error whose text is the answer.
type fault struct {
	status int
	code   string // for programs
	text   string // for people
}

func (f *fault) Error() string { return f.text }

func faultf(status int, code, format string, args ...any) *fault {
	return &fault{status, code, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, "bad_request", format, args...)
}

// The outcome of a change that failed.
const (
	outcomeNothing = "nothing" // nothing has happened
	outcomeUnknown = "unknown" // it is unknown whether it has happened
)

// failure is the JSON of an error.
type failure struct {
	Type    string `json:"type,omitempty"` // "set", as in Riak
	Error   string `json:"error"`
	Message string `json:"message"`
	Outcome string `json:"outcome,omitempty"` // of a change
	*reach
	Request string `json:"request_id,omitempty"` // the id with which the change can be sent again
}

// reach is how far a change came whose outcome is unknown.
type reach struct {
	Acked   int `json:"acked"`
	Durable int `json:"durable"`
	W       int `json:"w"`
	DW      int `json:"dw"`
}

// kinds maps errors of backends to answers. The first match is used.
var kinds = []struct {
	err    error
	status int
	code   string
}{
	{door.ErrUnknown, http.StatusServiceUnavailable, "unknown_outcome"},
	{door.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "timeout"},
	{context.Canceled, http.StatusServiceUnavailable, "unavailable"},
	{bigset.ErrClosed, http.StatusServiceUnavailable, "unavailable"},
	{bigset.ErrUnresolved, http.StatusServiceUnavailable, "unavailable"}, // the background resolves them
	{bigset.ErrDiskFull, http.StatusInsufficientStorage, "disk_full"},
	{bigset.ErrNotFound, http.StatusNotFound, "notfound"},
	{bigset.ErrNoFilter, http.StatusNotFound, "notfound"},
	{bigset.ErrBehind, http.StatusConflict, "behind"},
	{bigset.ErrFilterOpen, http.StatusConflict, "open"},
	{bigset.ErrContext, http.StatusBadRequest, "context"},
	{keyscheme.ErrToken, http.StatusBadRequest, "context"},
	{bigset.ErrCursor, http.StatusBadRequest, "context"},
	{door.ErrQuorum, http.StatusBadRequest, "quorum"},
	{bigset.ErrLimit, http.StatusBadRequest, "limit"},
	{bigset.ErrRequest, http.StatusBadRequest, "bad_request"},
	{bloomslice.ErrOptions, http.StatusBadRequest, "bad_request"},
	{tokens.ErrSecret, http.StatusUnauthorized, "token"},
	{tokens.ErrNoToken, http.StatusUnauthorized, "token"},
	{tokens.ErrDenied, http.StatusForbidden, "denied"},
	{tokens.ErrUnlearned, http.StatusServiceUnavailable, "unavailable"},
}

// answerOf returns the answer to an error, and whether it is a fault of the node. changes says that the request was a change.
func answerOf(err error, changes bool) (status int, f failure, isFault bool) {
	var own *fault
	var unknown *door.UnknownError
	status, f = http.StatusInternalServerError, failure{Error: "internal", Message: door.Text(err)}
	isFault = true
	if errors.As(err, &own) {
		status, f.Error, isFault = own.status, own.code, false
	} else {
		for _, k := range kinds {
			if errors.Is(err, k.err) {
				status, f.Error, isFault = k.status, k.code, k.err == door.ErrUnknown || k.err == bigset.ErrDiskFull
				break
			}
		}
	}
	if status == http.StatusBadRequest && errors.Is(err, keyscheme.ErrToken) {
		f.Message = "a context or position of the request is not one that a node gave for this set: " + f.Message
	}
	if !changes {
		return status, f, isFault
	}
	f.Outcome = outcomeNothing
	var some *partly
	if errors.Is(err, door.ErrUnknown) || errors.As(err, &some) || status == http.StatusInternalServerError {
		f.Outcome = outcomeUnknown
	}
	if errors.As(err, &unknown) {
		f.reach = &reach{unknown.Acked, unknown.Durable, unknown.W, unknown.DW}
	}
	return status, f, isFault
}
