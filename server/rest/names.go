package rest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// Names in a list.
const (
	namesDefault = 100
	namesMost    = 1000
	namesLooked  = 100_000 // to look at, if most are not in the list
)

// listSets answers with sets, in an order that is not the order of their names:
// {"sets":[{"type":...,"bucket":...,"key":...,"live":n,"seen":n}],"after":...}. With all, the list includes empty sets. A name that no path
// can have is given unchanged. Sets that the token hides are left out. With type, bucket and prefix, which is one of keys, the list has only
// the sets that match all that are given; an empty type or bucket is one, an empty prefix is none.
func (q *request) listSets() error {
	all, err := q.flag("all", false)
	if err != nil {
		return err
	}
	after, err := q.setsAfter()
	if err != nil {
		return err
	}
	limit, err := q.number("limit", namesDefault, 1, namesMost)
	if err != nil {
		return err
	}
	wanted := q.setsWanted()
	a := &whole{q: q}
	err = a.raw(`{"sets":[`)
	n, looked, last, shown, more := 0, 0, []byte{}, true, false
	end := q.half()
	for name, e := range q.s.sets.Names(q.ctx, all, after) {
		if e != nil {
			return e
		}
		if more = n == limit || looked == namesLooked || looked > 0 && time.Now().After(end); more {
			break
		}
		looked++
		last = append(last[:0], name.Name...)
		at, isNamed := setname.Split(name.Name)
		if shown = q.grant.May(tokens.Read, name.Name); !shown || !wanted(at, isNamed) {
			continue
		}
		b := []byte("{")
		if n > 0 {
			b = []byte(",{")
		}
		if isNamed {
			b = append(appendField(b, "type", at.Type), ',')
			b = append(appendField(b, "bucket", at.Bucket), ',')
			b = appendField(b, "key", at.Key)
		} else {
			b = appendField(b, "name", name.Name)
		}
		n++
		if err = a.raw(string(fmt.Appendf(b, `,"live":%d,"seen":%d}`, name.Live, name.Seen))); err != nil {
			return err
		}
	}
	if err == nil {
		err = q.grant.Valid() // if the token was removed during the list, sets are missing
	}
	if err == nil {
		err = a.raw("]")
	}
	if err == nil && more {
		if err = a.raw(`,"after":`); err == nil {
			err = a.context(q.s.cursor(last, shown))
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

// setsWanted reads the parameters that select sets for a list, and returns what reports whether a set is selected.
func (q *request) setsWanted() func(n setname.Name, isNamed bool) bool {
	typ, bucket, prefix := q.param("type"), q.param("bucket"), q.bytes("prefix")
	anyType, anyBucket := !q.query.Has("type"), !q.query.Has("bucket") // both may be empty
	all := anyType && anyBucket && prefix == nil
	return func(n setname.Name, isNamed bool) bool {
		return all || isNamed && (anyType || string(n.Type) == typ) && (anyBucket || string(n.Bucket) == bucket) && bytes.HasPrefix(n.Key, prefix)
	}
}

// half returns the time at which half of the request's time has passed. A list ends its page then; otherwise its time could end during a
// page whose names cost a quorum each.
func (q *request) half() time.Time {
	now := time.Now()
	if end, ok := q.ctx.Deadline(); ok {
		return now.Add(end.Sub(now) / 2)
	}
	return now.Add(q.s.opt.ExecuteTime / 2)
}

// The first byte of the cursor of a list of sets.
const (
	cursorPlain  = 0 // the name follows
	cursorSealed = 1 // the name follows, sealed with a key of this server: the token may not see it
)

// cursor returns the cursor of a list that ended with a set.
func (s *Server) cursor(set []byte, shown bool) door.Token {
	if shown {
		return append(door.Token{cursorPlain}, set...)
	}
	return s.hidden.Seal(door.Token{cursorSealed}, nil, set, nil)
}

// setsAfter returns the set after which a list of sets begins, or nil for the first page.
func (q *request) setsAfter() ([]byte, error) {
	t, err := q.token("after")
	switch {
	case err != nil || len(t) == 0:
		return nil, err
	case t[0] == cursorPlain:
		return t[1:], nil
	case t[0] == cursorSealed:
		if set, err := q.s.hidden.Open(nil, nil, t[1:], nil); err == nil {
			return set, nil
		}
	}
	return nil, badRequest("after is of no list that this node gave since it was started: begin with the first page")
}

// newHidden returns the cipher for names that clients may not see, with a key that only this server has.
func newHidden() (cipher.AEAD, error) {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// listFilters answers with filters in the order of their names: {"filters":[...],"after":...}.
func (q *request) listFilters() error {
	l, err := q.filterListing()
	if err != nil {
		return err
	}
	var infos []door.FilterInfo
	if may, ok := q.grant.Prefix(tokens.Read); ok && (bytes.HasPrefix(may, l.Prefix) || bytes.HasPrefix(l.Prefix, may)) {
		if len(may) > len(l.Prefix) {
			l.Prefix = may // so all names of the list are visible to the token, including the one in after
		}
		if infos, err = q.s.filters.List(q.ctx, l); err != nil {
			return err
		}
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
		err = q.grant.Valid() // if the token was removed during the list, filters are missing
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
