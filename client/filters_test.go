package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/client"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
	"bigset/server/wire"
)

// TestFilters asks a node about filters.
func TestFilters(t *testing.T) {
	t.Parallel()
	h := api.FilterHandler(bloomdtest.NewMemory(), api.Handler(alone.New(newStore(t))))
	c := open(t, client.Options{Addrs: []string{nobody, serve(t, wire.ServerOptions{Handler: h, Name: "n"}, nil)}})
	ctx := t.Context()
	if _, err := c.Set("s").Add(ctx, "paul"); err != nil { // sets are beside them
		t.Fatal(err)
	}
	f := c.Filter([]byte("f"))
	if _, err := f.Check(ctx, []byte("a")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("check of no filter: %v", err)
	}
	capacity, prob := uint64(20_000), 0.01
	for i := range 2 {
		if created, err := f.Create(ctx, client.FilterCreate{Capacity: &capacity, Probability: &prob}); err != nil || created != (i == 0) {
			t.Errorf("creation %d: %v, %v", i, created, err)
		}
	}
	for _, name := range []string{"", "a b", "a\n", string(make([]byte, 300))} {
		if _, err := c.Filter([]byte(name)).Create(ctx, client.FilterCreate{}); !errors.Is(err, bigset.ErrRequest) && !errors.Is(err, bigset.ErrLimit) {
			t.Errorf("a filter called %q: %v", name, err)
		}
	}
	small := uint64(1)
	if _, err := c.Filter([]byte("small")).Create(ctx, client.FilterCreate{Capacity: &small}); !errors.Is(err, bloomslice.ErrOptions) {
		t.Errorf("a filter for one key: %v", err)
	}
	var keys [][]byte
	for i := range api.FilterKeysMax + 10 { // two requests
		keys = append(keys, fmt.Appendf(nil, "key %d", i))
	}
	added, err := f.Mark(ctx, keys...)
	if err != nil || len(added) != len(keys) || !added[0] {
		t.Fatalf("%d answers, %v", len(added), err)
	}
	present, err := f.Check(ctx, append(keys, []byte("another"))...)
	if err != nil || len(present) != len(keys)+1 || !present[0] || !present[len(keys)-1] || present[len(keys)] {
		t.Fatalf("%d answers, %v", len(present), err)
	}
	if none, err := f.Check(ctx); err != nil || len(none) != 0 {
		t.Errorf("no keys: %v, %v", none, err)
	}
	info, err := f.Info(ctx, client.InfoOptions{Absolute: true})
	if err != nil || info.Name != "f" || info.Capacity != capacity || info.Size < 9_000 || info.Probability != prob || !info.InMemory {
		t.Errorf("%+v, %v", info, err)
	}
	if err := f.Clear(ctx); !errors.Is(err, bigset.ErrFilterOpen) {
		t.Errorf("clear of an open one: %v", err)
	}
	for i := range api.FilterListMost + 3 {
		if _, err := c.Filter(fmt.Appendf(nil, "g%03d", i)).Create(ctx, client.FilterCreate{Capacity: &capacity}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for info, err := range c.Filters(ctx, client.FiltersOptions{Prefix: []byte("g")}) {
		if err != nil || info.Name != fmt.Sprintf("g%03d", n) {
			t.Fatalf("filter %d: %+v, %v", n, info, err)
		}
		n++
	}
	if n != api.FilterListMost+3 {
		t.Errorf("%d filters", n)
	}
	for what, err := range map[string]error{"flush": f.Flush(ctx), "flush all": c.FlushFilters(ctx), "close": f.Close(ctx), "clear": f.Clear(ctx)} {
		_ = what // in no order: clear may come before close
		if err != nil && !errors.Is(err, bigset.ErrFilterOpen) && !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Filter([]byte("g001")).Drop(ctx); err != nil {
		t.Errorf("drop: %v", err)
	}
	if err := c.Filter([]byte("g001")).Drop(ctx); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("drop again: %v", err)
	}
}

// losing is a way to a node that loses the first answer.
type losing struct {
	h     wire.Handler
	calls int
}

func (l *losing) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	l.calls++
	b, err := l.h(ctx, &wire.Request{Verb: c.Verb, Body: c.Body}, nil)
	if l.calls == 1 {
		return nil, fmt.Errorf("%w: the connection broke", wire.ErrLost)
	}
	if err != nil {
		return nil, api.Errors{}.Decode(api.Errors{}.Append(nil, err))
	}
	return b, nil
}

func (l *losing) Stream(context.Context, wire.Call) iter.Seq2[[]byte, error] { panic("no streams") }

// TestFilterAnswerLost: a request whose answer was lost is sent again, and says what both came to.
func TestFilterAnswerLost(t *testing.T) {
	t.Parallel()
	node := bloomdtest.NewMemory()
	h := api.FilterHandler(node, nil)
	over := func() (*client.Filter, *losing) {
		l := &losing{h: h}
		return client.Over(l).Filter([]byte("f")), l
	}
	f, l := over()
	if created, err := f.Create(t.Context(), client.FilterCreate{}); err != nil || !created || l.calls != 2 {
		t.Errorf("create: %v, %v after %d calls", created, err, l.calls)
	}
	f, _ = over()
	if added, err := f.Mark(t.Context(), []byte("a")); err != nil || added[0] {
		t.Errorf("mark: %v, %v", added, err)
	}
	f, _ = over()
	if present, err := f.Check(t.Context(), []byte("a")); err != nil || !present[0] {
		t.Errorf("check: %v, %v", present, err)
	}
	f, _ = over()
	if err := f.Drop(t.Context()); err != nil {
		t.Errorf("drop: %v", err)
	}
	if _, err := node.Find(t.Context(), []byte("f")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("it is still there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	never := client.Over(callerFunc(func(wire.Call) ([]byte, error) { return nil, wire.ErrLost })).Hasty(cancel)
	var unknown *client.UnknownError
	if _, err := never.Filter([]byte("f")).Mark(ctx, []byte("a")); !errors.As(err, &unknown) || unknown.What == "" || !errors.Is(err, client.ErrUnknown) {
		t.Errorf("no answer at all: %v", err)
	}
}

// callerFunc is a way to a node.
type callerFunc func(c wire.Call) ([]byte, error)

func (f callerFunc) Do(_ context.Context, c wire.Call) ([]byte, error) { return f(c) }

func (f callerFunc) Stream(context.Context, wire.Call) iter.Seq2[[]byte, error] { panic("no streams") }

// faulty is filters whose disk fails.
type faulty struct{ door.Filters }

func (faulty) Drop(context.Context, []byte) error { return errors.New("a disk fails") }

// TestFilterFault: after a fault nobody knows what a change came to.
func TestFilterFault(t *testing.T) {
	t.Parallel()
	node := bloomdtest.NewMemory()
	h := api.FilterHandler(faulty{node}, nil)
	c := client.Over(callerFunc(func(c wire.Call) ([]byte, error) {
		b, err := h(t.Context(), &wire.Request{Verb: c.Verb, Body: c.Body}, nil)
		if err != nil {
			err = api.Errors{}.Decode(api.Errors{}.Append(nil, err))
		}
		return b, err
	}))
	if _, err := c.Filter([]byte("f")).Create(t.Context(), client.FilterCreate{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.Hasty(cancel).Filter([]byte("f")).Drop(ctx); !errors.Is(err, client.ErrUnknown) {
		t.Errorf("a drop that met a fault: %v", err)
	}
}

// TestMarkInParts: a mark that takes several requests is unknown when a later one fails; one answer that does not fit makes it unknown, too.
func TestMarkInParts(t *testing.T) {
	t.Parallel()
	node := bloomdtest.NewMemory()
	h := api.FilterHandler(node, nil)
	calls, spoil := 0, func([]byte, error) ([]byte, error) { return nil, nil }
	c := client.Over(callerFunc(func(c wire.Call) ([]byte, error) {
		b, err := h(t.Context(), &wire.Request{Verb: c.Verb, Body: c.Body}, nil)
		if calls++; calls == 2 {
			b, err = spoil(b, err)
		}
		if err != nil {
			err = api.Errors{}.Decode(api.Errors{}.Append(nil, err))
		}
		return b, err
	}))
	f := c.Filter([]byte("f"))
	if _, err := f.Create(t.Context(), client.FilterCreate{}); err != nil {
		t.Fatal(err)
	}
	keys := make([][]byte, api.FilterKeysMax+1)
	for i := range keys {
		keys[i] = fmt.Append(nil, i)
	}
	limit := func([]byte, error) ([]byte, error) { return nil, bigset.ErrLimit }
	gone := func([]byte, error) ([]byte, error) { return nil, bigset.ErrNoFilter }
	short := func(b []byte, err error) ([]byte, error) { return api.AppendAnswers(nil, nil), err }
	for what, tt := range map[string]struct {
		spoil   func([]byte, error) ([]byte, error)
		calls   int // before
		do      func() error
		unknown bool
		want    error
	}{
		"a later request is refused":      {limit, 0, func() error { _, err := f.Mark(t.Context(), keys...); return err }, true, bigset.ErrLimit},
		"the first request is refused":    {limit, 1, func() error { _, err := f.Mark(t.Context(), keys...); return err }, false, bigset.ErrLimit},
		"a later request meets no filter": {gone, 0, func() error { _, err := f.Mark(t.Context(), keys...); return err }, true, bigset.ErrNoFilter},
		"a mark has no answers":           {short, 1, func() error { _, err := f.Mark(t.Context(), keys[0]); return err }, true, client.ErrAnswer},
		"a creation has no answer":        {short, 1, func() error { _, err := f.Create(t.Context(), client.FilterCreate{}); return err }, true, client.ErrAnswer},
		"a later check is refused":        {limit, 0, func() error { _, err := f.Check(t.Context(), keys...); return err }, false, bigset.ErrLimit},
		"a check has no answers":          {short, 1, func() error { _, err := f.Check(t.Context(), keys[0]); return err }, false, client.ErrAnswer},
	} {
		calls, spoil = tt.calls, tt.spoil
		if err := tt.do(); !errors.Is(err, tt.want) || errors.Is(err, client.ErrUnknown) != tt.unknown {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestMembersAway: what takes all members fails as soon as each node was asked once, with the reason. Other failures are asked again.
func TestMembersAway(t *testing.T) {
	t.Parallel()
	asked, pauses, agains := 0, 0, 0
	away := errors.New("")
	node := direct{func(context.Context, *wire.Request, func([]byte) error) ([]byte, error) {
		asked++
		return nil, fmt.Errorf("%w: to create a filter takes all members: c can't be reached", away)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := client.Over(node, node).Hasty(func() {
		if pauses++; pauses == 3 {
			cancel()
		}
	})
	began := time.Now()
	c.OnAgain(func(since time.Time, err error) {
		if agains++; since.Before(began) || agains > pauses || !strings.Contains(err.Error(), "c can't be reached") {
			t.Errorf("asked again after %d pauses, since %v: %v", pauses, since, err)
		}
	})
	f := c.Filter([]byte("f"))
	away = client.ErrMembersAway
	_, created := f.Create(ctx, client.FilterCreate{})
	for what, err := range map[string]error{"create": created, "drop": f.Drop(ctx), "clear": f.Clear(ctx)} {
		if !errors.Is(err, client.ErrMembersAway) || !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) || !strings.Contains(err.Error(), "c can't be reached") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if asked != 6 || pauses > 0 {
		t.Errorf("%d requests and %d pauses for three calls to two nodes", asked, pauses)
	}
	dead := callerFunc(func(wire.Call) ([]byte, error) { return nil, fmt.Errorf("%w: connection refused", wire.ErrNotSent) })
	full := callerFunc(func(wire.Call) ([]byte, error) { return nil, fmt.Errorf("%w: too much is under way", wire.ErrBusy) })
	for what, c := range map[string]*client.Client{"one is away": client.Over(node, node, dead), "one is busy": client.Over(full, node)} {
		c.Hasty(func() {
			t.Errorf("%s: asked again", what)
			cancel()
		})
		if err := c.Filter([]byte("f")).Drop(ctx); !errors.Is(err, client.ErrMembersAway) || errors.Is(err, client.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	away = client.ErrUnavailable
	if err := f.Drop(ctx); err == nil || pauses != 3 || agains != 2 {
		t.Errorf("another failure: %v after %d pauses, asked again %d times", err, pauses, agains)
	}
}
