// Package dots reads and prints dots and clocks as the scripts in testdata write them. A dot is an actor of one letter and a
// counter, such as n1; a clock is dots and runs, such as n1-5 m2.
package dots

import (
	"fmt"
	"strconv"
	"strings"

	"bigset/clock"
)

// Clock reads a clock: words of dots and runs.
func Clock(words []string) (*clock.Clock, error) {
	c := &clock.Clock{}
	for _, w := range words {
		for _, f := range strings.Fields(w) {
			head, tail, run := strings.Cut(f, "-")
			d, err := Dot(head)
			if err != nil {
				return nil, err
			}
			last := d.Counter
			if run {
				if last, err = strconv.ParseUint(tail, 10, 64); err != nil || last < d.Counter {
					return nil, fmt.Errorf("dots: %q is no run", f)
				}
			}
			c.AddRange(d.Actor, d.Counter, last)
		}
	}
	return c, nil
}

// Dot reads one dot.
func Dot(word string) (clock.Dot, error) {
	if len(word) < 2 {
		return clock.Dot{}, fmt.Errorf("dots: %q is no dot", word)
	}
	n, err := strconv.ParseUint(word[1:], 10, 64)
	if err != nil || n == 0 {
		return clock.Dot{}, fmt.Errorf("dots: %q is no dot", word)
	}
	return clock.Dot{Actor: clock.Actor(word[:1]), Counter: n}, nil
}

// Text prints a clock as Clock reads it, in braces.
func Text(c *clock.Clock) string {
	var runs []string
	for r := range c.Runs() {
		if r.First == r.Last {
			runs = append(runs, fmt.Sprintf("%s%d", r.Actor, r.First))
		} else {
			runs = append(runs, fmt.Sprintf("%s%d-%d", r.Actor, r.First, r.Last))
		}
	}
	return "{" + strings.Join(runs, " ") + "}"
}

// List prints dots in their order, in braces.
func List(list []clock.Dot) string {
	var words []string
	for _, d := range list {
		words = append(words, fmt.Sprintf("%s%d", d.Actor, d.Counter))
	}
	return "{" + strings.Join(words, " ") + "}"
}
