package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/client"
	"bigset/keyscheme"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// direct calls a handler without a connection. Errors cross as they do over one.
type direct struct{ h wire.Handler }

func (d direct) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	b, err := d.h(ctx, &wire.Request{Verb: c.Verb, Epoch: c.Epoch, Body: bytes.Clone(c.Body)}, nil)
	if err != nil {
		err = api.Errors{}.Decode(api.Errors{}.Append(nil, err))
	}
	return b, err
}

func (d direct) Stream(context.Context, wire.Call) iter.Seq2[[]byte, error] { panic("no streams here") }

// What may become of a request.
const (
	goesWell = iota
	notSent
	busy
	unavailable   // the node says that nothing has happened
	lostRequest   // nobody knows, and nothing has happened
	lostAnswer    // nobody knows, and it was done
	late          // nobody knows, and it is done after later requests
	unknownDone   // the node does not know, and it was done
	unknownUndone // the node does not know, and nothing has happened
	outcomes
)

// lossy is a way to a node on which anything may happen to requests.
type lossy struct {
	to    wire.Caller
	draw  func() int
	later *[]wire.Call // still on their way
}

func (l *lossy) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	switch outcome := l.draw(); outcome {
	case notSent:
		return nil, fmt.Errorf("%w: no connection", wire.ErrNotSent)
	case busy:
		return nil, fmt.Errorf("%w: 3 requests", wire.ErrBusy)
	case unavailable:
		return nil, fmt.Errorf("%w: too few replicas", door.ErrUnavailable)
	case lostRequest:
		return nil, fmt.Errorf("%w: the connection ended", wire.ErrLost)
	case late:
		*l.later = append(*l.later, c)
		return nil, fmt.Errorf("%w: the connection ended", wire.ErrLost)
	case lostAnswer, unknownDone:
		if _, err := l.to.Do(context.WithoutCancel(ctx), c); err != nil {
			return nil, err
		}
		if outcome == lostAnswer {
			return nil, fmt.Errorf("%w: the connection ended", wire.ErrLost)
		}
		return nil, &door.UnknownError{Acked: 1, W: 2}
	case unknownUndone:
		return nil, &door.UnknownError{W: 2}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrNotSent, err)
	}
	return l.to.Do(ctx, c)
}

func (l *lossy) Stream(ctx context.Context, c wire.Call) iter.Seq2[[]byte, error] {
	return l.to.Stream(ctx, c)
}

// TestOnce loses requests and answers, delays requests, and ends calls early: each add is one event, also one whose outcome was unknown and
// that is sent again with its id; one that was reported not to have happened is none. The adds are of PolicyEmpty, so that a second one
// would be a second dot.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	to := direct{api.Handler(alone.New(s))}
	run, fates := 0, map[string]int{}
	check := func(t *rapid.T) {
		run++
		set := fmt.Sprint("set", run)
		var later []wire.Call
		var cancel context.CancelFunc
		draw := func() int { return rapid.IntRange(0, outcomes-1).Draw(t, "outcome") }
		hasty := func() {
			if rapid.IntRange(0, 9).Draw(t, "the call's time ends") == 0 {
				cancel()
			}
		}
		c := client.Over(&lossy{to, draw, &later}, &lossy{to, draw, &later}).Hasty(hasty)
		well := client.Over(to)
		want := 0
		for i := range rapid.IntRange(1, 8).Draw(t, "adds") {
			w := client.Write{Set: []byte(set), Policy: bigset.PolicyEmpty, Ops: []client.Op{{Kind: client.OpAdd, Element: fmt.Append(nil, "e", i)}}}
			ctx, stop := context.WithCancel(t.Context())
			cancel = stop
			_, err := c.Write(ctx, w)
			stop()
			var unknown *client.UnknownError
			switch {
			case err == nil:
				want++
				fates["done"]++
			case errors.As(err, &unknown):
				if !errors.Is(err, client.ErrUnknown) || errors.Is(err, client.ErrUnavailable) || len(unknown.Request) == 0 {
					t.Fatalf("unknown: %v", err)
				}
				fates["unknown"]++
				if rapid.Bool().Draw(t, "send it again") {
					w.Request, w.Retry = unknown.Request, true
					if _, err := well.Write(t.Context(), w); err != nil {
						t.Fatal(err)
					}
					want++
				} else if n := dots(t, to, set, w.Ops[0].Element); n > 1 {
					t.Fatalf("%q has %d dots", w.Ops[0].Element, n)
				} else {
					want += n
					later = nil // else it may still come
				}
			case errors.Is(err, client.ErrUnavailable):
				fates["unavailable"]++
			default:
				t.Fatal(err)
			}
		}
		for _, call := range later { // they arrive after all
			if _, err := to.Do(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		live, err := s.Live(t.Context(), []byte(set))
		if err != nil && (want > 0 || !errors.Is(err, bigset.ErrNotFound)) || live != uint64(want) {
			t.Fatalf("%d dots of %d adds that were done, %v", live, want, err)
		}
	}
	met := func() bool { return fates["done"] > 0 && fates["unknown"] > 0 && fates["unavailable"] > 0 }
	rapid.Check(t, check)
	for again := 0; !met() && again < 20 && !t.Failed(); again++ { // with -short a fate may be missed by chance
		rapid.Check(t, check)
	}
	if !met() {
		t.Errorf("not every fate was met, %v: the test shows nothing", fates)
	}
}

// dots counts the dots by which an element is in a set.
func dots(t *rapid.T, to wire.Caller, set string, element []byte) int {
	n := 0
	c := client.Over(to)
	found, err := c.Subset(t.Context(), client.Subset{Set: []byte(set), Elements: [][]byte{element}})
	if err != nil {
		t.Fatal(err)
	}
	if found[0].Present {
		n = 1
	}
	return n
}

// scripted gives one error after the other, then answers.
type scripted struct {
	errs  []error
	seen  *[]wire.Call
	parts [][]byte // of a stream; the error of the moment comes after them
	body  []byte
}

func (s *scripted) next() error {
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

func (s *scripted) Do(_ context.Context, c wire.Call) ([]byte, error) {
	if s.seen != nil {
		*s.seen = append(*s.seen, c)
	}
	return s.body, s.next()
}

func (s *scripted) Stream(_ context.Context, c wire.Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, p := range s.parts {
			if !yield(p, nil) {
				return
			}
		}
		if err := s.next(); err != nil {
			yield(nil, err)
		}
	}
}

func at(err error, text string) error { return fmt.Errorf("%w: %s", err, text) }

// TestOutcomes wants of errors of nodes, one after the other, the right error of a write, the right number of tries, and of each whether it
// says that the request may have been done before.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	notSent, lost, gone := at(wire.ErrNotSent, "x"), at(wire.ErrLost, "y"), at(door.ErrUnavailable, "z")
	refused := at(wire.ErrRefused, "by the other side")
	full := fmt.Errorf("engine: add: %w", bigset.ErrDiskFull)
	limit := error(&bigset.LimitError{What: "element", Got: 2, Max: 1})
	none := errors.New("no error")
	unread := api.Errors{}.Decode([]byte{2}) // of a later version
	for _, tt := range []struct {
		name  string
		retry bool
		errs  []error
		want  error
		tries string // r is one that says that it is a retry
	}{
		{"well", false, nil, none, "."},
		{"a retry", true, nil, none, "r"},
		{"the next node", false, []error{notSent}, none, ".."},
		{"the next node, busy", false, []error{at(wire.ErrBusy, "x")}, none, ".."},
		{"nobody", false, []error{notSent, notSent}, client.ErrUnavailable, ".."},
		{"nobody wants", false, []error{refused, refused}, wire.ErrRefused, ".."},
		{"nobody can now", false, []error{gone, notSent, notSent, gone}, none, "....."},
		{"lost", false, []error{lost}, none, ".r"},
		{"lost, then nobody", false, []error{lost, notSent, gone, notSent}, none, ".rrrr"},
		{"lost, then refused", false, []error{lost, full}, client.ErrUnknown, ".r"},
		{"lost, then a verdict", false, []error{lost, limit}, bigset.ErrLimit, ".r"},
		{"unknown", false, []error{&door.UnknownError{Err: bigset.ErrFailed}}, none, ".r"},
		{"an error that can't be read", false, []error{unread}, none, ".r"},
		{"an error that can't be read, then refused", false, []error{unread, full}, client.ErrUnknown, ".r"},
		{"a refusal that can't be read", false, []error{fmt.Errorf("%w: %w", refused, unread), refused}, wire.ErrRefused, ".."},
		{"refused", false, []error{full}, bigset.ErrDiskFull, "."},
		{"a retry that is refused", true, []error{full}, client.ErrUnknown, "r"},
		{"a retry with a verdict", true, []error{limit}, bigset.ErrLimit, "r"},
		{"a retry that reaches nobody", true, []error{notSent, notSent}, client.ErrUnknown, "rr"},
		{"a token of another element", false, []error{lost, keyscheme.ErrTokenElement}, keyscheme.ErrTokenElement, ".r"},
		{"a key that was retired", false, []error{lost, keyscheme.ErrTokenSeal}, client.ErrUnknown, ".r"},
	} {
		var seen []wire.Call
		node := &scripted{tt.errs, &seen, nil, api.AppendResult(nil, &client.Result{})}
		_, err := client.Over(node, node).Hasty(func() {}).Write(t.Context(), client.Write{Set: []byte("s"), Request: []byte("id"), Retry: tt.retry})
		if err == nil {
			err = none
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, other := range []error{client.ErrUnknown, client.ErrUnavailable} {
			if errors.Is(err, other) && !errors.Is(tt.want, other) && tt.want != wire.ErrRefused {
				t.Errorf("%s: %v is also %v", tt.name, err, other)
			}
		}
		var unknown *client.UnknownError
		if errors.As(err, &unknown) && (string(unknown.Request) != "id" || !strings.Contains(err.Error(), "request id")) {
			t.Errorf("%s: the id of %v", tt.name, err)
		}
		tries := ""
		for _, c := range seen {
			w, err := api.DecodeWrite(c.Body)
			if err != nil {
				t.Fatal(err)
			}
			if tries += "."; w.Retry {
				tries = tries[:len(tries)-1] + "r"
			}
		}
		if tries != tt.tries {
			t.Errorf("%s: tries %s, want %s", tt.name, tries, tt.tries)
		}
	}
	if _, err := client.Over(&scripted{}).Write(t.Context(), client.Write{Set: []byte("s"), Retry: true}); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("a retry without an id: %v", err)
	}
}

// TestClearLost: a filter that is open after a lost answer may have been cleared, and created again by others.
func TestClearLost(t *testing.T) {
	t.Parallel()
	lost, open := at(wire.ErrLost, "x"), at(bigset.ErrFilterOpen, "y")
	for _, tt := range []struct {
		errs []error
		want error
	}{{[]error{open}, bigset.ErrFilterOpen}, {[]error{lost, open}, client.ErrUnknown}, {[]error{lost, bigset.ErrNoFilter}, nil}} {
		node := &scripted{tt.errs, nil, nil, nil}
		err := client.Over(node, node).Hasty(func() {}).Filter([]byte("f")).Clear(t.Context())
		if !errors.Is(err, tt.want) || tt.want == bigset.ErrFilterOpen && errors.Is(err, client.ErrUnknown) {
			t.Errorf("after %v: %v, want %v", tt.errs, err, tt.want)
		}
	}
}

// TestTime wants calls without a deadline to end: a write and a look-up after the client's time, also where each try is lost.
func TestTime(t *testing.T) {
	t.Parallel()
	lost := make([]error, 100)
	for i := range lost {
		lost[i] = wire.ErrLost
	}
	pauses := 0
	ctx, cancel := context.WithCancel(t.Context())
	c := client.Over(&scripted{errs: lost}).Hasty(func() {
		if pauses++; pauses == 5 {
			cancel()
		}
	})
	_, err := c.Set("s").Add(ctx, "e")
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || len(unknown.Request) != 16 || !strings.Contains(err.Error(), unknown.RequestText()) || pauses != 5 {
		t.Errorf("%d pauses, %v", pauses, err)
	}
	if _, err := c.Set("s").Contains(ctx, "e"); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
		t.Errorf("a look-up whose answer is lost: %v", err)
	}
}

// TestDropOnce loses the answer of a drop. It is sent again, and what was added after the first is not dropped.
func TestDropOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	to := direct{api.Handler(alone.New(s))}
	well := client.Over(to)
	var later []wire.Call
	draws := []int{goesWell, lostAnswer, goesWell} // the context, the drop, the drop again
	add := func() {
		if _, err := well.Set("s").Add(t.Context(), "late"); err != nil {
			t.Error(err)
		}
	}
	c := client.Over(&lossy{to, func() int {
		d := draws[0]
		draws = draws[1:]
		return d
	}, &later}).Hasty(add)
	if _, err := well.Set("s").Add(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Drop(t.Context(), client.Drop{Set: []byte("s")}); err != nil || left != 1 {
		t.Errorf("%d left, %v", left, err)
	}
	if has, err := well.Set("s").Contains(t.Context(), "late"); !has || err != nil {
		t.Errorf("late: %v, %v", has, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	draws = []int{goesWell, lostRequest}
	_, err := c.Hasty(cancel).Drop(ctx, client.Drop{Set: []byte("s")})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || len(unknown.Context) == 0 || len(unknown.Request) > 0 {
		t.Fatalf("a drop that is lost: %v", err)
	}
	if left, err := well.Drop(t.Context(), client.Drop{Set: []byte("s"), Context: unknown.Context}); err != nil || left != 0 {
		t.Errorf("the same drop again: %d left, %v", left, err)
	}
}

// TestDropWithoutToken drops a set whose clock is too large for a token: it is sent once.
func TestDropWithoutToken(t *testing.T) {
	t.Parallel()
	var seen []wire.Call
	node := &scripted{errs: []error{keyscheme.ErrTokenTooLarge, wire.ErrLost}, seen: &seen, body: api.AppendLeft(nil, 0)}
	if _, err := client.Over(node).Hasty(func() {}).Drop(t.Context(), client.Drop{Set: []byte("s")}); !errors.Is(err, client.ErrUnknown) || len(seen) != 2 {
		t.Errorf("%d requests, %v", len(seen), err)
	}
}

func part(done bool, elements ...string) []byte {
	p := client.Part{Done: done}
	for _, e := range elements {
		p.Elements = append(p.Elements, client.Element{Name: []byte(e)})
	}
	return api.AppendPart(nil, &p)
}

// TestStreams wants another node to take the place of one that has not begun, and no mixture of two.
func TestStreams(t *testing.T) {
	t.Parallel()
	well := func() *scripted { return &scripted{parts: [][]byte{part(false, "a", "b"), part(true, "c")}} }
	for _, tt := range []struct {
		name  string
		first *scripted
		want  string
		err   error
	}{
		{"well", well(), "abc", nil},
		{"not begun", &scripted{errs: []error{wire.ErrNotSent}}, "abc", nil},
		{"lost before it began", &scripted{errs: []error{wire.ErrLost}}, "abc", nil},
		{"broken off", &scripted{parts: [][]byte{part(false, "a")}, errs: []error{at(wire.ErrLost, "x")}}, "a", client.ErrUnavailable},
		{"the node can't go on", &scripted{parts: [][]byte{part(false, "a")}, errs: []error{at(door.ErrUnavailable, "x")}}, "a", client.ErrUnavailable},
		{"left alone too long", &scripted{parts: [][]byte{part(false, "a")}, errs: []error{at(wire.ErrIdle, "x")}}, "a", client.ErrUnavailable},
		{"damaged", &scripted{parts: [][]byte{part(false, "a")}, errs: []error{bigset.ErrCorrupt}}, "a", bigset.ErrCorrupt},
		{"refused", &scripted{errs: []error{bigset.ErrRequest}}, "", bigset.ErrRequest},
		{"no last part", &scripted{parts: [][]byte{part(false, "a")}}, "a", client.ErrAnswer},
		{"two last parts", &scripted{parts: [][]byte{part(true, "a"), part(true, "b")}}, "a", client.ErrAnswer},
		{"nonsense", &scripted{parts: [][]byte{[]byte("nonsense")}}, "", api.ErrBody},
	} {
		got := ""
		var failed error
		for e, err := range client.Over(tt.first, well()).Elements(t.Context(), client.Read{Set: []byte("s")}) {
			if failed != nil {
				t.Fatalf("%s: the loop goes on after %v", tt.name, failed)
			}
			got += string(e.Name)
			failed = err
		}
		if got != tt.want || !errors.Is(failed, tt.err) || errors.Is(failed, client.ErrUnknown) {
			t.Errorf("%s: %q, %v", tt.name, got, failed)
		}
	}
}

// TestAnswersThatDoNotFit wants an error, and of a change that nobody knows.
func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := client.Write{Set: []byte("s"), Ops: []client.Op{{Kind: client.OpAdd}}, Contexts: true}
	for _, body := range [][]byte{nil, api.AppendResult(nil, &client.Result{})} {
		if _, err := client.Over(&scripted{body: body}).Write(ctx, w); !errors.Is(err, client.ErrUnknown) {
			t.Errorf("a write answered by %x: %v", body, err)
		}
	}
	for _, body := range [][]byte{nil, api.AppendPresences(nil, nil), api.AppendPresences(nil, make([]client.Presence, 2))} {
		if _, err := client.Over(&scripted{body: body}).Set("s").Contains(ctx, "e"); err == nil {
			t.Errorf("a look-up answered by %x", body)
		}
	}
	if _, err := client.Over(&scripted{}).Drop(ctx, client.Drop{Set: w.Set, Context: client.Token("W")}); !errors.Is(err, client.ErrUnknown) {
		t.Errorf("a drop answered by nothing: %v", err)
	}
}
