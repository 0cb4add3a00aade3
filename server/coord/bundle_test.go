package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// manySender is a replica that takes several deltas at once, in a way of its own.
type manySender struct {
	*local.Replica
	how string // "sends", "waits": ApplyMany is the way; "loses": no answer comes; "refuses": one element; "unknown": one element whose outcome nobody knows;
	// "undecodable": no call with one element; "older": no call of several
	held   chan struct{} // if it is not nil, Apply of that element waits for it
	mu     sync.Mutex
	frames []int // how many deltas were in each call of several
	single int
}

// bad is the element that replicas refuse.
var bad = []byte("bad")

func (s *manySender) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	s.mu.Lock()
	s.single++
	s.mu.Unlock()
	if s.held != nil && isBad(&d) {
		<-s.held
	}
	if err := s.fails(&d); err != nil {
		return s.Member(), err
	}
	return s.Replica.Apply(ctx, d, durability)
}

func isBad(d *bigset.Delta) bool {
	return slices.ContainsFunc(d.Items, func(it bigset.Item) bool { return string(it.Element) == string(bad) })
}

// fails returns the error of a delta.
func (s *manySender) fails(d *bigset.Delta) error {
	is := isBad(d)
	switch {
	case is && s.how == "undecodable":
		return peer.ErrFrameTooLarge
	case s.how == "loses":
		return errors.New("connection reset")
	case is && s.how == "refuses":
		return fmt.Errorf("%w: not that one", bigset.ErrDelta)
	case is && s.how == "unknown":
		return bigset.ErrFailed
	}
	return nil
}

func (s *manySender) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	s.mu.Lock()
	s.frames = append(s.frames, len(all))
	s.mu.Unlock()
	switch s.how {
	case "loses":
		return nil, s.Member(), errors.New("connection reset")
	case "undecodable":
		return nil, s.Member(), peer.ErrFrameTooLarge
	case "older":
		return nil, s.Member(), peer.ErrOneByOne
	}
	each := make([]error, len(all))
	for i := range all {
		if each[i] = s.fails(&all[i]); each[i] == nil {
			_, each[i] = s.Replica.Apply(ctx, all[i], durability)
		}
	}
	if !slices.ContainsFunc(each, func(err error) bool { return err != nil }) {
		each = nil
	}
	return each, s.Member(), nil
}

func (s *manySender) SendDeltas(ctx context.Context, all []bigset.Delta, durability bigset.Durability, done func([]error, error)) bool {
	if s.how == "waits" {
		return false
	}
	go func() {
		each, _, err := s.ApplyMany(ctx, all, durability)
		done(each, err)
	}()
	return true
}

// together is a replica whose writers share a sync: Applied is called for each when all of them have come.
type together struct {
	*local.Replica
	mu   sync.Mutex
	tell []func(*bigset.Group)
	told chan struct{} // closed when all have their outcome
}

func (r *together) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	applied := o.Applied
	o.Applied = nil
	result, m, err := r.Replica.Write(ctx, set, ops, o)
	r.mu.Lock()
	if r.tell = append(r.tell, func(g *bigset.Group) { applied(result, g) }); len(r.tell) == bundleWriters {
		var g bigset.Group
		for _, tell := range r.tell {
			tell(&g)
		}
		g.Done()
		close(r.told)
	}
	r.mu.Unlock()
	<-r.told
	return result, m, err
}

// bundleCase is a run of TestBundles.
type bundleCase struct {
	how    string
	bad    error  // of the write of the bad element
	missed string // events of the other replica, sorted
	hints  int
	held   bool // the write of the bad element can't end before the others have: by itself, or for its hint
	many   bool // the writers come together: WriteMany
}

// bundleWriters is how many writers share a sync.
const bundleWriters = 12

// TestBundles: the deltas of writers that share a sync go to each replica in one frame, and each write has its own outcome: one delta that fails leaves the
// others acknowledged, and leaves the only hint. If a call of several does nothing, each delta goes by itself, and none waits for another.
func TestBundles(t *testing.T) {
	t.Parallel()
	const writers = bundleWriters
	for _, c := range []bundleCase{
		{how: "sends"},
		{how: "waits"},
		{how: "refuses", bad: coord.ErrUnknown, missed: "refused"},
		{how: "unknown", bad: coord.ErrUnknown, missed: "not-sent", hints: 1, held: true},
		{how: "loses", bad: coord.ErrUnknown, missed: strings.TrimSpace(strings.Repeat("not-sent ", writers)), hints: writers},
		{how: "undecodable", bad: coord.ErrUnknown, missed: "refused", held: true},
		{how: "older", held: true},
	} {
		for _, many := range []bool{false, true} {
			c := c
			c.many = many
			t.Run(fmt.Sprintf("%s/%v", c.how, many), func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	}
}

// run starts writers that share a sync.
func (c *bundleCase) run(t *testing.T) {
	const writers = bundleWriters
	to, list := c.replicas(t)
	folder, err := coord.OSFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hints, err := coord.OpenHints(heldFolder{folder, to.held}, coord.HintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer hints.Close()
	var mu sync.Mutex
	var missed []string
	co, err := coord.New(coord.Options{Quorum: coord.Quorum{N: 2, R: 1, W: 2, DW: 2}, Place: coord.List(func([]byte) []peer.Replica { return list }), Hints: hints,
		HintInterval: -1, Events: func(e coord.Event) {
			mu.Lock()
			defer mu.Unlock()
			missed = append(missed, string(e.Kind))
		}})
	if err != nil {
		t.Fatal(err)
	}
	var wg, last sync.WaitGroup
	errs := make([]error, writers)
	var calls []coord.WriteCall
	for i := range writers {
		element, ended := fmt.Appendf(nil, "e%02d", i), &wg
		if i == writers/2 {
			element, ended = bad, &last
		}
		w := coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: element}}}
		if !c.many {
			ended.Go(func() { _, errs[i] = co.Write(ctx, w) })
			continue
		}
		ended.Add(1)
		calls = append(calls, coord.WriteCall{Context: ctx, Write: w, Done: func(_ coord.Result, err error) {
			errs[i] = err
			ended.Done()
		}})
	}
	co.WriteMany(calls)
	wg.Wait()
	if to.held != nil {
		close(to.held)
	}
	last.Wait()
	if err := co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		want := error(nil)
		if i == writers/2 || c.how == "loses" {
			want = c.bad
		}
		if !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
	}
	slices.Sort(missed)
	if got := strings.Join(missed, " "); got != c.missed {
		t.Errorf("events %q, want %q", got, c.missed)
	}
	if n, _ := hints.Pending("node1"); n != c.hints {
		t.Errorf("%d hints, want %d", n, c.hints)
	}
	alone := 0
	if c.how == "undecodable" || c.how == "older" {
		alone = writers
	}
	if !slices.Equal(to.frames, []int{writers}) || to.single != alone {
		t.Errorf("frames of %v deltas and %d alone, want one of %d and %d alone", to.frames, to.single, writers, alone)
	}
}

// TestBundleWithoutRoom: deltas of a group for which a replica has no room become hints with one sync.
func TestBundleWithoutRoom(t *testing.T) {
	t.Parallel()
	const writers = bundleWriters
	c := bundleCase{how: "sends", held: true, many: true}
	to, list := c.replicas(t)
	folder, err := coord.OSFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var syncs atomic.Int32
	hints, err := coord.OpenHints(countedFolder{folder, &syncs}, coord.HintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer hints.Close()
	co, err := coord.New(coord.Options{Quorum: coord.Quorum{N: 2, R: 1, W: 2, DW: 2}, Place: coord.List(func([]byte) []peer.Replica { return list }), Hints: hints,
		HintInterval: -1, SendsMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wg, last sync.WaitGroup
	errs := make([]error, writers)
	var calls []coord.WriteCall
	for i := range writers {
		element, ended := fmt.Appendf(nil, "e%02d", i), &wg
		if i == 0 { // it is sent, and takes all the room until the others have ended
			element, ended = bad, &last
		}
		ended.Add(1)
		calls = append(calls, coord.WriteCall{Context: ctx, Write: coord.Write{Set: set, Ops: add(string(element))}, Done: func(_ coord.Result, err error) {
			errs[i] = err
			ended.Done()
		}})
	}
	co.WriteMany(calls)
	wg.Wait()
	close(to.held)
	last.Wait()
	if err := co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if want := i > 0; errors.Is(err, coord.ErrUnknown) != want || (err != nil) != want {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if n, _ := hints.Pending("node1"); n != writers-1 || syncs.Load() > 2 { // one is of the new file
		t.Errorf("%d hints with %d syncs, want %d with one or two", n, syncs.Load(), writers-1)
	}
}

// countedFolder is a folder that counts the syncs of its files.
type countedFolder struct {
	coord.Folder
	syncs *atomic.Int32
}

func (f countedFolder) Create(name string) (coord.File, error) {
	file, err := f.Folder.Create(name)
	return countedFile{file, f.syncs}, err
}

type countedFile struct {
	coord.File
	syncs *atomic.Int32
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}

// heldFolder is a folder whose files can be made when a channel, if it has one, is closed.
type heldFolder struct {
	coord.Folder
	until chan struct{}
}

func (f heldFolder) Create(name string) (coord.File, error) {
	if f.until != nil {
		<-f.until
	}
	return f.Folder.Create(name)
}

// replicas returns one in this process, and one that takes deltas in the way of the case.
func (c *bundleCase) replicas(t *testing.T) (to *manySender, list []peer.Replica) {
	for i := range 2 {
		store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		rep, err := local.New(fmt.Sprintf("node%d", i), store, peer.Normal)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && c.many {
			list = append(list, rep)
			continue
		}
		if i == 0 {
			list = append(list, &together{Replica: rep, told: make(chan struct{})})
			continue
		}
		if to = (&manySender{Replica: rep, how: c.how}); c.held {
			to.held = make(chan struct{})
		}
		list = append(list, to)
	}
	return to, list
}
