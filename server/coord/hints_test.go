package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

var sender = peer.Member{Node: "sender", Incarnation: "S1", State: peer.Normal}

// hinted returns the delta of the n-th add of an actor.
func hinted(n int, element string) peer.Delta {
	return peer.Delta{Set: set, Actor: "S1", First: uint64(n), Request: []byte("r"), Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte(element)}}}
}

func openHints(t testing.TB, f coord.Folder, o coord.HintOptions) *coord.Hints {
	t.Helper()
	h, err := coord.OpenHints(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// target is a replica that notes what it is given.
type target struct {
	*local.Replica
	got  []bigset.Delta
	err  error
	left int // calls until err
}

func (r *target) Member() peer.Member { return peer.Member{} }

func (r *target) Apply(_ context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	if r.left--; r.left < 0 && r.err != nil {
		return peer.Member{}, r.err
	}
	if durability != bigset.Sync {
		return peer.Member{}, errors.New("a hint goes when it is on disk")
	}
	r.got = append(r.got, d)
	return peer.Member{}, nil
}

// firsts returns the counters of the deltas that it was given.
func (r *target) firsts() (all []int) {
	for _, d := range r.got {
		all = append(all, int(d.First))
	}
	return all
}

func (r *target) to([]byte) peer.Replica { return r }

func TestHintsSurvive(t *testing.T) {
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	h := openHints(t, f, coord.HintOptions{SegmentBytes: 200})
	for i := 1; i <= 20; i++ {
		if err := h.Add([]string{"a", "b"}[i%2], sender, hinted(i, fmt.Sprint("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	f = newFolder(t, disk.CrashClone(0, 1))
	h = openHints(t, f, coord.HintOptions{SegmentBytes: 200})
	if n, size := h.Pending("a"); n != 10 || size == 0 || !slices.Equal(h.Nodes(), []string{"a", "b"}) {
		t.Errorf("%d hints of %d bytes for %v", n, size, h.Nodes())
	}
	r := &target{}
	if n, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); n != 10 || err != nil || !slices.Equal(r.firsts(), []int{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}) {
		t.Errorf("%d replayed: %v, %v", n, r.firsts(), err)
	}
	if d, want := r.got[0], hinted(2, "x2"); !bytes.Equal(d.Items[0].Element, want.Items[0].Element) || d.Actor != want.Actor || string(d.Request) != "r" {
		t.Errorf("%+v", d)
	}
	broken := &target{err: peer.ErrUnavailable, left: 3}
	if n, err := h.Replay(ctx, "b", coord.Targets{Set: broken.to}); n != 3 || !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("%d replayed, %v", n, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHints(t, f, coord.HintOptions{SegmentBytes: 200})
	if n, _ := h.Pending("b"); n != 7 || len(h.Nodes()) != 1 {
		t.Errorf("%d hints after the second open, for %v", n, h.Nodes())
	}
	r = &target{}
	if n, err := h.Replay(ctx, "b", coord.Targets{Set: r.to}); n != 7 || err != nil || r.got[0].First != 7 {
		t.Errorf("%d replayed: %v, %v", n, r.firsts(), err)
	}
	if names, err := f.List(); err != nil || len(names) > 1 {
		t.Errorf("files left: %v, %v", names, err)
	}
	if err := errors.Join(h.Close(), h.Add("a", sender, hinted(99, "x"))); !errors.Is(err, coord.ErrClosed) {
		t.Error(err)
	}
}

func TestHintsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	var events []coord.Event
	f := newFolder(t, testkit.NewDisk())
	h := openHints(t, f, coord.HintOptions{BytesMax: 1000, SegmentBytes: 300, AgeMax: time.Hour, Now: func() time.Time { return now },
		Events: func(e coord.Event) { events = append(events, e) }})
	n := 0
	for err := error(nil); err == nil; n++ {
		if err = h.Add("a", sender, hinted(n+1, "x")); err != nil && !errors.Is(err, coord.ErrHintsFull) {
			t.Fatal(err)
		}
	}
	n--
	if count, size := h.Pending("a"); count != n || size > 1000 || n < 5 {
		t.Errorf("%d hints of %d bytes, %d were taken", count, size, n)
	}
	now = now.Add(2 * time.Hour)
	if err := h.Add("b", sender, hinted(1, "x")); !errors.Is(err, coord.ErrHintsFull) {
		t.Error(err)
	}
	r := &target{}
	if sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); sent != 0 || err != nil || len(r.got) > 0 {
		t.Errorf("%d hints that are too old were sent, %v", sent, err)
	}
	if len(events) != 1 || events[0].Kind != coord.EventHintExpired || events[0].Count != n || events[0].Node != "a" {
		t.Errorf("%+v", events)
	}
	if err := h.Add("b", sender, hinted(1, "x")); err != nil {
		t.Error("no room after the old ones went:", err)
	}
}

// TestHintFilesAreBounded keeps some hints, each in a file of its own, for a node that is away, while others come and go.
func TestHintFilesAreBounded(t *testing.T) {
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	h := openHints(t, f, coord.HintOptions{BytesMax: 1000, SegmentBytes: 300})
	sizes := func() (total int64) {
		names, _ := f.List()
		for _, name := range names {
			info, err := disk.Stat("hints/" + name)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		return total
	}
	most := int64(0)
	for i := range 300 {
		node := "b"
		if i%30 == 0 {
			node = "away"
		}
		if err := h.Add(node, sender, hinted(i+1, "x")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Replay(ctx, "b", coord.Targets{Set: (&target{}).to}); err != nil {
			t.Fatal(err)
		}
		most = max(most, sizes())
	}
	if most > 2*1000+2*400 {
		t.Errorf("%d bytes of files for at most 1000 of hints", most)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	r := &target{}
	h = openHints(t, newFolder(t, disk.CrashClone(0, 1)), coord.HintOptions{})
	if n, err := h.Replay(ctx, "away", coord.Targets{Set: r.to}); n != 10 || err != nil || !slices.Equal(r.firsts(), []int{1, 31, 61, 91, 121, 151, 181, 211, 241, 271}) {
		t.Errorf("%d hints: %v, %v", n, r.firsts(), err)
	}
}

func TestHintsThatAreRefused(t *testing.T) {
	var events []coord.Event
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Events: func(e coord.Event) { events = append(events, e) }})
	for i := range 3 {
		if err := h.Add("a", sender, hinted(i+1, "x")); err != nil {
			t.Fatal(err)
		}
	}
	r := &target{err: fmt.Errorf("no: %w", bigset.ErrDelta), left: 1}
	if n, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, _ := h.Pending("a"); n != 0 || len(events) != 3 || events[0].Kind != coord.EventRefused || events[2].Kind != coord.EventHintReplayed {
		t.Errorf("%d left, %+v", n, events)
	}
	if err := h.Add("a", sender, hinted(9, "x")); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Replay(ctx, "a", coord.Targets{Set: func([]byte) peer.Replica { return nil }}); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, _ := h.Pending("a"); n != 1 {
		t.Error("a hint went that no replica took")
	}
}

// history is a run of hints: what must be there, and what may be.
type history struct {
	must map[int]bool // added, and not sent
	may  map[int]bool // added in vain, or sent
}

func (hi *history) clone() history { return history{maps.Clone(hi.must), maps.Clone(hi.may)} }

// play does a script with a folder. What must be there, and may be, is noted as it goes.
func (hi *history) play(f coord.Folder) {
	hi.must, hi.may = map[int]bool{}, map[int]bool{}
	n := 0
	for range 3 {
		h, err := coord.OpenHints(f, coord.HintOptions{SegmentBytes: 250, BytesMax: 900})
		if err != nil {
			continue
		}
		for i := range 9 {
			n++
			hi.may[n] = true
			if err := h.Add([]string{"a", "b"}[i%3/2], sender, hinted(n, "x")); err == nil {
				hi.must[n] = true
			}
		}
		r := &target{}
		_, _ = h.Replay(context.Background(), "a", coord.Targets{Set: func([]byte) peer.Replica { return sending{r, hi} }})
		_ = h.Close()
	}
}

// sending notes that what is sent need not be there any more.
type sending struct {
	*target
	hi *history
}

func (s sending) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	delete(s.hi.must, int(d.First))
	return s.target.Apply(ctx, d, durability)
}

// check opens what is left and looks for the hints.
func (hi *history) check(t *testing.T, what string, f coord.Folder) {
	t.Helper()
	h, err := coord.OpenHints(f, coord.HintOptions{})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	got := map[int]bool{}
	for _, node := range h.Nodes() {
		r := &target{}
		if _, err := h.Replay(context.Background(), node, coord.Targets{Set: r.to}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, n := range r.firsts() {
			if got[n] {
				t.Errorf("%s: hint %d comes twice", what, n)
			}
			got[n] = true
		}
	}
	for n := range hi.must {
		if !got[n] {
			t.Errorf("%s: hint %d is lost; there are %v", what, n, slices.Sorted(maps.Keys(got)))
			return
		}
	}
	for n := range got {
		if !hi.may[n] {
			t.Errorf("%s: hint %d was never added", what, n)
		}
	}
}

// TestHintsCrash cuts the power before every operation on the disk.
func TestHintsCrash(t *testing.T) {
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	type crash struct {
		disk *testkit.Disk
		hi   history
		what string
	}
	var crashes []crash
	var hi history
	disk.SetHook("crash", func(op errorfs.Op) error {
		if testkit.IsWrite(op) {
			for _, percent := range []int{0, 50, 100} {
				crashes = append(crashes, crash{disk.CrashClone(percent, uint64(len(crashes))), hi.clone(), fmt.Sprintf("%d%%, before %v %s (%d)", percent, op.Kind, op.Path, len(crashes)/3)})
			}
		}
		return nil
	})
	hi.play(f)
	disk.SetHook("crash", nil)
	if len(crashes) < 100 {
		t.Errorf("only %d crashes", len(crashes))
	}
	for _, c := range crashes {
		c.hi.check(t, c.what, newFolder(t, c.disk))
	}
	hi.check(t, "at the end", f)
	tier.Count(t, "crashes", len(crashes))
	t.Logf("%d crashes", len(crashes))
}

// TestHintsFail fails every operation on the disk once, then all from one on.
func TestHintsFail(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			disk := testkit.NewDisk()
			f := newFolder(t, disk)
			left, failed := n, false
			disk.SetHook("fail", func(op errorfs.Op) error {
				if left--; left == -1 || left < -1 && forever {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			disk.SetShortWrites(func(string) error {
				if left--; left == -1 || left < -1 && forever {
					failed = true
					return syscall.ENOSPC
				}
				return nil
			})
			var hi history
			hi.play(f)
			disk.SetHook("fail", nil)
			disk.SetShortWrites(nil)
			what := fmt.Sprintf("operation %d fails, forever %v", n, forever)
			hi.check(t, what+", crashed", newFolder(t, disk.CrashClone(0, 1)))
			hi.check(t, what, f)
			if !failed {
				tier.Count(t, "faults", int(n))
				t.Logf("%d operations", n)
				break
			}
		}
	}
}
