package history

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stage is a history whose times are written by hand.
type stage struct {
	at time.Duration
	r  *Recorder
	c  *Client
}

func newStage() *stage {
	s := &stage{}
	s.r = New(func() time.Duration { return s.at })
	s.c = s.r.Client("c")
	return s
}

// run makes an operation from one time to another.
func (s *stage) run(from, to int, o Outcome, begin func(c *Client) *Op) *Op {
	s.at = time.Duration(from)
	op := begin(s.c)
	s.at = time.Duration(to)
	op.End(o, nil)
	return op
}

func (s *stage) add(from, to int, o Outcome, e ...string) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return c.Add("s", e...) })
}

func (s *stage) rm(from, to int, o Outcome, context *Op, e ...string) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return c.Remove("s", context, e...) })
}

func (s *stage) drop(from, to int, o Outcome, context *Op) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return c.RemoveAll("s", context) })
}

// again repeats a request. An acknowledgement of an add of one element names its event.
func (s *stage) again(from, to int, o Outcome, request *Op, event string) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return withEvent(c.Again(request), event) })
}

// added is an add of one element whose answer names its event.
func (s *stage) added(from, to int, o Outcome, e, event string) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return withEvent(c.Add("s", e), event) })
}

// lookEvent is a look-up that finds an element by an event.
func (s *stage) lookEvent(from, to int, e, event string) *Op {
	return s.run(from, to, OK, func(c *Client) *Op {
		op := c.Lookup("s")
		op.Answered(e, true)
		op.Event(e, event)
		return op
	})
}

// lose is a fault that may take what was not acknowledged.
func (s *stage) lose(from, to int) {
	s.at = time.Duration(from)
	end := s.r.Losing()
	s.at = time.Duration(to)
	end()
}

func withEvent(o *Op, event string) *Op {
	if event != "" {
		o.Event(o.items[0], event)
	}
	return o
}

func (s *stage) read(from, to int, e ...string) *Op {
	return s.run(from, to, OK, func(c *Client) *Op { op := c.Read("s"); op.Saw(e...); return op })
}

func (s *stage) look(from, to int, e string, present bool) *Op {
	return s.run(from, to, OK, func(c *Client) *Op { op := c.Lookup("s"); op.Answered(e, present); return op })
}

func (s *stage) mark(from, to int, o Outcome, k ...string) *Op {
	return s.run(from, to, o, func(c *Client) *Op { return c.Mark("s", k...) })
}

func (s *stage) check(from, to int, k string, present bool) *Op {
	return s.run(from, to, OK, func(c *Client) *Op { op := c.Check("s"); op.Answered(k, present); return op })
}

// TestPlanted has histories with one violation each, and for each the nearest one without.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(s *stage)
		want string
	}{
		{"nothing", func(*stage) {}, ""},
		{"seen", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4, "x") }, ""},
		{"lost", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4) }, "lost x"},
		{"lost in a batch", func(s *stage) { s.add(1, 2, OK, "x", "y"); s.read(3, 4, "x") }, "lost y"},
		{"lost by a lookup", func(s *stage) { s.add(1, 2, OK, "x"); s.look(3, 4, "x", false) }, "lost x"},
		{"lost in one of many reads", func(s *stage) {
			s.add(1, 2, OK, "x")
			for i := 3; i < 30; i += 2 {
				if i == 29 {
					s.read(i, i+1)
				} else {
					s.read(i, i+1, "x")
				}
			}
		}, "lost x"},
		{"read began before the acknowledgement", func(s *stage) { s.add(1, 3, OK, "x"); s.read(2, 4) }, ""},
		{"read began with the acknowledgement", func(s *stage) { s.add(1, 3, OK, "x"); s.read(3, 4) }, ""},
		{"unknown", func(s *stage) { s.add(1, 2, Unknown, "x"); s.read(3, 4); s.read(5, 6, "x"); s.read(7, 8) }, ""},
		{"failed", func(s *stage) { s.add(1, 2, Fail, "x"); s.read(3, 4) }, ""},
		{"stale", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4); s.read(5, 6, "x") }, "stale x"},
		{"lost, then added again", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4); s.add(5, 6, OK, "x"); s.read(7, 8, "x") }, "lost x"},
		{"removed", func(s *stage) { s.add(1, 2, OK, "x"); s.rm(3, 4, OK, nil, "x"); s.read(5, 6) }, ""},
		{"removed by nobody knows", func(s *stage) { s.add(1, 2, OK, "x"); s.rm(3, 4, Unknown, nil, "x"); s.read(5, 6) }, ""},
		{"removed while it is read", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 6); s.rm(5, 7, OK, nil, "x") }, ""},
		{"removed after it was read", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4); s.rm(5, 7, OK, nil, "x") }, "lost x"},
		{"a remove that failed", func(s *stage) { s.add(1, 2, OK, "x"); s.rm(3, 4, Fail, nil, "x"); s.read(5, 6) }, "lost x"},
		{"a remove of what was seen before the add", func(s *stage) {
			c := s.read(1, 2)
			s.add(3, 4, OK, "x")
			s.rm(5, 6, OK, c, "x")
			s.read(7, 8)
		}, "lost x"},
		{"an add after the remove", func(s *stage) {
			s.rm(1, 2, OK, nil, "x")
			s.add(3, 4, OK, "x")
			s.read(5, 6)
		}, "lost x"},
		{"an unknown remove without a context may come late", func(s *stage) {
			s.rm(1, 2, Unknown, nil, "x")
			s.add(3, 4, OK, "x")
			s.read(5, 6)
		}, ""},
		{"dropped", func(s *stage) { s.add(1, 2, OK, "x"); s.drop(3, 4, OK, nil); s.read(5, 6) }, ""},
		{"resurrected", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(5, 6, OK, s.read(3, 4, "x"), "x")
			s.read(7, 8, "x")
		}, "resurrected x"},
		{"resurrected by a lookup", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(5, 6, OK, s.look(3, 4, "x", true), "x")
			s.look(7, 8, "x", true)
		}, "resurrected x"},
		{"resurrected after a drop", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.drop(5, 6, OK, s.read(3, 4, "x"))
			s.read(7, 8, "x")
		}, "resurrected x"},
		{"in a read that broke off", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(5, 6, OK, s.read(3, 4, "x"), "x")
			s.run(7, 8, Unknown, func(c *Client) *Op { op := c.Read("s"); op.Saw("x"); return op })
		}, "resurrected x"},
		{"the remove is not acknowledged yet", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(5, 9, OK, s.read(3, 4, "x"), "x")
			s.read(7, 8, "x")
		}, ""},
		{"an unknown remove", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(5, 6, Unknown, s.read(3, 4, "x"), "x")
			s.read(7, 8, "x")
		}, ""},
		{"an add that the context need not have seen", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.add(1, 4, OK, "x")
			s.rm(6, 7, OK, s.read(3, 5, "x"), "x")
			s.read(8, 9, "x")
		}, ""},
		{"the only add, which the context has seen", func(s *stage) {
			s.add(1, 4, OK, "x")
			s.rm(6, 7, OK, s.read(3, 5, "x"), "x")
			s.read(8, 9, "x")
		}, "resurrected x"},
		{"the only add, by a request that was never answered", func(s *stage) {
			s.add(1, 2, Unknown, "x")
			s.rm(6, 7, OK, s.read(3, 5, "x"), "x")
			s.read(8, 9, "x")
		}, "resurrected x"},
		{"an add after the context", func(s *stage) {
			s.add(1, 2, OK, "x")
			c := s.read(3, 4, "x")
			s.add(5, 6, OK, "x")
			s.rm(7, 8, OK, c, "x")
			s.read(9, 10, "x")
		}, ""},
		{"an unknown add from before", func(s *stage) {
			s.add(1, 2, Unknown, "x")
			s.add(3, 4, OK, "x")
			s.rm(7, 8, OK, s.read(5, 6, "x"), "x")
			s.read(9, 10, "x")
		}, ""},
		{"an unknown remove from before the context", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.add(1, 2, OK, "x")
			s.rm(3, 4, Unknown, nil, "x")
			s.rm(7, 8, OK, s.read(5, 6, "x"), "x")
			s.read(9, 10, "x")
		}, ""},
		{"an unknown drop from before the context", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.add(1, 2, OK, "x")
			s.drop(3, 4, Unknown, nil)
			s.rm(7, 8, OK, s.read(5, 6, "x"), "x")
			s.read(9, 10, "x")
		}, ""},
		{"a context without it", func(s *stage) {
			s.add(1, 2, OK, "x")
			s.rm(3, 4, Unknown, nil, "x")
			s.rm(7, 8, OK, s.read(5, 6), "x")
			s.read(9, 10, "x")
		}, ""},
		{"invented", func(s *stage) { s.add(1, 2, OK, "y"); s.read(3, 4, "x", "y") }, "invented x"},
		{"shown before it was added", func(s *stage) { s.read(1, 2, "x"); s.add(3, 4, OK, "x") }, "invented x"},
		{"shown after a failed add", func(s *stage) { s.add(1, 2, Fail, "x"); s.read(3, 4, "x") }, "invented x"},
		{"shown while it is added", func(s *stage) { s.read(1, 4, "x"); s.add(3, 5, OK, "x") }, ""},
		{"twice", func(s *stage) { s.add(1, 2, OK, "x"); s.read(3, 4, "x", "y", "x"); s.add(1, 9, OK, "y") }, "duplicate x"},
		{"denied", func(s *stage) { s.mark(1, 2, OK, "k"); s.check(3, 4, "k", false) }, "denied k"},
		{"denied, and not the next time", func(s *stage) { s.mark(1, 2, OK, "k"); s.check(3, 4, "k", false); s.check(5, 6, "k", true) }, "denied k"},
		{"not denied", func(s *stage) { s.mark(1, 2, OK, "k"); s.check(3, 4, "k", true); s.check(3, 4, "other", true) }, ""},
		{"an unknown mark", func(s *stage) { s.mark(1, 2, Unknown, "k"); s.check(3, 4, "k", false) }, ""},
		{"a check that began before", func(s *stage) { s.mark(1, 3, OK, "k"); s.check(2, 4, "k", false) }, ""},
		{"a dropped filter", func(s *stage) {
			s.mark(1, 2, OK, "k")
			s.run(3, 4, Unknown, func(c *Client) *Op { return c.DropFilter("s") })
			s.mark(5, 6, OK, "k")
			s.check(7, 8, "k", false)
		}, ""},
		{"marked after a drop of which nothing was known until it was repeated", func(s *stage) {
			drop := s.run(1, 2, Unknown, func(c *Client) *Op { return c.DropFilter("s") })
			s.again(3, 4, Unknown, drop, "")
			s.again(5, 6, OK, drop, "")
			s.mark(7, 8, OK, "k")
			s.check(9, 10, "k", false)
		}, "denied k"},
		{"marked before the repetition of a drop was answered", func(s *stage) {
			drop := s.run(1, 2, Unknown, func(c *Client) *Op { return c.DropFilter("s") })
			s.mark(3, 4, OK, "k")
			s.again(3, 6, OK, drop, "")
			s.check(9, 10, "k", false)
		}, ""},
		{"marked after a drop", func(s *stage) {
			s.run(3, 4, OK, func(c *Client) *Op { return c.DropFilter("s") })
			s.mark(5, 6, OK, "k")
			s.check(7, 8, "k", false)
		}, "denied k"},
		{"repeated, with one event", func(s *stage) {
			s.again(3, 4, OK, s.added(1, 2, Unknown, "x", ""), "e1")
			s.lookEvent(5, 6, "x", "e1")
		}, ""},
		{"lost after a repeat settled it", func(s *stage) { s.again(3, 4, OK, s.add(1, 2, Unknown, "x"), ""); s.read(5, 6) }, "lost x"},
		{"a repeat that failed settles nothing", func(s *stage) { s.again(3, 4, Fail, s.add(1, 2, Unknown, "x"), ""); s.read(5, 6) }, ""},
		{"all tries failed", func(s *stage) { s.again(3, 4, Fail, s.add(1, 2, Fail, "x"), ""); s.read(5, 6, "x") }, "invented x"},
		{"shown after a failed try, before the next one", func(s *stage) {
			a := s.add(1, 2, Fail, "x")
			s.read(3, 4, "x")
			s.again(5, 6, OK, a, "")
		}, "invented x"},
		{"two events of one request", func(s *stage) { s.again(3, 4, OK, s.added(1, 2, OK, "x", "e1"), "e2") }, "doubled x"},
		{"two events of one request, in tries that were unknown at first", func(s *stage) {
			a := s.added(1, 2, Unknown, "x", "")
			s.again(5, 6, OK, s.again(3, 4, OK, a, "e1"), "e2")
		}, "doubled x"},
		{"two events of one request, whatever was lost", func(s *stage) {
			a := s.added(1, 2, OK, "x", "e1")
			s.lose(0, 9)
			s.again(3, 4, OK, a, "e2")
		}, "doubled x"},
		{"two requests", func(s *stage) {
			s.added(1, 2, OK, "x", "e1")
			s.added(3, 4, OK, "x", "e2")
			s.lookEvent(5, 6, "x", "e2")
		}, ""},
		{"two events of one of two requests", func(s *stage) {
			a := s.added(1, 2, OK, "x", "e1")
			s.added(3, 4, OK, "x", "e2")
			s.again(5, 6, OK, a, "e3")
		}, "doubled x"},
		{"two events in the set", func(s *stage) { s.added(1, 2, OK, "x", "e1"); s.lookEvent(5, 6, "x", "e1 and e2") }, "doubled x"},
		{"another event before the acknowledgement", func(s *stage) {
			a := s.added(1, 2, Unknown, "x", "")
			s.lookEvent(3, 4, "x", "e1")
			s.again(5, 6, OK, a, "e2")
		}, "doubled x"},
		{"another event that a disk lost before the acknowledgement", func(s *stage) {
			a := s.added(1, 2, Unknown, "x", "")
			s.lookEvent(3, 4, "x", "e1")
			s.lose(4, 5)
			s.again(5, 6, OK, a, "e2")
			s.lookEvent(7, 8, "x", "e2")
		}, ""},
		{"another event after the acknowledgement, whatever was lost before", func(s *stage) {
			a := s.added(1, 2, Unknown, "x", "")
			s.lose(4, 5)
			s.again(5, 6, OK, a, "e2")
			s.lookEvent(7, 8, "x", "e1")
		}, "doubled x"},
		{"a repeat that brings back what was removed", func(s *stage) {
			a := s.add(1, 2, OK, "x")
			s.rm(5, 6, OK, s.look(3, 4, "x", true), "x")
			s.again(7, 8, OK, a, "")
			s.read(9, 10, "x")
		}, "resurrected x"},
		{"a repeat that brings back what was removed before it was known", func(s *stage) {
			a := s.add(1, 2, Unknown, "x")
			s.rm(5, 6, OK, s.look(3, 4, "x", true), "x")
			s.again(7, 8, OK, a, "")
			s.read(9, 10, "x")
		}, "resurrected x"},
		{"the same, after a disk was lost", func(s *stage) {
			a := s.add(1, 2, Unknown, "x")
			s.rm(5, 6, OK, s.look(3, 4, "x", true), "x")
			s.lose(6, 7)
			s.again(7, 8, OK, a, "")
			s.read(9, 10, "x")
		}, ""},
		{"the same, when two requests have added it", func(s *stage) {
			a := s.add(1, 2, Unknown, "x")
			s.add(1, 2, OK, "x")
			s.rm(5, 6, OK, s.look(3, 4, "x", true), "x")
			s.again(7, 8, OK, a, "")
			s.read(9, 10, "x")
		}, ""},
		{"a repeated remove that takes a later add", func(s *stage) {
			s.add(1, 2, OK, "x")
			r := s.rm(3, 4, OK, nil, "x")
			s.add(5, 6, OK, "x")
			s.again(7, 8, OK, r, "")
			s.read(9, 10)
		}, "lost x"},
		{"a repeated remove that may take a later add", func(s *stage) {
			s.add(1, 2, OK, "x")
			r := s.rm(3, 4, Unknown, nil, "x")
			s.add(5, 6, OK, "x")
			s.again(7, 8, OK, r, "")
			s.read(9, 10)
		}, ""},
		{"a filter and a set of one name", func(s *stage) { s.mark(1, 2, OK, "x"); s.read(3, 4) }, ""},
	} {
		s := newStage()
		c.do(s)
		r := s.r.Check()
		var got []string
		for _, v := range r.Violations {
			got = append(got, string(v.Kind)+" "+v.Item)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %q, want %q\n%s", c.name, got, c.want, r)
		}
		if (r.Err() == nil) != (c.want == "") || r.Err() != nil && !errors.Is(r.Err(), ErrViolated) {
			t.Errorf("%s: got error %v", c.name, r.Err())
		}
	}
}

// TestReport: the text names the answer, what it should have seen, and what else was done to the element.
func TestReport(t *testing.T) {
	t.Parallel()
	s := newStage()
	s.add(1000, 2000, OK, "x", "y")
	s.add(1500, 2500, Unknown, "other")
	s.rm(5000, 6000, OK, s.read(3000, 4000, "x", "y"), "x")
	s.at = 7000
	op := s.r.Client("reader").Read("s")
	op.Saw("x", "y")
	s.at = 8000
	op.End(OK, errors.New("some words"))
	s.add(9000, 9500, OK, "late")
	want := `6 operations (5 ok, 1 unknown, 0 failed), 3 items acknowledged, 1 of them never read, 4 answers, 1 violations
resurrected: "x" of "s": the answer has it, although its removal was acknowledged before (+), and nothing can have brought it
             1µs - 2µs          c: add (one of 2): ok
             3µs - 4µs          c: read, has it (2 in all): ok
  +          5µs - 6µs          c: remove, context of c at 3µs: ok
  >          7µs - 8µs          reader: read, has it (2 in all): ok, some words
`
	space := regexp.MustCompile(` +`)
	if got := s.r.Check().String(); space.ReplaceAllString(got, " ") != space.ReplaceAllString(want, " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMany judges a history of half a million elements in answers within a moment.
func TestMany(t *testing.T) {
	t.Parallel()
	s := newStage()
	var all []string
	at := 0
	for i := range 5000 {
		e := fmt.Sprint("element ", i)
		s.add(at, at+1, OK, e)
		all = append(all, e)
		if at += 2; i%50 == 0 {
			s.read(at, at+1, all...)
			at += 2
		}
	}
	s.read(at, at+1, all[1:]...)
	s.rm(at+2, at+3, OK, s.read(at, at+1, all...), all[7])
	r := s.r.Check()
	if len(r.Violations) != 1 || r.Violations[0].Item != "element 0" || r.Items != 5000 || r.NeverRead != 0 {
		t.Errorf("got %s", r)
	}
}
