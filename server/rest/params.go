package rest

import (
	"slices"
	"strconv"
	"strings"

	"bigset/keyscheme"
	"bigset/server/door"
)

// param returns a parameter of the request; empty means none. The route must name the parameter.
func (q *request) param(name string) string {
	if !slices.Contains(q.route.params, name) {
		panic("rest: " + q.route.name + " reads the parameter " + name + ", which its route does not name")
	}
	if q.s.spy != nil {
		q.s.spy(q.route, name)
	}
	return q.query.Get(name)
}

// bytes returns a parameter that is bytes, percent-encoded if they are not text; nil means none.
func (q *request) bytes(name string) []byte {
	if text := q.param(name); text != "" {
		return []byte(text)
	}
	return nil
}

// number returns a parameter that is a number, or its default.
func (q *request) number(name string, or, least, most int) (int, error) {
	text := q.param(name)
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s is a number from %d to %d, not %.50q", name, least, most, text)
	}
	return n, nil
}

// flag returns a parameter that is true or false.
func (q *request) flag(name string, or bool) (bool, error) {
	switch text := strings.ToLower(q.param(name)); text {
	case "", "default":
		return or, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, badRequest("%s is true or false, not %.50q", name, text)
	}
}

// token returns a parameter that is a context.
func (q *request) token(name string) (door.Token, error) { return tokenOf(name, q.param(name)) }

func tokenOf(name, text string) (door.Token, error) {
	if text == "" {
		return nil, nil
	}
	t, err := keyscheme.DecodeText(text)
	if err != nil {
		return nil, badRequest("%s is not a context that a node gave", name)
	}
	return t, nil
}

// inBase64 reports whether elements are base64 in JSON.
func (q *request) inBase64() (bool, error) {
	switch text := q.param("encoding"); text {
	case "", "utf8":
		return false, nil
	case "base64":
		return true, nil
	default:
		return false, badRequest("encoding is utf8 or base64, not %.50q", text)
	}
}

// replicas returns a parameter that counts replicas as in Riak; 0 means the default of the cluster.
func (q *request) replicas(name string, least int) (n int, given bool, err error) {
	copies := max(1, q.s.opt.Replicas().N)
	switch text := q.param(name); text {
	case "", "default":
		return 0, false, nil
	case "one":
		return 1, true, nil
	case "quorum":
		return copies/2 + 1, true, nil
	case "all":
		return copies, true, nil
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > 255 {
			return 0, false, badRequest("%s is a number of replicas from %d on, or one, quorum, all or default, not %.50q", name, least, text)
		}
		return n, true, nil
	}
}

// reads returns how many replicas a read asks.
func (q *request) reads() (int, error) { return q.atLeast("pr", "r", q.s.opt.Replicas().R) }

// atLeast returns the number of replicas that two parameters ask for together; usual is the default of name. The primary replicas, which
// primary counts, are all replicas, because there are no fallbacks.
func (q *request) atLeast(primary, name string, usual int) (int, error) {
	n, _, err := q.replicas(name, 1)
	if err != nil {
		return 0, err
	}
	least, _, err := q.replicas(primary, 1)
	return door.AtLeast(least, n, usual), err
}

// writes returns how many replicas a change must reach.
func (q *request) writes() (out door.Quorum, err error) {
	if out.W, err = q.atLeast("pw", "w", q.s.opt.Replicas().W); err != nil {
		return out, err
	}
	given := false
	if out.DW, given, err = q.replicas("dw", 0); given && out.DW == 0 {
		out.DW = door.NotDurable
	}
	return out, err
}

// span reads the parameters for a range of elements.
func (q *request) span() (r door.Read, err error) {
	r = door.Read{Set: q.set, From: q.bytes("from"), To: q.bytes("to"), Prefix: q.bytes("prefix")}
	for _, e := range []struct {
		name string
		b    []byte
	}{{"from", r.From}, {"to", r.To}, {"prefix", r.Prefix}} {
		if len(e.b) > keyscheme.ElementBytesMax {
			return r, badRequest("%s has %d bytes, elements have at most %d", e.name, len(e.b), keyscheme.ElementBytesMax)
		}
	}
	r.R, err = q.reads()
	return r, err
}
