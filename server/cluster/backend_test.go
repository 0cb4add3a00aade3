package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"bigset"
	"bigset/server/door"
	"bigset/server/peer/remote"
)

// TestBackendCount: any member counts what it would read, with the context of the whole set, and says why it can't.
func TestBackendCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newTrio(t, 3)
	for i := range 3 {
		w.start(i)
	}
	until(t, "birth", w.whole)
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("e%04d", i))
	}
	must(t, w.procs[0].add(t, "s", names[:1000]...))
	must(t, w.procs[1].add(t, "s", names[1000:]...))
	b := w.procs[2].member.Backend()
	set := []byte("s")
	page := func(reverse bool) door.Token {
		var after door.Token
		for part, err := range b.Read(ctx, door.Read{Set: set, Limit: 300, Reverse: reverse}) {
			must(t, err)
			after = append(after, part.After...)
		}
		return after
	}
	up, down := page(false), page(true)
	for _, tt := range []struct {
		read door.Read
		want uint64
	}{
		{door.Read{}, 2000}, {door.Read{R: 3}, 2000}, {door.Read{R: 1}, 2000}, {door.Read{From: []byte("e0100"), To: []byte("e0150")}, 50}, {door.Read{Prefix: []byte("e1")}, 1000},
		{door.Read{Limit: 70}, 70}, {door.Read{Limit: 7000, Batch: 3}, 2000}, {door.Read{After: up}, 1700}, {door.Read{After: down, Reverse: true}, 1700},
		{door.Read{After: down, Reverse: true, From: []byte("e1000")}, 700}, {door.Read{After: up, Limit: 5}, 5},
	} {
		tt.read.Set = set
		n, err := b.Count(ctx, tt.read)
		if err != nil || n.Elements != tt.want {
			t.Errorf("%+v: %d, want %d, %v", tt.read, n.Elements, tt.want, err)
		}
		if seen, err := w.procs[2].member.live.Load().sealer(set).Seen(n.Context); err != nil || seen.Len() != 2000 {
			t.Errorf("%+v: the context is %v, %v", tt.read, seen, err)
		}
	}
	of := func(node string) *PeerStats { return w.procs[2].member.stats.of(node) }
	reads, counts := uint64(0), uint64(0)
	for _, node := range []string{"a", "b"} {
		reads += of(node).Verbs[remote.VerbRead].Calls.Load()
		counts += of(node).Verbs[remote.VerbCountParts].Calls.Load()
	}
	if reads > 4 || counts < 11 {
		t.Errorf("%d reads of others, of two pages, and %d counts", reads, counts)
	}
	for _, tt := range []struct {
		read door.Read
		want error
	}{
		{door.Read{Set: []byte("nobody's")}, bigset.ErrNotFound}, {door.Read{Set: set, R: 4}, door.ErrQuorum}, {door.Read{Set: set, Limit: -1}, bigset.ErrRequest},
		{door.Read{Set: set, After: up, Reverse: true}, door.ErrCursor}, {door.Read{}, bigset.ErrRequest},
	} {
		if n, err := b.Count(ctx, tt.read); !errors.Is(err, tt.want) || n.Elements != 0 {
			t.Errorf("%+v: %+v, %v, want %v", tt.read, n, err, tt.want)
		}
	}
	w.procs[0].stop()
	w.procs[1].stop()
	if n, err := b.Count(ctx, door.Read{Set: set}); !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("without the others: %+v, %v", n, err)
	}
}
