package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

// input decodes a JSON body. After the first error it reads nothing more, and err is that error.
type input struct {
	d      *json.Decoder
	base64 bool // elements are base64
	err    error
}

// newInput returns a decoder of a body. It checks the text first, because encoding/json replaces invalid text by U+FFFD.
func newInput(body []byte, inBase64 bool) *input {
	in := &input{d: json.NewDecoder(bytes.NewReader(body)), base64: inBase64}
	if !isText(body) {
		in.fail("the body is not UTF-8, or half of a surrogate pair is escaped in it; elements that are not text come with encoding=base64")
	}
	in.d.UseNumber()
	return in
}

// isText reports whether JSON is UTF-8 and contains only escapes of whole characters.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	escape := func(b []byte) (rune, bool) {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		return rune(n), err == nil
	}
	for {
		i := bytes.IndexByte(b, '\\') // only strings contain one
		if i < 0 || i+1 == len(b) {
			return true
		}
		b = b[i:]
		r, ok := escape(b)
		switch {
		case !ok:
			b = b[2:]
		case !utf16.IsSurrogate(r):
			b = b[6:]
		default:
			low, ok := escape(b[6:])
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return false
			}
			b = b[12:]
		}
	}
}

func (in *input) fail(format string, args ...any) {
	if in.err == nil {
		in.err = badRequest(format, args...)
	}
}

func (in *input) token() json.Token {
	if in.err != nil {
		return nil
	}
	t, err := in.d.Token()
	if err != nil {
		in.fail("the body is not JSON: %v, after byte %d", err, in.d.InputOffset())
	}
	return t
}

// end returns the first error.
func (in *input) end() error {
	if in.err == nil {
		if _, err := in.d.Token(); err != io.EOF {
			in.fail("more follows the JSON of the body, at byte %d", in.d.InputOffset())
		}
	}
	return in.err
}

// object reads an object. field reads the value of a name and reports whether it knows the name.
func (in *input) object(what string, field func(name string) bool) {
	if in.token() != json.Delim('{') {
		in.fail("%s is a JSON object", what)
	}
	in.fields(what, field)
}

func (in *input) fields(what string, field func(name string) bool) {
	seen := map[string]bool{}
	for in.err == nil && in.d.More() {
		name, _ := in.token().(string)
		if seen[name] {
			in.fail("%.50q comes twice in %s", name, what)
		} else if seen[name] = true; in.err == nil && !field(name) {
			in.fail("%.50q is not a field of %s", name, what)
		}
	}
	in.token()
}

// list reads an array.
func (in *input) list(what string, item func()) {
	if in.token() != json.Delim('[') {
		in.fail("%s is a JSON array", what)
	}
	for in.err == nil && in.d.More() {
		item()
	}
	in.token()
}

func (in *input) str(what string) string {
	s, ok := in.token().(string)
	if !ok {
		in.fail("%s is a JSON string", what)
	}
	return s
}

// errEmpty is the error of a change that removes something and has an empty context: the request that should have brought it may have failed, and
// without a context more would be removed than the client has seen.
var errEmpty = badRequest("context is empty: leave it out to remove what the set has, whether you have seen it or not")

func (in *input) context() (t door.Token) {
	t, err := tokenOf("context", in.str("context"))
	if err != nil && in.err == nil {
		in.err = err
	}
	return t
}

// bytes returns the element or key that a string stands for.
func (in *input) bytes(what, s string) []byte {
	most := keyscheme.ElementBytesMax
	if in.base64 {
		most = base64.StdEncoding.EncodedLen(most)
	}
	if len(s) > most { // before the string is copied
		in.fail("%s has more than %d bytes", what, keyscheme.ElementBytesMax)
		return nil
	}
	b := []byte(s)
	if in.base64 {
		var err error
		if b, err = base64.StdEncoding.Strict().DecodeString(s); err != nil {
			in.fail("%s is base64 with padding: %v", what, err)
		}
	}
	if len(b) > keyscheme.ElementBytesMax {
		in.fail("%s has %d bytes, at most %d", what, len(b), keyscheme.ElementBytesMax)
	}
	return b
}

// op reads an element, or an object with an element and its context.
func (in *input) op(kind keyscheme.Op, what string) door.Op {
	op := door.Op{Kind: kind}
	switch t := in.token().(type) {
	case string:
		op.Element = in.bytes(what, t)
	case json.Delim:
		if t != '{' {
			in.fail("%s has strings, or objects with an element and its context", what)
		}
		has := false
		in.fields(what, func(name string) bool {
			switch name {
			case "element":
				op.Element, has = in.bytes(what, in.str("element")), true
			case "context":
				if op.Context = in.context(); len(op.Context) == 0 && kind == keyscheme.OpRemove && in.err == nil {
					in.err = errEmpty
				}
			default:
				return false
			}
			return true
		})
		if !has {
			in.fail("an object in %s has no element", what)
		}
	default:
		in.fail("%s has strings, or objects with an element and its context", what)
	}
	return op
}

// An operation, an element or a key takes about opBytes of memory besides its bytes. This memory is taken for opsTaken of them at a time.
const (
	opBytes  = 96
	opsTaken = 1024
)

// takeElements takes memory for the elements of a long body and for its longest string, which the JSON decoder copies up to three times.
func (q *request) takeElements() error {
	if len(q.body) <= bodyBytesKept {
		return nil
	}
	return q.take(int64(len(q.body) + 3*longestString(q.body)))
}

// takeContext takes memory for the context in a long body, as bytes and as a clock.
func (q *request) takeContext() error {
	if len(q.body) <= bodyBytesKept {
		return nil
	}
	return q.take(2 * int64(len(q.body)))
}

// longestString returns the length of the longest string in JSON, in its escaped form.
func longestString(b []byte) (most int) {
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return most
		}
		b = b[i+1:]
		n := 0
		for ; n < len(b) && b[n] != '"'; n++ {
			if b[n] == '\\' {
				n++
			}
		}
		most = max(most, min(n, len(b)))
		if n >= len(b) {
			return most
		}
		b = b[n+1:]
	}
}

// takeOps takes memory for more operations when there are n. The first ones are free. It counts them because a short body may contain many,
// each of no bytes.
func (q *request) takeOps(n int) error {
	if n == 0 || n%opsTaken > 0 {
		return nil
	}
	return q.take(opBytes * opsTaken)
}

// changes reads the operations of a body, in their order there, and their context.
func (q *request) changes() (ops []door.Op, context door.Token, err error) {
	inBase64, err := q.inBase64()
	if err != nil {
		return nil, nil, err
	}
	in := newInput(q.body, inBase64)
	if err := q.takeElements(); err != nil {
		return nil, nil, err
	}
	empty, removes := false, false
	add := func(kind keyscheme.Op, what string) {
		removes = removes || kind == keyscheme.OpRemove
		if err := q.takeOps(len(ops)); err != nil && in.err == nil {
			in.err = err
		}
		if len(ops) == bigset.BatchOpsMax && in.err == nil {
			in.err = faultf(http.StatusRequestEntityTooLarge, "limit", "a request changes at most %d elements; send them in parts", bigset.BatchOpsMax)
		}
		ops = append(ops, in.op(kind, what))
	}
	in.object("the change of a set", func(name string) bool {
		switch name {
		case "add":
			add(keyscheme.OpAdd, name)
		case "remove":
			add(keyscheme.OpRemove, name)
		case "add_all":
			in.list(name, func() { add(keyscheme.OpAdd, name) })
		case "remove_all":
			in.list(name, func() { add(keyscheme.OpRemove, name) })
		case "context":
			context = in.context()
			empty = len(context) == 0
		default:
			return false
		}
		return true
	})
	if err := in.end(); err != nil {
		return nil, nil, err
	}
	switch {
	case len(ops) == 0:
		return nil, nil, badRequest("no change is requested: give add, add_all, remove or remove_all")
	case empty && removes:
		return nil, nil, errEmpty
	}
	return ops, context, nil
}

// elementsMost is how many elements or keys one request may ask about or mark.
const elementsMost = 10_000

// elements reads a body with one array of elements or keys.
func (q *request) elements(field string) (list [][]byte, err error) {
	inBase64, err := q.inBase64()
	if err != nil {
		return nil, err
	}
	in := newInput(q.body, inBase64)
	if err := q.takeElements(); err != nil {
		return nil, err
	}
	in.object("the body", func(name string) bool {
		if name != field {
			return false
		}
		in.list(field, func() {
			if err := q.takeOps(len(list)); err != nil && in.err == nil {
				in.err = err
			}
			if len(list) == elementsMost && in.err == nil {
				in.err = faultf(http.StatusRequestEntityTooLarge, "limit", "at most %d %s in one request; send them in parts", elementsMost, field)
			}
			list = append(list, in.bytes(field, in.str(field)))
		})
		return true
	})
	if err := in.end(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, badRequest("no %s are given", field)
	}
	return list, nil
}
