package coord_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// crowd is a replica that takes deltas from many goroutines, counts how many are under way at once, and answers as it is asked to.
type crowd struct {
	target
	mu     sync.Mutex
	under  int
	peaks  []int // of each group of calls that were under way together
	calls  int
	refuse func(d *bigset.Delta) error
}

func (r *crowd) to([]byte) peer.Replica { return r }

// Apply answers after a second, so that all that is sent at once is under way at once.
func (r *crowd) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	r.mu.Lock()
	r.calls++
	if r.under++; r.under == 1 {
		r.peaks = append(r.peaks, 0)
	}
	r.peaks[len(r.peaks)-1] = max(r.peaks[len(r.peaks)-1], r.under)
	r.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under--
	if err := ctx.Err(); err != nil {
		return peer.Member{}, fmt.Errorf("%w: %w", peer.ErrUnavailable, err)
	}
	if r.refuse != nil {
		if err := r.refuse(&d); err != nil {
			return peer.Member{}, err
		}
	}
	return r.target.Apply(ctx, d, durability)
}

// windowed returns hints of a node, each as many for every name of a set, in turns.
func windowed(t *testing.T, sets []string, each int, o coord.HintOptions) *coord.Hints {
	h := openHints(t, newFolder(t, testkit.NewDisk()), o)
	for i := range each * len(sets) {
		d := hinted(i+1, "x")
		d.Set = []byte(sets[i%len(sets)])
		if err := h.Add("a", sender, d); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// TestReplayWindows: windows double up to their bound, each hint arrives once, and hints of a window are under way together.
func TestReplayWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := windowed(t, []string{"s"}, 30, coord.HintOptions{SegmentBytes: 500})
		r := &crowd{}
		sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to, Window: 8})
		if sent != 30 || err != nil || !slices.Equal(r.peaks, []int{1, 2, 4, 8, 8, 7}) {
			t.Errorf("%d sent in windows %v, %v", sent, r.peaks, err)
		}
		if got := slices.Sorted(slices.Values(r.firsts())); len(got) != 30 || len(slices.Compact(got)) != 30 {
			t.Errorf("arrived: %v", got)
		}
		if b := h.Backlog("a"); b != (coord.Backlog{}) {
			t.Errorf("%+v is left", b)
		}
	})
}

// TestReplayWindowFails: a hint that fails stays, those beside it that have arrived go, those of its set in later windows are not sent, and
// the next window is of one hint again.
func TestReplayWindowFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := windowed(t, []string{"ok", "bad"}, 20, coord.HintOptions{})
		r := &crowd{refuse: func(d *bigset.Delta) error {
			if string(d.Set) == "bad" && d.First > 3 {
				return fmt.Errorf("%w: damaged", peer.ErrUnavailable)
			}
			if d.First == 9 {
				return bigset.ErrDelta
			}
			return nil
		}}
		sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to, Window: 16})
		// 1 | 2 3 | 4f 5 6f 7 | then only those of "ok"
		if sent != 20 || !errors.Is(err, peer.ErrUnavailable) || !slices.Equal(r.peaks, []int{1, 2, 4, 1, 2, 4, 8, 1}[:len(r.peaks)]) {
			t.Errorf("%d sent in windows %v, %v", sent, r.peaks, err)
		}
		if b := h.Backlog("a"); b.Count != 19 {
			t.Errorf("%d hints are left", b.Count)
		}
		r.refuse = nil
		if sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to, Window: 16}); sent != 19 || err != nil {
			t.Errorf("%d sent after that, %v", sent, err)
		}
	})
}

// TestReplayWindowAway: a node that is away is called a few times only, whatever the window.
func TestReplayWindowAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sets := make([]string, 50)
		for i := range sets {
			sets[i] = fmt.Sprint("s", i)
		}
		h := windowed(t, sets, 4, coord.HintOptions{})
		r := &crowd{refuse: func(*bigset.Delta) error { return peer.ErrUnavailable }}
		if sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to, Window: 64}); sent != 0 || err == nil || r.calls != 4 {
			t.Errorf("%d sent by %d calls, %v", sent, r.calls, err)
		}
		r.refuse, r.calls = nil, 0
		short, cancel := context.WithTimeout(ctx, 3500*time.Millisecond) // in the window of 8
		defer cancel()
		sent, err := h.Replay(short, "a", coord.Targets{Set: r.to, Window: 64})
		if sent != 7 || !errors.Is(err, context.DeadlineExceeded) || r.calls != 15 || r.under != 0 {
			t.Errorf("%d sent by %d calls, %d under way, %v", sent, r.calls, r.under, err)
		}
		if b := h.Backlog("a"); b.Count != 193 {
			t.Errorf("%d hints are left", b.Count)
		}
	})
}

// TestReplayWindowBytes: a window is bounded by bytes, too.
func TestReplayWindowBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
		for i := range 12 {
			d := hinted(20*i+1, "")
			d.Items = nil
			for range 20 { // more than 1 MiB in all
				d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: make([]byte, bigset.ElementBytesMax)})
			}
			if err := h.Add("a", sender, d); err != nil {
				t.Fatal(err)
			}
		}
		r := &crowd{}
		if sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to, Window: 64}); sent != 12 || err != nil || !slices.Equal(r.peaks, []int{1, 2, 4, 4, 1}) {
			t.Errorf("%d sent in windows %v, %v", sent, r.peaks, err)
		}
	})
}

// synced is sending for many goroutines; some hints never arrive.
type synced struct {
	sending
	mu *sync.Mutex
}

func (s synced) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.First%20 == 5 {
		return peer.Member{}, peer.ErrUnavailable
	}
	return s.sending.Apply(ctx, d, durability)
}

// TestReplayWindowCrash cuts the power whenever a hint of a window has arrived, and before each operation on the disk after: each hint that
// had not arrived is kept.
func TestReplayWindowCrash(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	hi := history{must: map[int]bool{}, may: map[int]bool{}}
	h := openHints(t, f, coord.HintOptions{SegmentBytes: 400})
	for n := 1; n <= 40; n++ {
		d := hinted(n, "x")
		d.Set = fmt.Appendf(nil, "s%d", n%7)
		if err := h.Add("a", sender, d); err != nil {
			t.Fatal(err)
		}
		hi.must[n], hi.may[n] = true, true
	}
	var crashes []func()
	var mu sync.Mutex
	cut := func(what string) {
		for _, percent := range []int{0, 50, 100} {
			left, at := hi.clone(), disk.CrashClone(percent, uint64(len(crashes)))
			crashes = append(crashes, func() { left.check(t, fmt.Sprintf("%s, %d%%", what, percent), newFolder(t, at)) })
		}
	}
	for range 6 {
		r := cutting{synced{sending{&target{}, &hi}, &mu}, cut}
		_, _ = h.Replay(context.Background(), "a", coord.Targets{Set: func([]byte) peer.Replica { return r }, Window: 8})
		cut("after a replay")
	}
	if b := h.Backlog("a"); b.Count != len(hi.must) || b.Count == 0 || b.Count > 20 {
		t.Errorf("%d hints are left, of %v", b.Count, slices.Sorted(maps.Keys(hi.must)))
	}
	if len(crashes) < 60 {
		t.Errorf("only %d crashes", len(crashes))
	}
	for _, check := range crashes {
		check()
	}
}

// cutting cuts the power after each hint that has arrived.
type cutting struct {
	synced
	cut func(what string)
}

func (c cutting) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	m, err := c.synced.Apply(ctx, d, durability)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut(fmt.Sprintf("after hint %d", d.First))
	return m, err
}
