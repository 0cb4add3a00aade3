package engine

import (
	"slices"
	"testing"
	"time"

	"bigset/compaction"
	"bigset/keyscheme"
)

func TestDue(t *testing.T) {
	began := time.Unix(1000, 0)
	const held = 50 * time.Millisecond
	busy := compaction.Load{Keys: 200_000, Live: 100_000}
	idle, swamped := busy, busy
	idle.Quiet = 2 * compaction.QuietEnough
	swamped.Keys = 10 * swamped.Live
	for _, c := range []struct {
		name  string
		load  compaction.Load
		swap  bool          // a span was swapped at the beginning
		after time.Duration // when it is asked again
		want  bool
	}{
		{"a burst is waited out", busy, false, burstMax / 2, false},
		{"not for ever", busy, false, 2 * burstMax, true},
		{"an idle set need not wait", idle, false, 0, true},
		{"nor one full of garbage", swamped, false, 0, true},
		{"after a swap writers are spared", busy, true, heldShare * held / 2, false},
		{"then the next span goes at once", busy, true, heldShare*held + 1, true},
		{"an idle set has none to spare", idle, true, 0, true},
		{"one full of garbage cannot wait", swamped, true, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newSetPicker()
			p.due("set", c.load, began) // it is wanted from now on
			if c.swap {
				p.spare("set", held, began)
			}
			if got := p.due("set", c.load, began.Add(c.after)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestSetPickerForgets(t *testing.T) {
	t.Parallel()
	p, now := newSetPicker(), time.Now()
	for _, prefix := range []string{"kept", "gone"} {
		p.rest(keyscheme.Prefix(prefix), time.Minute)
		p.lookedAt[prefix] = 1
		p.spare(prefix, time.Second, now)
	}
	p.forgetAllBut(map[string]uint64{"kept": 1})
	if n := []int{len(p.resting), len(p.lookedAt), len(p.wanted), len(p.spared)}; !slices.Equal(n, []int{1, 1, 1, 1}) || !p.rests("kept", now) {
		t.Errorf("it remembers %v", n)
	}
}
