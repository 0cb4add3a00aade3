package convergence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Counter is the PN-counter: Elem names a counter, "inc" and "dec" change it by the number in Arg. A view shows it as an Item with
// its number in Values; a counter that is not shown is 0.
type Counter struct {
	// Most is the largest number in an Arg, at most 2^54: the sums have to fit 64 bits. 0 is 70,000, which is more than fits 16 bits. The
	// usual numbers are below 10.
	Most int64
	// Signed: the number in an Arg may be negative, so that "inc" lowers the counter and "dec" raises it.
	Signed bool
}

// countMost lets 511 operations of one schedule have the largest number. About one in a thousand has it.
const countMost = 1 << 54

// bounded returns an error if the numbers could exceed 64 bits. A Spec that embeds a Counter has this method too.
func (c Counter) bounded() error {
	if c.Most > countMost {
		return fmt.Errorf("Counter.Most is %d, the maximum is %d: the sums have to fit 64 bits", c.Most, int64(countMost))
	}
	return nil
}

// Gen implements Spec.
func (c Counter) Gen(r *rand.Rand, elems []string) Op {
	kind := "inc"
	if r.IntN(3) == 0 {
		kind = "dec"
	}
	elem := elems[r.IntN(len(elems))]
	most := c.Most
	if most <= 0 {
		most = 70_000
	}
	n := 1 + r.Int64N(min(most, 9))
	switch k := r.IntN(512); { // large ones are rare: a type that can only count by one does so
	case k < 2:
		n = max(1, most>>r.IntN(4))
	case k < 32:
		n = 1 + r.Int64N(min(most, 300))
	}
	if c.Signed && r.IntN(4) == 0 {
		n = -n
	}
	return Op{Kind: kind, Elem: elem, Arg: strconv.AppendInt(nil, n, 10)}
}

// zero is what a counter shows that no operation has changed. One that a refused operation named may be shown.
var zero = []string{"0"}

// Judge implements Spec.
func (Counter) Judge(r *Reading) *Violation {
	for _, it := range r.View.Items {
		if _, named := r.h.elems[it.Elem]; !named && !slices.Equal(it.Values, zero) {
			return bad(Phantom, "%q shows %q, but no operation named it", it.Elem, it.Values)
		}
	}
	for _, elem := range r.h.order {
		low, high := int64(0), int64(0)
		r.h.on(elem).each(func(i int) bool {
			e := &r.h.events[i]
			n, _ := strconv.ParseInt(string(e.Op.Arg), 10, 64)
			if e.Op.Kind == "dec" {
				n = -n
			}
			if r.must.has(i) {
				low, high = low+n, high+n
			} else if r.may.has(i) {
				low, high = low+min(n, 0), high+max(n, 0)
			}
			return true
		})
		it, _ := r.shown(elem)
		have, err := int64(0), error(nil)
		if len(it.Values) > 0 {
			have, err = strconv.ParseInt(it.Values[0], 10, 64)
		}
		switch {
		case err != nil || len(it.Values) > 1:
			return bad(Failed, "%q shows %q, want one number", elem, it.Values)
		case have < low && low == high, have > high && low == high:
			return bad(lossOr(have < low), "%q is %d, want %d", elem, have, low)
		case have < low || have > high:
			return bad(lossOr(have < low), "%q is %d, want %d to %d", elem, have, low, high)
		}
	}
	return nil
}

// Same implements Comparer: a counter that is not shown is 0.
func (Counter) Same(a, b View) bool {
	return maps.Equal(numbers(a), numbers(b))
}

// numbers returns the counters that are not 0.
func numbers(v View) map[string]int64 {
	all := map[string]int64{}
	for _, it := range v.Items {
		if len(it.Values) > 0 {
			if n, _ := strconv.ParseInt(it.Values[0], 10, 64); n != 0 { // Judge has checked them
				all[it.Elem] = n
			}
		}
	}
	return all
}

func lossOr(less bool) string {
	if less {
		return Lost
	}
	return Phantom
}

// Register is the multi-value register: Elem names a register, "set" gives it the value in Arg and replaces the values that its
// author had observed. A view shows the values that were not replaced, in Values.
type Register struct{}

// Gen implements Spec.
func (Register) Gen(r *rand.Rand, elems []string) Op {
	return Op{Kind: "set", Elem: elems[r.IntN(len(elems))], Arg: someValue(r)}
}

// oddValues are easily taken for no value, or changed by a codec.
var oddValues = []string{"", "\x00", " ", "\u00e9", "\xff", "null", strings.Repeat("x", 300)}

// someValue draws a value: mostly a number, often one that others draw, too, and sometimes an odd one.
func someValue(r *rand.Rand) []byte {
	n := r.IntN(1000)
	switch k := r.IntN(16); {
	case k == 0:
		return []byte(oddValues[n%len(oddValues)])
	case k < 6:
		n %= 3
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// Judge implements Spec.
func (Register) Judge(r *Reading) *Violation {
	for _, it := range r.View.Items {
		for _, value := range it.Values {
			if !r.any(it.Elem, "set", &r.may, func(i int) bool {
				return string(r.h.events[i].Op.Arg) == value && !r.any(it.Elem, "set", &r.must, func(j int) bool { return r.h.seen[j].has(i) })
			}) {
				return bad(Resurrected, "%q shows %q, which was never set or was replaced", it.Elem, value)
			}
		}
	}
	for _, elem := range r.h.order {
		it, _ := r.shown(elem)
		var lost *Event
		r.any(elem, "set", &r.must, func(i int) bool {
			e := &r.h.events[i]
			if !slices.Contains(it.Values, string(e.Op.Arg)) && !r.any(elem, "set", &r.may, func(j int) bool { return r.h.guess[j].has(i) }) {
				lost = e
			}
			return lost != nil
		})
		if lost != nil {
			return bad(Lost, "%q does not show %q of step %d, which was not replaced", elem, lost.Op.Arg, lost.Step)
		}
	}
	return nil
}

// Same implements Comparer: a register without values equals one that is not shown.
func (Register) Same(a, b View) bool {
	set := func(v View) []Item {
		return slices.DeleteFunc(slices.Clone(v.Items), func(it Item) bool { return len(it.Values) == 0 })
	}
	return slices.EqualFunc(set(a), set(b), sameItem)
}

// LWWMap is the map in which the operation with the highest time on a key decides: "put" gives Elem the value in Arg, "delete"
// removes it. A view shows a key as an Item with its value in Values. TieAdd favours the put, TieRemove the delete.
type LWWMap struct {
	Tie  Tie
	Time Time
}

// Gen implements Spec.
func (LWWMap) Gen(r *rand.Rand, elems []string) Op {
	op := Op{Kind: "delete", Elem: elems[r.IntN(len(elems))]}
	if r.IntN(100) < 65 {
		op.Kind, op.Arg = "put", someValue(r)
	}
	return op
}

// Judge implements Spec.
func (m LWWMap) Judge(r *Reading) *Violation {
	s := LastWriterWins(m)
	for _, it := range r.View.Items {
		if len(it.Values) != 1 {
			return bad(Failed, "%q shows %q, want one value", it.Elem, it.Values)
		}
		newer := func(kind string, i int) bool {
			return r.any(it.Elem, kind, &r.must, func(j int) bool { return j != i && s.after(r.h, j, i) })
		}
		if !r.any(it.Elem, "put", &r.may, func(i int) bool {
			return string(r.h.events[i].Op.Arg) == it.Values[0] && !newer("put", i) && !newer("delete", i)
		}) {
			return bad(Resurrected, "%q shows %q, which was never put, or is not the last", it.Elem, it.Values[0])
		}
	}
	for _, elem := range r.h.order {
		if _, shown := r.shown(elem); shown {
			continue
		}
		if r.any(elem, "put", &r.must, func(i int) bool {
			return !r.any(elem, "delete", &r.may, func(j int) bool { return !s.after(r.h, i, j) })
		}) {
			return bad(Lost, "%q is not shown, although the last operation on it is a put", elem)
		}
	}
	return nil
}
