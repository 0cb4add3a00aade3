package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"bigset/server/door"
	"bigset/server/setname"
)

const hexDigits = "0123456789abcdef"

// appendText appends text as a JSON string.
func appendText[T []byte | string](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b < ' ' || b == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

func appendBase64(dst, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

// appendField appends "NAME": and bytes as text or, if they are not UTF-8, "NAME_base64": and base64.
func appendField(dst []byte, name string, b []byte) []byte {
	if utf8.Valid(b) {
		return appendText(append(append(append(dst, '"'), name...), `":`...), b)
	}
	return appendBase64(append(append(append(dst, '"'), name...), `_base64":`...), b)
}

// whole is an answer that is complete before its first byte is sent.
type whole struct {
	q      *request
	base64 bool
	b      []byte
	taken  int64 // for b, from the memory for long answers
}

// room makes room for n bytes. It fails if the answer would become too long. Above 64 KiB it takes from the memory of all long answers.
func (a *whole) room(n int) error {
	need := len(a.b) + n
	if most := a.q.s.opt.AnswerBytesMax; need > most {
		return tooLarge(most)
	}
	if need <= cap(a.b) {
		return nil
	}
	size := max(need, min(max(4<<10, 2*cap(a.b)), a.q.s.opt.AnswerBytesMax))
	if size > bodyBytesKept {
		if err := a.q.take(int64(size) - a.taken); err != nil {
			return err
		}
		a.taken = int64(size)
	}
	a.b = append(make([]byte, 0, size), a.b...)
	return nil
}

func tooLarge(most int) error {
	return faultf(http.StatusRequestEntityTooLarge, "too_large", "the answer has more than %d bytes; read the elements in parts, by /elements with a lower limit or by /stream", most)
}

// raw appends JSON.
func (a *whole) raw(s string) error {
	err := a.room(len(s))
	if err == nil {
		a.b = append(a.b, s...)
	}
	return err
}

// element appends an element as a JSON string.
func (a *whole) element(e []byte) error {
	if err := a.room(6*len(e) + 2); err != nil { // the longest escaped form
		return err
	}
	switch {
	case a.base64:
		a.b = appendBase64(a.b, e)
	case !utf8.Valid(e):
		return faultf(http.StatusNotAcceptable, "not_utf8", "the set has elements that are not UTF-8, for instance %.100q: ask with encoding=base64", e)
	default:
		a.b = appendText(a.b, e)
	}
	return nil
}

// contextCopies is how often a long context is in memory beside the answer: as bytes, and as text.
const contextCopies = 3

// context appends a context as a JSON string. Above 64 KiB it takes from the memory of all long answers.
func (a *whole) context(t door.Token) error {
	if len(t) > bodyBytesKept {
		if err := a.q.take(contextCopies * int64(len(t))); err != nil {
			return err
		}
	}
	err := a.raw(`"`)
	if err == nil {
		err = a.raw(t.Text())
	}
	if err == nil {
		err = a.raw(`"`)
	}
	return err
}

// send sends the answer.
func (a *whole) send(status int) error {
	return a.q.send(status, typeJSON, append(a.b, '\n'))
}

// sendBytes is how many bytes of an answer are written at once.
const sendBytes = 256 << 10

// send sends an answer. It ignores errors of the connection: they are the client's.
func (q *request) send(status int, kind string, b []byte) error {
	h := q.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	q.begun = true
	control := http.NewResponseController(q.w)
	first := true
	until := time.Now().Add(q.s.opt.WriteTime + time.Duration(len(b)/door.AnswerPace)*time.Second) // for all of it, so that no client holds its memory for hours
	for len(b) > 0 || first {
		part := b[:min(len(b), sendBytes)]
		deadline := time.Now().Add(q.s.opt.WriteTime)
		if until.Before(deadline) {
			deadline = until
		}
		_ = control.SetWriteDeadline(deadline)
		if first {
			q.w.WriteHeader(status)
			first = false
		}
		if _, err := q.w.Write(part); err != nil {
			return nil
		}
		b = b[len(part):]
	}
	return nil
}

// json sends a value as JSON.
func (q *request) json(status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a browser does not show it as HTML
	if err := e.Encode(v); err != nil {
		return err
	}
	return q.send(status, typeJSON, b.Bytes())
}

// failureOf returns what a client reads of an error beside a status that is none.
func (q *request) failureOf(err error) failure {
	_, f, _ := answerOf(err, false)
	f.Message = setname.InError(f.Message, q.set)
	return f
}

// fail answers with an error, if the answer has not begun.
func (q *request) fail(err error) {
	changes := q.route != nil && q.route.changes
	status, f, isFault := answerOf(err, changes)
	if q.outcomeUnknown(status, changes) {
		f.Outcome = outcomeUnknown
	}
	f.Message = setname.InError(f.Message, q.set)
	var method *wrongMethod
	if errors.As(err, &method) {
		q.w.Header().Set("Allow", method.allow)
		status, f.Error, isFault = http.StatusMethodNotAllowed, "method", false
	}
	q.s.errors.Add(1)
	if isFault || status == http.StatusInternalServerError {
		q.s.failed.Add(1)
		q.s.failures.Add(q.routeName(), q.set, err)
	}
	if q.begun {
		return
	}
	if q.set != nil && status == http.StatusNotFound {
		f.Type = "set"
	}
	if changes {
		f.Request = q.query.Get("request_id")
	}
	switch status {
	case http.StatusUnauthorized:
		q.w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		q.w.Header().Set("Retry-After", "1")
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge:
		q.w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	if !q.read && q.r.ContentLength != 0 { // otherwise net/http would wait for the body, or a part of it, before it sends the answer
		_ = http.NewResponseController(q.w).SetReadDeadline(time.Now().Add(min(headerTime, q.s.opt.RequestTime)))
	}
	_ = q.json(status, &f)
}

// outcomeUnknown reports whether a status is that of a change that was sent before, and says nothing about it: this try may have done nothing,
// but the one before may have done it. Since then its token may have been removed, and its set emptied and its name given to a filter. A status that
// would be the same at each try is about the request.
func (q *request) outcomeUnknown(status int, changes bool) bool {
	if !changes || !slices.Contains(q.route.params, "retry") || !strings.EqualFold(q.query.Get("retry"), "true") {
		return false
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return true
	}
	return false
}

func (q *request) routeName() string {
	if q.route == nil {
		return "none"
	}
	return q.route.name
}
