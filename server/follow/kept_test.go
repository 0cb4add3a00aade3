package follow

import (
	"testing"
	"time"

	"bigset/clock"
	"bigset/keyscheme"
)

// TestKept: a position is kept for its set, until its time is up, there is no room, or the one after it was asked for.
func TestKept(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	at := func() *keyscheme.Position {
		return &keyscheme.Position{Seen: clock.Of(clock.Dot{Actor: "a", Counter: 7}), Dead: &clock.Clock{}}
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
