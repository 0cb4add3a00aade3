package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/door"
	"bigset/server/tokens"
	"bigset/server/wire"
)

// tokenDisk is a store as a list of tokens is kept in it.
type tokenDisk struct{ store *engine.Store }

func (d tokenDisk) Load() ([]byte, error) { return d.store.Replica().Meta(engine.MetaTokens) }

func (d tokenDisk) Save(ctx context.Context, b []byte) error {
	return d.store.Replica().SetMeta(ctx, engine.MetaTokens, b)
}

// grant asks a member what a secret permits.
func (p *process) grant(secret string) (tokens.Grant, error) {
	return (&tokens.Guard{List: p.tokens}).Authenticate([]byte(secret))
}

// change adds or removes a token at a member, and wants those to be away. It tries again: a member that is slow to answer counts as away, and a
// change that was done before does nothing.
func (p *process) change(t testing.TB, e tokens.Entry, away ...string) {
	t.Helper()
	until(t, fmt.Sprintf("a change at node %d that only %q miss", p.i, away), func() bool {
		got, err := p.member.ChangeAccessToken(t.Context(), e)
		must(t, err)
		return slices.Equal(got, away)
	})
}

// newToken returns a token and its secret.
func newToken(t testing.TB, label string) (tokens.Entry, string) {
	t.Helper()
	e, secret, err := tokens.New(label, tokens.Read, nil, time.Unix(1, 0))
	must(t, err)
	return e, secret
}

// TestTokensInCluster: what one member adds or removes all others know when that returns; one that was away knows when it has met the others.
func TestTokensInCluster(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	e, secret := newToken(t, "app")
	kept, keptSecret := newToken(t, "kept")
	before := (&tokens.Guard{List: w.procs[1].tokens}).Anonymous()
	until(t, "tokens are learned", before.Free)
	w.procs[0].change(t, e)
	w.procs[1].change(t, kept)
	var open []tokens.Grant
	for _, p := range w.procs {
		for _, s := range []string{secret, keptSecret} {
			g, err := p.grant(s)
			must(t, err)
			open = append(open, g)
		}
	}
	if before.May(tokens.Read, nil) {
		t.Error("a client without a token still may")
	}
	w.procs[2].stop()
	w.procs[1].change(t, tokens.Entry{ID: e.ID, Removed: true}, "c")
	for i, g := range open[:4] { // connections to a and b
		if g.May(tokens.Read, nil) != (i%2 == 1) {
			t.Errorf("grant %d after the removal: %v", i, g.Check(tokens.Read, nil))
		}
	}
	if _, err := w.procs[1].member.ChangeAccessToken(t.Context(), tokens.Entry{ID: tokens.ID{9}, Removed: true}); !errors.Is(err, tokens.ErrNotFound) {
		t.Error(err)
	}
	back := w.start(2)
	until(t, "c has met the others", back.member.Met)
	if _, err := back.grant(secret); !errors.Is(err, tokens.ErrSecret) {
		t.Errorf("a member that was away takes a token that was removed: %v", err)
	}
	if _, err := back.grant(keptSecret); err != nil {
		t.Error(err)
	}
	// What only a member knows that comes back all others learn.
	w.procs[0].stop()
	late, lateSecret := newToken(t, "late")
	back.change(t, late, "a")
	w.procs[1].stop()
	w.start(0)
	until(t, "a learns of it", func() bool { _, err := w.procs[0].grant(lateSecret); return err == nil })
	w.start(1)
	// A new disk permits nothing before it has learned, and then what the others do.
	w.procs[2].stop()
	w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
	fresh := w.start(2)
	until(t, "a member with a new disk learns", func() bool {
		_, err := fresh.grant(keptSecret)
		if err != nil && !errors.Is(err, tokens.ErrUnlearned) {
			t.Fatalf("a member with a new disk: %v", err)
		}
		return err == nil
	})
	if _, err := fresh.grant(secret); !errors.Is(err, tokens.ErrSecret) {
		t.Errorf("a member with a new disk takes a token that was removed: %v", err)
	}
}

// TestTokensOfACopy: a disk that was put back from an older copy has a token that was removed since. It is not taken.
func TestTokensOfACopy(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	e, secret := newToken(t, "app")
	until(t, "tokens are learned", func() bool { g := (&tokens.Guard{List: w.procs[0].tokens}).Anonymous(); return g.Free() })
	w.procs[0].change(t, e)
	disk, files := w.disks[2].clone("put back"), w.files[2].CrashClone(0, 1)
	w.procs[1].change(t, tokens.Entry{ID: e.ID, Removed: true})
	w.procs[2].stop()
	w.disks[2], w.files[2] = disk, files
	back := w.start(2)
	until(t, "a member with a disk that was put back learns", func() bool {
		_, err := back.grant(secret)
		if !errors.Is(err, tokens.ErrSecret) && !errors.Is(err, tokens.ErrUnlearned) {
			t.Fatalf("a disk that was put back: %v", err)
		}
		return errors.Is(err, tokens.ErrSecret)
	})
}

// TestTokensOnTheWay: a member that can't exchange lists with the one where a token was changed learns of it from a third.
func TestTokensOnTheWay(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	for i, refused := range []string{"c", "", "a"} {
		w.around = func(h wire.Handler) wire.Handler {
			return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
				if r.Verb == verbTokens && r.From.Name == refused {
					return nil, door.ErrUnavailable
				}
				return h(ctx, r, send)
			}
		}
		w.start(i)
	}
	until(t, "birth", w.listed)
	until(t, "tokens are learned", func() bool { g := (&tokens.Guard{List: w.procs[0].tokens}).Anonymous(); return g.Free() })
	e, secret := newToken(t, "app")
	w.procs[0].change(t, e, "c")
	until(t, "c learns of it", func() bool { _, err := w.procs[2].grant(secret); return err == nil })
	w.procs[2].change(t, tokens.Entry{ID: e.ID, Removed: true}, "a")
	until(t, "a learns that it is gone", func() bool { _, err := w.procs[0].grant(secret); return errors.Is(err, tokens.ErrSecret) })
	for _, from := range []*wire.Remote{{Role: wire.RoleClient, Name: "b"}, {Role: wire.RoleNode, Name: "x"}} {
		if _, err := w.procs[0].member.Handler()(t.Context(), &wire.Request{Verb: verbTokens, Body: tokens.Append(nil, nil), From: from}, nil); !errors.Is(err, ErrForeign) {
			t.Errorf("%v %s: %v", from.Role, from.Name, err)
		}
	}
	if _, err := w.procs[0].member.Handler()(t.Context(), &wire.Request{Verb: verbTokens, Body: []byte("x"), From: &wire.Remote{Role: wire.RoleNode, Name: "b"}}, nil); !errors.Is(err, ErrRecord) {
		t.Error(err)
	}
}

// TestTokensWhenPushesAreLost: a member that is told nothing of a removal learns of it in its own rounds, within five seconds, while another member
// takes requests and answers none; and at once while that member is asked which filters exist.
func TestTokensWhenPushesAreLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		hangs []wire.Verb // requests of c that a does not answer
	}{
		{"and a answers nothing about tokens", []wire.Verb{verbTokens}},
		{"and a does not say which filters exist", []wire.Verb{verbEntries}},
		{"and a answers nothing", []wire.Verb{verbTokens, verbState}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newTrio(t, 3)
			var lost, hung atomic.Bool
			over := make(chan struct{})
			t.Cleanup(func() { close(over) })
			for i := range 3 {
				w.around = func(h wire.Handler) wire.Handler {
					return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
						switch {
						case !lost.Load():
						case i == 2 && r.Verb == verbTokens:
							return nil, door.ErrUnavailable
						case i == 0 && r.From.Name == "c" && slices.Contains(c.hangs, r.Verb):
							hung.Store(true)
							select {
							case <-ctx.Done():
							case <-over:
							}
							return nil, door.ErrUnavailable
						}
						answer, err := h(ctx, r, send)
						if i == 0 && r.From.Name == "c" && r.Verb == verbState && slices.Contains(c.hangs, verbEntries) && lost.Load() {
							var s State // c has something to ask a about
							if err := json.Unmarshal(answer, &s); err != nil {
								return nil, err
							}
							s.Filtered++
							return json.Marshal(s)
						}
						return answer, err
					}
				}
				w.start(i)
			}
			until(t, "birth", w.listed)
			until(t, "tokens are learned", func() bool { g := (&tokens.Guard{List: w.procs[0].tokens}).Anonymous(); return g.Free() })
			const tries = 10 // on a busy machine one of them suffices
			limit, asks := 5*time.Second, slices.Contains(c.hangs, verbEntries)
			if asks {
				limit = 3 * roundTime / 4 // of a question that takes roundTime
			}
			list, open := make([]tokens.Entry, tries), make([]tokens.Grant, tries)
			for i := range list {
				e, secret := newToken(t, fmt.Sprint("app", i))
				w.procs[1].change(t, e)
				grant, err := w.procs[2].grant(secret)
				must(t, err)
				list[i], open[i] = e, grant
			}
			lost.Store(true)
			for i, e := range list {
				if hung.Store(false); asks {
					until(t, "c asks a which filters exist", hung.Load)
				}
				began := time.Now()
				w.procs[1].change(t, tokens.Entry{ID: e.ID, Removed: true}, "c")
				until(t, "c learns that the token is gone", func() bool { return !open[i].May(tokens.Read, nil) })
				took := time.Since(began)
				if took <= limit {
					return
				}
				t.Logf("c took a removed token for %v", took)
			}
			t.Errorf("c took removed tokens for longer than %v", limit)
		})
	}
}

// TestTokensNotExchanged: a member with a new disk learns filters and tokens from one member while another one answers nothing about tokens, or does not say
// which filters exist.
func TestTokensNotExchanged(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]wire.Verb{"tokens": verbTokens, "filters": verbEntries} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			learnsBesideHung(t, verb)
		})
	}
}

func learnsBesideHung(t *testing.T, verb wire.Verb) {
	w := newTrio(t, 3)
	var hangs, hung atomic.Bool
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	w.around = func(h wire.Handler) wire.Handler { // that of a
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if !hangs.Load() || r.From.Name != "c" {
				return h(ctx, r, send)
			}
			if r.Verb == verb {
				hung.Store(true)
				select {
				case <-ctx.Done():
				case <-over:
				}
				return nil, door.ErrUnavailable
			}
			answer, err := h(ctx, r, send)
			if err != nil || r.Verb != verbState {
				return answer, err
			}
			var s State
			if err := json.Unmarshal(answer, &s); err != nil {
				return nil, err
			}
			switch verb { // c always has something to ask a about
			case verbTokens:
				s.Tokens = "1"
			case verbEntries:
				s.Filtered++
			}
			return json.Marshal(s)
		}
	}
	w.start(0)
	w.around = nil
	w.start(1)
	w.start(2)
	until(t, "birth", w.listed)
	until(t, "tokens are learned", func() bool { g := (&tokens.Guard{List: w.procs[0].tokens}).Anonymous(); return g.Free() })
	e, secret := newToken(t, "app")
	w.procs[0].change(t, e)
	w.procs[0].create(t, "f")
	w.procs[2].stop()
	w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
	hangs.Store(true)
	fresh := w.start(2)
	until(t, "c lists filters and knows the token", func() bool {
		listed, _ := fresh.member.filters.list.state()
		_, err := fresh.grant(secret)
		return listed && err == nil
	})
	if fresh.member.filters.list.get([]byte("f")) == nil {
		t.Error("c lists all filters, without that of the others")
	}
	until(t, "c has asked a", hung.Load)
	if verb == verbTokens && fresh.member.tokensMet.Load() {
		t.Error("c has met a")
	}
}

// TestLearnedFromLost: a member with a new disk does not take the word of members that were started again with new disks after they said that they know all
// filters.
func TestLearnedFromLost(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	var c *catalogue
	started := make(chan struct{}) // closed when c is known
	var armed, believed atomic.Bool
	for i := range 2 {
		var lost atomic.Bool
		w.around = func(h wire.Handler) wire.Handler {
			return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
				answer, err := h(ctx, r, send)
				switch {
				case r.From.Name != "c" || !armed.Load() || err != nil:
				case r.Verb == verbEntries && lost.CompareAndSwap(false, true):
					return json.Marshal([]FilterEntry{})
				case r.Verb == verbEntries:
					<-started
					if listed, _ := c.state(); listed && c.get([]byte("f")) == nil {
						believed.Store(true)
					}
				case r.Verb == verbState && lost.Load():
					var s State
					if err := json.Unmarshal(answer, &s); err != nil {
						return nil, err
					}
					s.Boot++
					return json.Marshal(s)
				}
				return answer, err
			}
		}
		w.start(i)
	}
	w.around = nil
	w.start(2)
	until(t, "birth", w.listed)
	w.procs[0].create(t, "f")
	w.procs[2].stop()
	w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
	armed.Store(true)
	c = w.start(2).member.filters.list
	close(started)
	until(t, "c lists the filter", func() bool {
		listed, _ := c.state()
		return listed && c.get([]byte("f")) != nil
	})
	if believed.Load() {
		t.Error("c took the word of a member that had no list any more")
	}
}
