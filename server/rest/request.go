package rest

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bigset"
	"bigset/server/door"
	"bigset/server/origin"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// request is a request being answered.
type request struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	route *route
	path  map[string]string // parameters in the path
	query url.Values
	grant tokens.Grant
	set   []byte // the name of the set, if the path names one
	body  []byte
	read  bool  // the body is read, or there is none
	taken int64 // bytes of the memory for long requests
	begun bool  // the answer has begun
	ends  []func()
}

// end returns everything that the request has taken.
func (q *request) end() {
	for _, f := range q.ends {
		f()
	}
	q.s.opt.Limits.GiveLong(q.taken)
}

// admit checks a request before it costs anything, and reads its body.
func (q *request) admit() (err error) {
	h := q.w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	var none error
	q.route, q.path, none = find(q.r)
	if q.s.opt.Hosts != nil {
		if name, ok := q.s.opt.Hosts.Has(q.r); !ok {
			return faultf(http.StatusMisdirectedRequest, "host", "%.200q is not a name of this node: ask by an IP address, or start with --admin-hosts", name)
		}
	}
	if !origin.IsOwnPage(q.r) {
		return faultf(http.StatusForbidden, "origin", "a request from a page of another site: enter the address in the browser itself")
	}
	if none != nil {
		return none
	}
	if q.query, err = url.ParseQuery(q.r.URL.RawQuery); err != nil {
		return badRequest("what follows the path can't be read: %v", err)
	}
	for name, values := range q.query {
		if !slices.Contains(q.route.params, name) {
			return badRequest("%.100q is not a parameter of %s %s; GET /openapi.json lists all", name, q.route.method, q.route.path)
		}
		if len(values) > 1 && name != "element" {
			return badRequest("parameter %s is given twice", name)
		}
	}
	if err := q.identify(); err != nil {
		return err
	}
	if err := q.permit(); err != nil {
		return err
	}
	if err := q.readBody(); err != nil || len(q.body) == 0 {
		return err
	}
	return q.permit() // the token may have been removed while the body came
}

// identify takes the client's token from the request.
func (q *request) identify() error {
	if learned := q.s.opt.Learned; q.route.verb != 0 && learned != nil && !learned(q.ctx) {
		return tokens.ErrUnlearned
	}
	q.grant = q.s.opt.Tokens.Anonymous()
	if given := q.r.Header.Get("Authorization"); given != "" && q.route.verb != 0 {
		scheme, secret, _ := strings.Cut(given, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return faultf(http.StatusUnauthorized, "token", "the token comes as Authorization: Bearer")
		}
		grant, err := q.s.opt.Tokens.Authenticate([]byte(strings.TrimSpace(secret)))
		if err == nil {
			q.grant = grant
		} else if !errors.Is(err, tokens.ErrNone) {
			return err
		}
	}
	return nil
}

// permit returns an error unless the client's token permits the request.
func (q *request) permit() error {
	key, isSet := q.path["key"]
	_, inBucket := q.path["bucket"]
	filter, isFilter := q.path["filter"]
	switch {
	case q.route.verb == 0:
		return nil
	case q.route.any:
		return q.grant.Valid()
	case isFilter:
		return q.grant.Check(q.route.verb, []byte(filter))
	case isSet:
		return q.name(key)
	case inBucket:
		return q.grant.Valid() // its handler makes a key and then checks the token for it
	}
	return q.grant.Check(q.route.verb, nil)
}

// name sets the set of the request to one in the bucket of its path.
func (q *request) name(key string) error {
	q.set = setname.Name{Type: []byte(q.path["type"]), Bucket: []byte(q.path["bucket"]), Key: []byte(key)}.Set()
	if err := bigset.CheckName(q.set); err != nil {
		return err
	}
	return q.grant.Check(q.route.verb, q.set)
}

// take takes memory from the bytes that all long requests and answers of the node share, until the request ends.
func (q *request) take(n int64) error {
	if !q.s.opt.Limits.TakeLong(n) {
		return faultf(http.StatusServiceUnavailable, "unavailable", door.NoRoom)
	}
	q.taken += n
	return nil
}

// give returns some of the memory before the request ends.
func (q *request) give(n int64) {
	q.s.opt.Limits.GiveLong(n)
	q.taken -= n
}

// readBody reads the body of a request, if it has one. The time for it is bounded, with one more second for each 256 KiB.
func (q *request) readBody() error {
	if q.route.body == "" {
		if q.r.ContentLength != 0 {
			return badRequest("%s %s has no body", q.route.method, q.route.path)
		}
		q.read = true
		return nil
	}
	kind, _, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if q.r.ContentLength != 0 && (err != nil || kind != q.route.body) {
		return faultf(http.StatusUnsupportedMediaType, "content_type", "the body is JSON: send it with Content-Type: application/json")
	}
	if e := q.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return faultf(http.StatusUnsupportedMediaType, "content_type", "the body is not compressed")
	}
	most := int64(q.s.opt.RequestBytesMax)
	if q.r.ContentLength > most {
		return q.tooLong()
	}
	control := http.NewResponseController(q.w)
	deadline := time.Now().Add(q.s.opt.RequestTime)
	_ = control.SetReadDeadline(deadline) // connections in tests have none
	room := min(most, max(512, q.r.ContentLength)) + 1
	if q.r.ContentLength < 0 {
		room = bodyBytesKept
	}
	body := make([]byte, 0, min(room, bodyBytesKept))
	for {
		if len(body) == cap(body) {
			if int64(len(body)) > most {
				return q.tooLong()
			}
			size := min(2*int64(cap(body)), most+1)
			if err := q.take(size - q.taken); err != nil { // nothing else has been taken yet
				return err
			}
			_ = control.SetReadDeadline(deadline.Add(time.Duration(size) * time.Second / (256 << 10)))
			body = append(make([]byte, 0, size), body...)
		}
		n, err := q.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return faultf(http.StatusRequestTimeout, "body", "the body did not come in time, or not as it was announced")
		}
	}
	_ = control.SetReadDeadline(time.Time{})
	if int64(len(body)) > most {
		return q.tooLong()
	}
	q.body, q.read = body, true
	return nil
}

func (q *request) tooLong() error {
	return faultf(http.StatusRequestEntityTooLarge, "too_long", "the body has more than %d bytes; send it in parts", q.s.opt.RequestBytesMax)
}

// timeoutMost is the largest timeout that is accepted, in milliseconds. A timeout above Options.ExecuteTime means that time.
const timeoutMost = 3_600_000

// execute gives the request a place among those being executed, and a time, and runs it. What needs no token waits for nothing, and needs no
// place: a node that is full is healthy.
func (q *request) execute() error {
	if q.route.verb == 0 {
		return q.route.run(q)
	}
	places := q.s.requests
	if q.route.stream {
		places = q.s.streams
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		return faultf(http.StatusServiceUnavailable, "unavailable", "%d requests are being executed, as many as may be", cap(places))
	}
	if !q.route.stream {
		took := q.s.opt.ExecuteTime
		if slices.Contains(q.route.params, "timeout") {
			n, err := q.number("timeout", 0, 1, timeoutMost)
			if err != nil {
				return err
			}
			if n > 0 {
				took = min(took, time.Duration(n)*time.Millisecond)
			}
		}
		ctx, cancel := context.WithTimeout(q.ctx, took)
		q.ctx = ctx
		defer cancel()
	}
	return q.route.run(q)
}

// mayBeSet returns why the set of the request can't be changed: clients of redis would see a filter under its name.
func (q *request) mayBeSet() error {
	key, ok := setname.Key(q.set)
	if !ok {
		return nil
	}
	f, err := q.filterOf(key)
	if err == nil && f != nil {
		err = faultf(http.StatusConflict, "kind", "%.100q is a bloom filter", key)
	}
	return err
}

// filterOf returns the filter with a name, or nil.
func (q *request) filterOf(name []byte) (door.Filter, error) {
	if len(name) == 0 || len(name) > filterNameBytesMax {
		return nil, nil
	}
	f, err := q.s.filters.Find(q.ctx, name)
	if errors.Is(err, bigset.ErrNoFilter) {
		return nil, nil
	}
	return f, err
}
