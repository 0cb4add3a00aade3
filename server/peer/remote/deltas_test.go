package remote_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// partly applies all deltas but one.
type partly struct {
	remote.Local
	which int
	err   error
}

func (p partly) ApplyMany(ctx context.Context, all []bigset.Delta, d bigset.Durability) ([]error, peer.Member, error) {
	_, by, err := p.Local.ApplyMany(ctx, slices.Delete(slices.Clone(all), p.which, p.which+1), d)
	each := make([]error, len(all))
	each[p.which] = p.err
	return each, by, err
}

// sending is a loop that can send, as a connection does.
type sending struct {
	*loop
	mu    sync.Mutex
	verbs []wire.Verb
}

func (s *sending) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.loop.Do(ctx, c)
	if !errors.Is(err, wire.ErrNotSent) {
		s.verbs = append(s.verbs, c.Verb)
	}
	return b, err
}

func (s *sending) Send(ctx context.Context, c wire.Call, done func([]byte, error)) bool {
	go func() { done(s.Do(ctx, c)) }()
	return true
}

// TestApplyMany: several deltas go in one frame, and each has its own outcome, by both ways to send them. A node of an older version is sent nothing.
func TestApplyMany(t *testing.T) {
	t.Parallel()
	const n = 5
	for _, version := range []byte{1, 2} {
		for _, way := range []string{"ApplyMany", "SendDeltas"} {
			for which, fails := range []error{nil, peer.ErrUnavailable, bigset.ErrFailed, fmt.Errorf("%w: full", bigset.ErrDelta)} {
				node := newNode(t, remote.Open{})
				caller := &sending{loop: node.loop}
				node.loop.version = version
				node.loop.handler = remote.Handler(partly{node.local, which, fails}, remote.Open{})
				if fails == nil {
					node.loop.handler = remote.Handler(node.local, remote.Open{})
				}
				far, err := remote.New(remote.Options{Member: peer.Member{Node: "there", Incarnation: "?", State: peer.Joining}, Caller: caller, Self: func() peer.Member { return self }})
				if err != nil {
					t.Fatal(err)
				}
				var all []bigset.Delta
				for i := range n {
					all = append(all, bigset.Delta{Set: set, Actor: "F1", First: uint64(i + 1), Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "e%d", i)}}})
				}
				var each []error
				if way == "ApplyMany" {
					each, _, err = far.ApplyMany(ctx, all, bigset.Sync)
				} else {
					done := make(chan struct{})
					if !far.SendDeltas(ctx, all, bigset.Sync, func(e []error, failed error) { each, err = e, failed; close(done) }) {
						t.Fatal("they were not sent")
					}
					<-done
				}
				what := fmt.Sprintf("version %d, %s, %v", version, way, fails)
				if version == 1 {
					if each != nil || !errors.Is(err, peer.ErrOneByOne) || happened(err) != "nothing" || len(caller.verbs) != 0 {
						t.Errorf("%s: %v, %v, verbs %v", what, each, err, caller.verbs)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				for i, err := range peer.Every(n, each, nil) {
					want := error(nil)
					if i == which {
						want = fails
					}
					if (err == nil) != (want == nil) || happened(err) != happened(want) || want != nil && peer.Refused(err) != peer.Refused(want) {
						t.Errorf("%s: delta %d: %v, want %v", what, i, err, want)
					}
					found, _, lookErr := node.local.Lookup(ctx, set, [][]byte{fmt.Appendf(nil, "e%d", i)})
					if lookErr != nil || found[0].Present() != (want == nil) {
						t.Errorf("%s: element %d: %v, %v", what, i, found, lookErr)
					}
				}
				want := []wire.Verb{remote.VerbApplyMany + wire.Verb(bigset.Sync)}
				if !slices.Equal(caller.verbs, want) {
					t.Errorf("%s: verbs %v, want %v", what, caller.verbs, want)
				}
			}
		}
	}
}

// TestApplyManyAnswers: an answer about other deltas says nothing of these.
func TestApplyManyAnswers(t *testing.T) {
	t.Parallel()
	node := newNode(t, remote.Open{})
	all := []bigset.Delta{{Set: set, Actor: "F1", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}}, {Set: set, Actor: "F1", First: 2, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}}}
	for _, m := range []peer.Message{peer.Outcomes{nil}, peer.Outcomes{nil, nil, nil}, peer.KeyAnswers{true}} {
		node.loop.tamper = func([]byte) []byte {
			b, err := peer.AppendVersion(nil, peer.DeltasVersion, node.local.Member(), m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if each, _, err := node.far.ApplyMany(ctx, all, bigset.Sync); each != nil || !errors.Is(err, peer.ErrAnswer) || happened(err) != "nobody knows" {
			t.Errorf("%T: %v, %v", m, each, err)
		}
	}
	node.loop.tamper = nil
	if _, _, err := node.far.ApplyMany(ctx, append(all, bigset.Delta{Set: []byte("other")}), bigset.Sync); !peer.Refused(err) {
		t.Errorf("deltas of two sets: %v", err)
	}
	if _, _, err := node.local.ApplyMany(ctx, nil, bigset.Sync); !peer.Refused(err) {
		t.Errorf("no deltas: %v", err)
	}
}
