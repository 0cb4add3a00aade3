package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// TestAnswersThatAreNone: an answer that is cut, of another kind, from another member, of no request, or that never comes, is an error of each
// verb, and of a change nobody knows whether it has happened.
func TestAnswersThatAreNone(t *testing.T) {
	n := filled(t, remote.Open{})
	reframe := func(b []byte, from peer.Member) []byte {
		m, _, err := peer.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = peer.Append(nil, from, m); err != nil {
			t.Fatal(err)
		}
		return b
	}
	frame := func(m peer.Message) []byte {
		b, err := peer.Append(nil, n.local.Member(), m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := false
	once := func(f func([]byte) []byte) func([]byte) []byte { // of the first answer or part
		first = true
		return func(b []byte) []byte {
			if !first {
				return b
			}
			first = false
			return f(b)
		}
	}
	for what, tamper := range map[string]func([]byte) []byte{
		"cut":            func(b []byte) []byte { return b[:len(b)-1] },
		"cut to nothing": func(b []byte) []byte { return []byte{} },
		"damaged": func(b []byte) []byte {
			return append(slices.Clone(b[:len(b)/2]), append([]byte{b[len(b)/2] ^ 1}, b[len(b)/2+1:]...)...)
		},
		"of another version": func(b []byte) []byte { return append([]byte{9}, b[1:]...) },
		"no frame":           func(b []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n") },
		"a request":          func(b []byte) []byte { return frame(peer.AskState{Set: set}) },
		"from another node": func(b []byte) []byte {
			return reframe(b, peer.Member{Node: "elsewhere", Incarnation: n.local.Member().Incarnation, State: peer.Normal})
		},
		"of another question":  func(b []byte) []byte { return frame(peer.Lost{Set: []byte("other"), Dots: &clock.Clock{}}) },
		"facts of another set": func(b []byte) []byte { return frame(peer.Facts{Set: []byte("other")}) },
		"too few answers":      func(b []byte) []byte { return frame(peer.KeyAnswers{true}) },
		"too few contexts":     func(b []byte) []byte { return frame(peer.Contexts{bigset.Saw()}) },
		"too few statuses":     func(b []byte) []byte { return frame(peer.DotStatuses{}) },
		"too few dots":         func(b []byte) []byte { return frame(peer.Written{}) },
		"marks of another": func(b []byte) []byte {
			return frame(peer.Marked{Marks: marksOf(t, 5, "a", "b"), Added: []bool{true, true}})
		},
		"pages of another":         func(b []byte) []byte { return frame(peer.SlicePages{SliceSpec: spec(5)}) },
		"another range":            func(b []byte) []byte { return frame(peer.RangeDigests{{First: 2, Last: 9}}) },
		"a portion of another set": func(b []byte) []byte { return frame(peer.Portion{Set: []byte("other"), Done: true, Keys: []byte{}}) },
		"too few groups":           func(b []byte) []byte { return frame(peer.AnswersMany{{Answers: []bool{true}}}) },
		"groups of others": func(b []byte) []byte {
			return frame(peer.MarkedMany{{Added: []bool{true, true}}, {Added: []bool{true}}})
		},
		"a stamp with a digest, or without": func(b []byte) []byte {
			m, _, err := peer.Decode(b)
			if s, ok := m.(peer.Stamp); err == nil && ok && s.Digest == [16]byte{} {
				return frame(peer.Stamp{Number: 7, Digest: [16]byte{1}})
			}
			return frame(peer.Stamp{Number: 7})
		},
		"counts without a clock": func(b []byte) []byte {
			return frame(peer.PartCounts{ElementDigests: bigset.ElementDigests{Done: true}})
		},
		"a first chunk without a clock": func(b []byte) []byte { return frame(peer.Chunk{Done: true}) },
	} {
		for _, c := range calls(t) {
			n.loop.tamper = once(tamper)
			_, err := c.do(n.far)
			n.loop.tamper = nil
			if err == nil || c.change && happened(err) != "nobody knows" || !errors.Is(err, peer.ErrAnswer) || errors.Is(err, peer.ErrFrame) {
				t.Errorf("an answer to %s that is %s: %v", c.name, what, err)
			}
		}
	}
	if n.far.Member() != n.local.Member() {
		t.Errorf("%v was heard of", n.far.Member())
	}
}

// TestStreamsThatBreak: a stream that ends without its end, goes on after it, or comes from two incarnations, is an error, after what was good.
func TestStreamsThatBreak(t *testing.T) {
	n := filled(t, remote.Open{})
	older := n.local.Member()
	older.Incarnation = "older"
	joining := n.local.Member()
	joining.State = peer.Joining
	reframe := func(b []byte, from peer.Member) []byte {
		m, _, _ := peer.Decode(b)
		b, err := peer.Append(nil, from, m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range calls(t) {
		if !c.stream {
			continue
		}
		n.loop.parts = 0
		if _, err := c.do(n.far); err != nil || n.loop.parts < 2 {
			t.Fatalf("%s: %d parts, %v", c.name, n.loop.parts, err)
		}
		of, part := n.loop.parts, 0
		for what, tamper := range map[string]func([]byte) []byte{
			"without its end":     func(b []byte) []byte { return nil },
			"of two incarnations": func(b []byte) []byte { return reframe(b, older) },
		} {
			part = 0
			n.loop.tamper = func(b []byte) []byte {
				if part++; part == of {
					return tamper(b)
				}
				return b
			}
			got, err := c.do(n.far)
			n.loop.tamper = nil
			if !errors.Is(err, peer.ErrAnswer) || fmt.Sprint(got) == "[]" {
				t.Errorf("%s, %s: %v after %v", c.name, what, err, got)
			}
		}
		part = 0
		n.loop.tamper = func(b []byte) []byte {
			if part++; part == 1 {
				b, _ = peer.Append(nil, n.local.Member(), peer.Done{})
			}
			return b
		}
		if got, err := c.do(n.far); !errors.Is(err, peer.ErrAnswer) {
			t.Errorf("%s goes on after its end: %v, %v", c.name, got, err)
		}
		n.loop.tamper = nil
	}
	n.loop.tamper = func(b []byte) []byte { return reframe(b, joining) }
	if got, err := readAll(n.far, bigset.ReadOptions{}); err == nil || len(got) > 0 {
		t.Errorf("a read from a member that is joining: %v, %v", got, err)
	}
}

// TestErrorsOfTheWay: what the transport says of a call, each verb's error says.
func TestErrorsOfTheWay(t *testing.T) {
	n := filled(t, remote.Open{})
	digest := func() string { return n.digest(t) }
	before := digest()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range []struct {
		err  error
		says string
	}{
		{wire.ErrNotSent, "nothing"}, {wire.ErrBusy, "nothing"}, {fmt.Errorf("dial: %w", wire.ErrNotSent), "nothing"},
		{wire.ErrLost, "nobody knows"}, {context.Canceled, "nobody knows"}, {context.DeadlineExceeded, "nobody knows"}, {ended.Err(), "nobody knows"},
		{errors.New("of no name"), "nobody knows"},
	} {
		n.loop.before = func(wire.Call) error { return c.err }
		for _, v := range calls(t) {
			if _, err := v.do(n.far); !errors.Is(err, c.err) || happened(err) != c.says {
				t.Errorf("%s, %v: %v says that %s has happened, want %s", v.name, c.err, err, happened(err), c.says)
			}
		}
	}
	n.loop.before = nil
	if after := digest(); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
	n.loop.after = func() error { return wire.ErrLost }
	if _, err := n.far.Apply(ctx, bigset.Delta{Set: []byte("lost"), Actor: "F1", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}}, bigset.Sync); happened(err) != "nobody knows" {
		t.Errorf("an answer that was lost: %v", err)
	}
	n.loop.after = nil
	if _, _, err := n.far.State(ctx, []byte("lost")); err != nil {
		t.Errorf("the delta whose answer was lost: %v", err)
	}
}

// failing is a replica whose every call fails.
type failing struct {
	remote.Local
	err error
}

func (f failing) Write(context.Context, []byte, []bigset.Op, bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return bigset.Result{}, f.Member(), f.err
}

func (f failing) Apply(context.Context, bigset.Delta, bigset.Durability) (peer.Member, error) {
	return f.Member(), f.err
}

func (f failing) ApplyMany(_ context.Context, all []bigset.Delta, _ bigset.Durability) ([]error, peer.Member, error) {
	return peer.Every(len(all), nil, f.err), f.Member(), nil
}

func (f failing) Mark(context.Context, bigset.SliceSpec, []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	return bigset.Marks{}, nil, f.Member(), f.err
}

func (f failing) MarkMany(_ context.Context, _ bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	all := make([]peer.SliceMarked, len(groups))
	for i := range all {
		all[i].Err = f.err
	}
	return all, f.Member(), nil
}

func (f failing) Read(context.Context, []byte, bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) { yield(nil, f.err) }
}

// TestErrorsOfTheReplica: what the replica says, is said at the far side: the meaning, the fields, and the member.
func TestErrorsOfTheReplica(t *testing.T) {
	n := newNode(t, remote.Open{})
	for _, want := range []error{
		bigset.ErrFailed, bigset.ErrBehind, bigset.ErrNotFound, bigset.ErrNoFilter, peer.ErrJoining, peer.ErrUnavailable, bigset.ErrClosed, context.DeadlineExceeded,
		fmt.Errorf("%w: %w", peer.ErrUnavailable, bigset.ErrDiskFull), fmt.Errorf("%w: %w", peer.ErrUnavailable, bigset.ErrSliceAway),
		&bigset.LimitError{What: "elements", Got: 7, Max: 3}, &peer.EpochError{Epoch: 9}, errors.New("of no name"), bigset.ErrContextRequired,
	} {
		n.loop.handler = remote.Handler(failing{n.local, want}, remote.Open{})
		for _, c := range calls(t) {
			if !slices.Contains([]string{"Write", "Apply", "ApplyMany", "Mark", "MarkMany", "Read"}, c.name) {
				continue
			}
			got, err := c.do(n.far)
			if err == nil || happened(err) != happened(want) || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s: %v says that %s has happened; %v says %s", c.name, err, happened(err), want, happened(want))
			}
			for _, e := range []error{bigset.ErrFailed, bigset.ErrBehind, bigset.ErrNotFound, bigset.ErrNoFilter, bigset.ErrClosed, bigset.ErrDiskFull, bigset.ErrSliceAway,
				bigset.ErrLimit, bigset.ErrContextRequired, peer.ErrJoining, peer.ErrUnavailable, peer.ErrNotMine, peer.ErrAnswer, peer.ErrFrame, context.DeadlineExceeded} {
				if errors.Is(err, e) != errors.Is(want, e) {
					t.Errorf("%s: is %v %v: %v", c.name, err, e, errors.Is(err, e))
				}
			}
			if by, ok := got.(answers); ok && by[len(by)-1] != n.local.Member() {
				t.Errorf("%s: from %v", c.name, by)
			}
		}
	}
	var limit *bigset.LimitError
	n.loop.handler = remote.Handler(failing{n.local, &bigset.LimitError{What: "elements", Got: 7, Max: 3}}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); !errors.As(err, &limit) || limit.Got != 7 {
		t.Errorf("%v", err)
	}
	other, err := local.New("elsewhere", n.store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	n.loop.handler = remote.Handler(failing{other, peer.ErrUnavailable}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); happened(err) != "nobody knows" || n.far.Member().Node != "there" {
		t.Errorf("an error of another member: %v", err)
	}
}

// wordy is a replica whose answer does not fit in a frame.
type wordy struct{ remote.Local }

func (w wordy) Write(context.Context, []byte, []bigset.Op, bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return bigset.Result{Delta: bigset.Delta{Set: set, Actor: "A", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Wide: &clock.Clock{}}}}}, w.Member(), nil
}

// TestAnswerThatCannotBeSent: what was done and can't be reported is not said to have been refused.
func TestAnswerThatCannotBeSent(t *testing.T) {
	n := newNode(t, remote.Open{})
	n.loop.handler = remote.Handler(wordy{n.local}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); err == nil || happened(err) != "nobody knows" {
		t.Errorf("%v says that %s has happened", err, happened(err))
	}
}

// durable returns the first of the verbs that differ from one in the durability that they ask for, or the verb itself.
func durable(v wire.Verb) wire.Verb {
	for _, first := range []wire.Verb{remote.VerbApply, remote.VerbApplyFacts, remote.VerbApplyMany} {
		if v > first && v <= first+wire.Verb(bigset.NoSync) {
			return first
		}
	}
	return v
}

// TestRequestsThatAreNone: a request from a client, in another node's name, of another verb, or that is no frame, changes nothing, and says so.
func TestRequestsThatAreNone(t *testing.T) {
	n := filled(t, remote.Open{})
	before := n.digest(t)
	var bodies []wire.Call
	for _, c := range calls(t) {
		n.loop.calls = nil
		n.loop.before = func(c wire.Call) error { bodies = append(bodies, c); return wire.ErrNotSent }
		_, _ = c.do(n.far)
	}
	n.loop.before = nil
	if len(bodies) != len(calls(t)) {
		t.Fatalf("%d requests", len(bodies))
	}
	try := func(what string, c wire.Call, from *wire.Remote) {
		t.Helper()
		send := func([]byte) error { t.Errorf("%s, verb %d: a part", what, c.Verb); return nil }
		b, err := n.loop.handler(ctx, &wire.Request{Verb: c.Verb, Body: bytes.Clone(c.Body), From: from}, send)
		if b != nil || happened(n.loop.crossed(err)) != "nothing" {
			t.Errorf("%s, verb %d: %q, %v", what, c.Verb, b, err)
		}
		var far *peer.ReplicaError
		if !errors.As(err, &far) || far.Member != n.local.Member() {
			t.Errorf("%s, verb %d: not from the member: %v", what, c.Verb, err)
		}
	}
	node := &wire.Remote{Role: wire.RoleNode, Name: self.Node}
	seen := map[wire.Verb]bool{}
	for _, c := range bodies {
		seen[durable(c.Verb)] = true
		try("a client's", c, &wire.Remote{Role: wire.RoleClient, Name: self.Node})
		try("nobody's", c, nil)
		try("of another node", c, &wire.Remote{Role: wire.RoleNode, Name: "elsewhere"})
		for i := range 8 {
			cut := c
			cut.Body = c.Body[:len(c.Body)*i/8]
			try("cut", cut, node)
		}
		for _, v := range remote.Verbs() {
			other := c
			alike := durable(v) == durable(c.Verb) || v == remote.VerbWrite && c.Verb == remote.VerbWriteAhead || v == remote.VerbWriteAhead && c.Verb == remote.VerbWrite
			if other.Verb = v; v != c.Verb && !alike {
				try("of another verb", other, node)
			}
		}
		for _, v := range []wire.Verb{0, 1, 99, 121, 126, 129, 144, 255} {
			other := c
			other.Verb = v
			try("of no verb", other, node)
		}
	}
	for _, v := range remote.Verbs() {
		if !seen[v] && durable(v) == v {
			t.Errorf("verb %d was not tried", v)
		}
	}
	if after := n.digest(t); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
}
