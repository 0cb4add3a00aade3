package rest

import (
	"fmt"
	"net/http"

	"bigset/keyscheme"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// Names in a list.
const (
	namesDefault = 100
	namesMost    = 1000
	namesLooked  = 100_000 // that are looked at, where a token hides most
)

// listSets answers sets in an order that is none of their names: {"sets":[{"type":...,"bucket":...,"key":...,"live":n,"seen":n}],"after":...}. With all there are also those
// that are empty. A name that no path has is given as it is. What the token hides is left out.
func (q *request) listSets() error {
	all, err := q.flag("all", false)
	if err != nil {
		return err
	}
	after, err := q.token("after")
	if err != nil {
		return err
	}
	limit, err := q.number("limit", namesDefault, 1, namesMost)
	if err != nil {
		return err
	}
	a := &whole{q: q}
	err = a.raw(`{"sets":[`)
	n, looked, last, more := 0, 0, []byte{}, false
	for name, e := range q.s.sets.Names(q.ctx, all, after) {
		if e != nil {
			return e
		}
		if more = n == limit || looked == namesLooked; more {
			break
		}
		looked++
		last = append(last[:0], name.Set...)
		if !q.grant.May(tokens.Read, name.Set) {
			continue
		}
		b := []byte("{")
		if n > 0 {
			b = []byte(",{")
		}
		if at, ok := setname.Split(name.Set); ok {
			b = append(appendField(b, "type", at.Type), ',')
			b = append(appendField(b, "bucket", at.Bucket), ',')
			b = appendField(b, "key", at.Key)
		} else {
			b = appendField(b, "name", name.Set)
		}
		n++
		if err = a.raw(string(fmt.Appendf(b, `,"live":%d,"seen":%d}`, name.Live, name.Seen))); err != nil {
			return err
		}
	}
	if err == nil {
		err = a.raw("]")
	}
	if err == nil && more {
		if err = a.raw(`,"after":`); err == nil {
			err = a.context(last)
		}
	}
	if err == nil {
		err = a.raw("}")
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}

// listFilters answers filters in the order of their names: {"filters":[...],"after":...}.
func (q *request) listFilters() error {
	l, err := q.filterListing()
	if err != nil {
		return err
	}
	infos, err := q.s.filters.List(q.ctx, l)
	if err != nil {
		return err
	}
	a := &whole{q: q}
	err = a.raw(`{"filters":[`)
	n := 0
	for i := range infos {
		f := &infos[i]
		if !q.grant.May(tokens.Read, []byte(f.Name)) {
			continue
		}
		if n++; n > 1 && err == nil {
			err = a.raw(",")
		}
		if err == nil {
			err = a.raw(string(appendFilter(nil, f)))
		}
	}
	if err == nil {
		err = a.raw("]")
	}
	if err == nil && len(infos) == l.Most {
		if err = a.raw(`,"after":`); err == nil {
			err = a.raw(`"` + keyscheme.EncodeText([]byte(infos[len(infos)-1].Name)) + `"`)
		}
	}
	if err == nil {
		err = a.raw("}")
	}
	if err != nil {
		return err
	}
	return a.send(http.StatusOK)
}
