package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/setname"
)

const filterNameBytesMax = keyscheme.FilterNameBytesMax

// appendFilter appends the information about a filter.
func appendFilter(dst []byte, f *door.FilterInfo) []byte {
	dst = appendField(append(dst, '{'), "name", []byte(f.Name))
	return fmt.Appendf(dst, `,"capacity":%d,"size":%d,"storage_bytes":%d,"probability":%v,"in_memory":%v,"loaded":%v,"check_hits":%d,"check_misses":%d,"set_hits":%d,"set_misses":%d}`,
		f.Capacity, f.Size, f.Storage, f.Probability, f.Volatile, f.InMemory, f.CheckHits, f.CheckMisses, f.SetHits, f.SetMisses)
}

func (q *request) filterListing() (l door.FilterListing, err error) {
	l.Prefix = q.bytes("prefix")
	after, err := q.token("after")
	if err != nil {
		return l, err
	}
	l.After = string(after)
	l.Most, err = q.number("limit", namesDefault, 1, namesMost)
	return l, err
}

// forFilter returns the filter of the request.
func (q *request) forFilter() (door.Filter, error) {
	f, err := q.filterOf([]byte(q.path["filter"]))
	if err == nil && f == nil {
		err = bigset.ErrNoFilter
	}
	return f, err
}

// filterInfo answers with the information about a filter.
func (q *request) filterInfo() error {
	f, err := q.forFilter()
	if err != nil {
		return err
	}
	info, err := f.Info(q.ctx, false)
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, typeJSON, append(appendFilter(nil, &info), '\n'))
}

// filterCreate makes a filter unless it exists. The status is 201 or 200. The optional body says how large the filter is.
func (q *request) filterCreate() error {
	name := []byte(q.path["filter"])
	if len(name) == 0 || len(name) > filterNameBytesMax || bytes.ContainsAny(name, "\x00\t\r\n ") {
		return badRequest("the name of a filter has 1 to %d bytes, no spaces, tabs, line breaks or zero bytes among them: bloomd's protocol has names in lines", filterNameBytesMax)
	}
	var o door.FilterCreate
	if len(q.body) > 0 {
		in := newInput(q.body, false)
		in.object("a filter", func(field string) bool {
			switch field {
			case "capacity":
				o.Capacity = new(in.uint(field))
			case "probability":
				o.Probability = new(in.float(field))
			case "in_memory":
				b, ok := in.token().(bool)
				if !ok {
					in.fail("in_memory is true or false")
				}
				o.InMemory = &b
			default:
				return false
			}
			return true
		})
		if err := in.end(); err != nil {
			return err
		}
	}
	is, err := q.isSet(setname.OfKey(name))
	if err != nil {
		return err
	}
	if is {
		return faultf(http.StatusConflict, "kind", "%.100q is a set", name)
	}
	created, err := q.s.filters.Create(q.ctx, name, o)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	out := struct {
		Created bool   `json:"created"`
		Message string `json:"message,omitempty"`
	}{Created: created}
	if !created && o != (door.FilterCreate{}) {
		out.Message = "the filter exists: its options are not changed"
	}
	return q.json(status, out)
}

func (in *input) uint(what string) uint64 {
	n, _ := in.token().(json.Number)
	v, err := strconv.ParseUint(n.String(), 10, 64)
	if err != nil {
		in.fail("%s is a whole number", what)
	}
	return v
}

func (in *input) float(what string) float64 {
	n, _ := in.token().(json.Number)
	v, err := n.Float64()
	if err != nil {
		in.fail("%s is a number", what)
	}
	return v
}

// isSet reports whether a set contains elements.
func (q *request) isSet(set []byte) (bool, error) {
	for part, err := range q.s.sets.Read(q.ctx, door.Read{Set: set, Limit: 1, Batch: 1, Bare: true}) {
		if unheard(err) {
			return false, nil
		}
		if err != nil || len(part.Elements) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// filterDrop removes a filter for good.
func (q *request) filterDrop() error {
	if _, err := q.forFilter(); err != nil {
		return err
	}
	if err := q.s.filters.Drop(q.ctx, []byte(q.path["filter"])); err != nil {
		return err
	}
	q.begun = true
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// filterAdd adds keys and answers for each whether it was new: {"added":[...]}.
func (q *request) filterAdd() error {
	return q.keys("added", func(f door.Filter, ctx context.Context, keys [][]byte, added []bool) error {
		err := f.Set(ctx, keys, added)
		if err == nil || len(keys) == 1 || errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, door.ErrUnavailable) {
			return err
		}
		return &partly{err}
	})
}

// partly is the error of a change of several keys, some of which may have been made.
type partly struct{ err error }

func (e *partly) Error() string {
	return "some of the keys may be added: " + door.Text(e.err)
}
func (e *partly) Unwrap() error { return e.err }

// filterContains answers for each key whether the filter may contain it: {"present":[...]}.
func (q *request) filterContains() error {
	return q.keys("present", door.Filter.Check)
}

func (q *request) keys(answer string, do func(door.Filter, context.Context, [][]byte, []bool) error) error {
	keys, err := q.elements("keys")
	if err != nil {
		return err
	}
	f, err := q.forFilter()
	if err != nil {
		return err
	}
	yes := make([]bool, len(keys))
	if err := do(f, q.ctx, keys, yes); err != nil {
		return err
	}
	return q.json(http.StatusOK, map[string][]bool{answer: yes})
}
