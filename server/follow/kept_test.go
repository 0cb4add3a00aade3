package follow

import (
	"bytes"
	"testing"
	"time"

	"bigset/clock"
	"bigset/keyscheme"
)

// TestKept: a position is kept for its set, until its time is up, there is no room, or the one after it was asked for.
func TestKept(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	last := uint64(0)
	at := func() *keyscheme.Position {
		last++
		return &keyscheme.Position{Seen: clock.Of(clock.Dot{Actor: "a", Counter: last}), Dead: &clock.Clock{}}
	}
	k := &Kept{Options: Options{Now: func() time.Time { return now }, BytesMax: 3000}}
	set := []byte("set")
	first := k.put(set, at(), nil)
	if k.get([]byte("another"), first.ID) != nil || k.get(set, first.ID) == nil {
		t.Error("a position is of its set")
	}
	second := k.put(set, at(), first.ID)
	if k.get(set, first.ID) == nil {
		t.Error("the follower may not have got the second one")
	}
	if k.get(set, second.ID) == nil || k.get(set, first.ID) != nil {
		t.Error("it has got it, and needs the first one no more")
	}
	now = now.Add(keptTime - 1)
	if k.get(set, second.ID) == nil {
		t.Error("its time is not up")
	}
	now = now.Add(keptTime)
	if k.get(set, second.ID) != nil || k.bytes != 0 || len(k.all) != 0 {
		t.Error("its time is up")
	}
	old := k.put(set, at(), nil)
	for range 20 {
		now = now.Add(time.Second)
		last := k.put(set, at(), nil)
		if k.bytes > 3000 || k.get(set, last.ID) == nil {
			t.Fatalf("%d bytes; or the last one is not kept", k.bytes)
		}
	}
	if k.get(set, old.ID) != nil {
		t.Error("the one that was used least lately stays")
	}
}

// TestKeptAgain: a follower to which nothing happens keeps its position, for longer each time.
func TestKeptAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	k := &Kept{Options: Options{Now: func() time.Time { return now }}}
	at := func() *keyscheme.Position {
		return &keyscheme.Position{Seen: clock.Of(clock.Dot{Actor: "a", Counter: 7}), Dead: &clock.Clock{}}
	}
	set := []byte("set")
	first := k.put(set, at(), nil)
	now = now.Add(keptTime / 2)
	if again := k.put(set, at(), first.ID); !bytes.Equal(again.ID, first.ID) || len(k.all) != 1 {
		t.Errorf("%x after %x, %d kept", again.ID, first.ID, len(k.all))
	}
	if now = now.Add(keptTime - 1); k.get(set, first.ID) == nil {
		t.Error("it is not kept for longer")
	}
	for _, other := range []*keyscheme.Position{
		{Seen: at().Seen, Dead: at().Seen},
		{Seen: &clock.Clock{}, Dead: at().Dead},
		{Seen: at().Seen, Dead: at().Dead, Listed: true},
		{Seen: at().Seen, Dead: at().Dead, After: []byte("a")},
	} {
		if next := k.put(set, other, first.ID); bytes.Equal(next.ID, first.ID) {
			t.Errorf("%+v is another position", other)
		}
	}
}

// TestKeptOwnFirst: where there is no room, the position that a follower had before goes, and not that of another follower.
func TestKeptOwnFirst(t *testing.T) {
	t.Parallel()
	k := &Kept{}
	at := func(n uint64) *keyscheme.Position {
		return &keyscheme.Position{Seen: clock.Of(clock.Dot{Actor: "a", Counter: n}), Dead: &clock.Clock{}}
	}
	set := []byte("set")
	others := k.put(set, at(1), nil)
	mine := k.put(set, at(2), nil)
	k.BytesMax = k.bytes
	next := k.put(set, at(3), mine.ID)
	if k.get(set, others.ID) == nil || k.get(set, mine.ID) != nil || k.get(set, next.ID) == nil {
		t.Error("the position of another follower is gone, or not the one before")
	}
}
