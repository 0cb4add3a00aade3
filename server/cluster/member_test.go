package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/netfault"
	"bigset/internal/ring"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/tokens"
	"bigset/server/wire"
)

// process is a member with a store and a port, all in this process.
type process struct {
	w      *trio
	i      int
	member *Member
	store  *engine.Store
	tokens *tokens.List
	server *wire.Server
	ln     net.Listener
}

// trio is members over loopback.
type trio struct {
	t     testing.TB
	peers []Peer
	disks []*memDisk
	files []*testkit.Disk
	procs []*process
	log   *slog.Logger
	rate  int64 // of copies into members that are started from now on
	// settings and patience are those of members that are started from now on.
	settings ring.Settings
	patience time.Duration
	// local is put around the replicas of members that are started from now on, if it is not nil.
	local func(Local) Local
	// filters is put around the filters of members that are started from now on, if it is not nil.
	filters func(i int, f LocalFilters) LocalFilters
	// around is put around the handlers of members that are started from now on, if it is not nil.
	around func(wire.Handler) wire.Handler
}

func newTrio(t testing.TB, n int) *trio {
	w := &trio{t: t, procs: make([]*process, n), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	t.TempDir() // before the cleanup below: folders of hints are removed when their members have stopped
	for i := range n {
		address, err := netfault.FreeAddress()
		must(t, err)
		w.peers = append(w.peers, Peer{string(rune('a' + i)), address})
		w.disks = append(w.disks, newDisk(fmt.Sprintf("%c1", 'a'+i)))
		w.files = append(w.files, testkit.NewDisk())
	}
	t.Cleanup(func() {
		for _, p := range w.procs {
			if p != nil {
				p.stop()
			}
		}
	})
	return w
}

// startTrio starts three members, and returns when they are a cluster.
func startTrio(t testing.TB) *trio {
	t.Helper()
	w := newTrio(t, 3)
	w.birth()
	return w
}

// birth starts all members, and returns when they are a cluster.
func (w *trio) birth() {
	w.t.Helper()
	for i := range w.procs {
		w.start(i)
	}
	until(w.t, "birth", w.listed)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *trio) start(i int) *process {
	w.t.Helper()
	p := &process{w: w, i: i}
	var err error
	p.store, err = engine.Open("db", &engine.Options{FS: w.files[i], BackgroundInterval: -1, MemTableBytes: 1 << 20})
	must(w.t, err)
	rep, err := local.New(w.peers[i].ID, p.store, peer.Joining)
	must(w.t, err)
	hints, err := coord.OSFolder(w.t.TempDir())
	must(w.t, err)
	p.tokens, err = tokens.Open(tokenDisk{p.store}, false)
	must(w.t, err)
	var own Local = rep
	if w.local != nil {
		own = w.local(rep)
	}
	var filters LocalFilters = local.NewFilters(p.store)
	if w.filters != nil {
		filters = w.filters(i, filters)
	}
	p.member, err = NewMember(Config{Node: w.peers[i].ID, Name: "test", Peers: w.peers, Settings: w.settings, Patience: w.patience, Hints: hints, Log: w.log, Interval: 50 * time.Millisecond, CopyBytesPerSecond: w.rate, Tokens: p.tokens,
		Filters: filters, FilterDefaults: bigset.FilterOptions{Durability: bigset.FilterLog},
		Dial: func(ctx context.Context, to Peer) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", to.Address)
		}}, own, w.disks[i])
	must(w.t, err)
	handler := p.member.Handler()
	if w.around != nil {
		handler = w.around(handler)
	}
	p.server = wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: Errors}, Handler: handler, Hello: p.member.Hello, Name: w.peers[i].ID, Log: w.log})
	p.ln, err = net.Listen("tcp", w.peers[i].Address)
	must(w.t, err)
	go func() { _ = p.server.Serve(context.Background(), p.ln) }()
	p.member.Start()
	w.procs[i] = p
	return p
}

// stop ends a process in order.
func (p *process) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.ln.Close()
	err := errors.Join(p.server.Shutdown(ctx), p.member.Close(ctx), p.store.Close())
	if err != nil {
		p.w.t.Errorf("stop %d: %v", p.i, err)
	}
	p.w.procs[p.i] = nil
}

// until waits for something that has to come.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func (w *trio) whole() bool {
	for _, p := range w.procs {
		if p == nil {
			continue
		}
		if l := p.member.live.Load(); l != nil { // and knows that the others are
			for i, rep := range l.replicas {
				if w.procs[i] != nil && rep.Member().State != peer.Normal {
					return false
				}
				if link := p.member.links[w.peers[i].ID]; link != nil && w.procs[i] != nil && !link.Up() { // some requests don't wait for it
					return false
				}
			}
		}
		if v := p.member.View(); !v.Serves || !v.Sets || !v.Filters || v.Record.Origin != "" || p.member.live.Load() == nil {
			return false
		}
	}
	return true
}

func (p *process) add(t testing.TB, set string, elements ...string) error {
	t.Helper()
	var ops []bigset.Op
	for _, e := range elements {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	_, err := p.member.Coordinator().Write(context.Background(), coord.Write{Set: []byte(set), Ops: ops})
	return err
}

func (p *process) read(t testing.TB, set string) (elements []string) {
	t.Helper()
	for part, err := range p.member.Coordinator().Read(context.Background(), coord.Read{Set: []byte(set)}) {
		if err != nil {
			t.Fatalf("node %d reads %s: %v", p.i, set, err)
		}
		for _, e := range part.Elements {
			elements = append(elements, string(e.Name))
		}
	}
	return elements
}

// Three processes are one store: what one takes the others read, one may be away, and one that lost its disk is filled again.
func TestThree(t *testing.T) {
	t.Parallel()
	w, began := startTrio(t), time.Now()
	for i := range 20 {
		must(t, w.procs[i%3].add(t, fmt.Sprintf("set%d", i%4), fmt.Sprintf("e%02d", i)))
	}
	for _, p := range w.procs {
		if got := fmt.Sprint(p.read(t, "set1")); got != "[e01 e05 e09 e13 e17]" {
			t.Errorf("node %d: %s", p.i, got)
		}
	}
	w.procs[1].stop()
	for i := range 20 {
		must(t, w.procs[i%2*2].add(t, "away", fmt.Sprintf("e%02d", i)))
	}
	if n := len(w.procs[0].read(t, "away")); n != 20 {
		t.Errorf("%d elements with one node away", n)
	}
	hints := func(i, of int) (int, int64, int64) {
		m := w.procs[i].member.Status().Members[of]
		return m.Hints, m.HintBytes, m.HintSeconds
	}
	until(t, "hints that have an age, which counts in whole seconds", func() bool {
		_, _, age := hints(0, 1)
		return age > 0
	})
	n, bytes, age := hints(0, 1)
	if n == 0 || bytes < int64(50*n) || age > 1+int64(time.Since(began)/time.Second) {
		t.Errorf("%d hints of %d bytes for the one that is away, since %d s", n, bytes, age)
	}
	if n, bytes, age := hints(0, 2); n+int(bytes+age) != 0 {
		t.Errorf("%d hints of %d bytes for one that is here, since %d s", n, bytes, age)
	}
	w.start(1)
	until(t, "a member that was away", w.whole)
	until(t, "hints", func() bool {
		c, err := w.procs[1].store.Count(context.Background(), []byte("away"), engine.CountOptions{})
		return err == nil && c.Elements == 20
	})
	until(t, "no hints", func() bool {
		n, bytes, age := hints(0, 1)
		return n+int(bytes+age) == 0
	})
	w.procs[2].stop()
	w.disks[2], w.files[2] = newDisk("c2"), testkit.NewDisk()
	time.Sleep(cloneTime)
	w.start(2)
	until(t, "a member that lost its disk", w.whole)
	if e := w.procs[0].member.View().Record.Epoch; e != 2 {
		t.Errorf("epoch %d", e)
	}
	for _, set := range []string{"set0", "set1", "set2", "set3", "away"} {
		want := len(w.procs[0].read(t, set))
		if c, err := w.procs[2].store.Count(context.Background(), []byte(set), engine.CountOptions{}); err != nil || int(c.Elements) != want {
			t.Errorf("%s: %d of %d elements on the new disk, %v", set, c.Elements, want, err)
		}
	}
}

// TestAddress: a member in another cluster, generation or incarnation has another address, and the same member has the same one in its next process.
func TestAddress(t *testing.T) {
	t.Parallel()
	own := greeting{Name: "test", Node: "a", Cluster: Hex("c1"), Generation: 1, Identity: Hex("d1"), Boot: 1}
	for what, change := range map[string]func(*greeting){
		"name": func(g *greeting) { g.Name = "other" }, "node": func(g *greeting) { g.Node = "b" }, "cluster": func(g *greeting) { g.Cluster = Hex("c2") },
		"generation": func(g *greeting) { g.Generation = 2 }, "disk": func(g *greeting) { g.Identity = Hex("d2") },
	} {
		g := own
		if change(&g); g.address() == own.address() {
			t.Errorf("another %s has the same address", what)
		}
	}
	next := own
	if next.Boot++; next.address() != own.address() {
		t.Error("the next process has another address")
	}
}

// TestTwoProcesses: while a member answers, a second process of it is refused wherever the two could meet, and accepted when the first one
// has ended. The member itself may connect again.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	a, b := w.procs[0].member, w.procs[1].member
	g := b.greeting()
	same := &wire.Remote{Role: wire.RoleNode, Name: "b", Hello: g.encode(), Value: g.Boot}
	g.Boot++
	other := &wire.Remote{Role: wire.RoleNode, Name: "b", Hello: g.encode(), Value: g.Boot}
	meet := map[string]func(*wire.Remote) error{
		"dials":     func(r *wire.Remote) error { _, _, err := a.Hello(r); return err },
		"is dialed": func(r *wire.Remote) error { return a.found(w.peers[1], r) },
		"was connected before": func(r *wire.Remote) error {
			_, err := a.Handler()(ctx1(t), &wire.Request{Verb: verbState, From: r}, nil)
			return err
		},
	}
	for what, f := range meet {
		until(t, "a second process of b "+what, func() bool { // if b has not answered for long, it is not noticed
			err := f(other)
			return errors.Is(err, ErrForeign) && strings.Contains(err.Error(), "two processes are started as b")
		})
		must(t, f(same))
	}
	asks := func(r *wire.Remote) error {
		_, err := a.Handler()(ctx1(t), &wire.Request{Verb: verbCountSets, Body: []byte("x"), From: r}, nil)
		return err
	}
	if err := asks(other); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "two processes are started as b") {
		t.Errorf("another request of a second process that was noticed: %v", err)
	}
	if err := asks(same); err == nil || strings.Contains(err.Error(), "two processes") {
		t.Errorf("the same request of the first process: %v", err)
	}
	a.links["b"].(*wire.Link).Redial()
	b.links["a"].(*wire.Link).Redial()
	until(t, "b is connected again", func() bool { return a.links["b"].Up() && b.links["a"].Up() })
	w.procs[1].stop()
	for what, f := range meet {
		until(t, "the next process of b "+what, func() bool { return f(other) == nil })
	}
	if err := asks(other); err == nil || strings.Contains(err.Error(), "two processes") {
		t.Errorf("a request of the next process: %v", err)
	}
}

// TestCopyLimit: a member whose copies are bounded is filled no faster than that.
func TestCopyLimit(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	for i := range 10 {
		must(t, w.procs[0].add(t, fmt.Sprintf("set%d", i), "element"))
	}
	w.procs[2].stop()
	w.disks[2], w.files[2], w.rate = newDisk("c2"), testkit.NewDisk(), 1
	time.Sleep(cloneTime)
	status := w.start(2).member.Status
	until(t, "the first bytes of a copy", func() bool { return status().Copied > 0 })
	time.Sleep(100 * time.Millisecond) // without a bound it would be done
	if s := status(); s.Sets || s.Copied == 0 || s.CopyLimit != 1 || s.Portion >= 1 {
		t.Errorf("%+v", s)
	}
	until(t, "the others know how far c is filled", func() bool {
		c := w.procs[0].member.Status().Members[2].Copied
		return c != nil && c.Bytes > 0 && c.Portion < 1
	})
	calls := map[string]VerbCount{}
	for _, v := range status().Members[0].Verbs {
		calls[v.Verb] = v
	}
	if v := calls["member_state"]; v.Calls == 0 || v.Seconds == 0 {
		t.Errorf("calls of c to a by verb: %+v", calls)
	}
}

// All members may have lost what they acknowledged last, in one crash: they unite what they have, and count again.
func TestAllLack(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	for i := range 9 {
		must(t, w.procs[i%3].add(t, "s", fmt.Sprintf("e%02d", i)))
	}
	_, err := w.procs[1].store.Write(context.Background(), []byte("s"), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, bigset.WriteOptions{}) // that nobody else has
	must(t, err)
	spec := bigset.SliceSpec{Name: []byte("f"), Generation: 1, Options: bigset.FilterOptions{Durability: bigset.FilterInterval,
		Options: bloomslice.Options{Capacity: 20_000, Probability: 1e-6, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 3}}}
	var keys []bloomslice.Hash
	for i := range 3 { // a key that nobody else has either
		keys = append(keys, bloomslice.Sum([]byte{byte(i)}))
		_, _, _, err := w.procs[i].member.local.Mark(context.Background(), spec, keys[i:])
		must(t, err)
	}
	for i := range 3 {
		w.procs[i].stop()
		w.disks[i].sets, w.disks[i].filters = true, true
	}
	for i := range 3 {
		w.start(i)
	}
	until(t, "members that all may lack something", w.whole)
	for i, p := range w.procs {
		if n := len(p.read(t, "s")); n != 10 {
			t.Errorf("node %d reads %d elements of 10", i, n)
		}
		if sets, filters := w.disks[i].MayLack(); sets || filters {
			t.Errorf("node %d still may lack sets %v, filters %v", i, sets, filters)
		}
		store, err := engine.Open("db", &engine.Options{FS: w.files[i].CrashClone(0, 1), BackgroundInterval: -1, MemTableBytes: 1 << 20})
		must(t, err)
		present := make([]bool, len(keys))
		if err := store.Filters().CheckSlice(context.Background(), spec, keys, present); err != nil || slices.Contains(present, false) {
			t.Errorf("node %d, whole, has keys %v after a crash: %v", i, present, err)
		}
		must(t, store.Close())
	}
}

// TestMemberSeats: the owners of a slot have its seats, each another one; a member that is no owner has none, but where it had data before the
// others: then it fills from the first owner's.
func TestMemberSeats(t *testing.T) {
	l := &live{ownership: &ownership{bits: 1, owners: [][]int{{2, 0, 1}, {1, 3, 0}}}, origin: -1}
	for self, want := range map[int][2]int{0: {1, 2}, 1: {2, 0}, 2: {0, -1}, 3: {-1, 1}} {
		l.self = self
		for bucket, seat := range want {
			got, ok := l.seat(l.firstOf(bucket))
			if ok != (seat >= 0) || ok && int(got) != seat {
				t.Errorf("member %d has seat %d, %v in bucket %d, want %d", self, got, ok, bucket, seat)
			}
		}
	}
	l.self, l.origin = 3, 3
	if seat, ok := l.seat(l.firstOf(0)); !ok || seat != 0 {
		t.Errorf("the member that had data before has seat %d, %v", seat, ok)
	}
	if seat, ok := l.seat(l.firstOf(1)); !ok || seat != 1 {
		t.Errorf("the member that had data before, an owner, has seat %d, %v", seat, ok)
	}
}

// TestStoreFailed: all members know of one whose store takes no writes until it is started again, and none counts it for writes.
func TestStoreFailed(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	a := w.procs[0].member
	says := func(i int) string {
		m := &a.Status().Members[i]
		if m.StoreFailed && m.Waits == "" {
			t.Error("failed, and waits for nothing")
		}
		return m.Waits
	}
	until(t, "readiness", func() bool { return len(a.NotReady()) == 0 && says(1)+says(2) == "" })
	w.procs[1].create(t, "f")
	failed := func(i int, err error) {
		w.disks[i].mu.Lock()
		defer w.disks[i].mu.Unlock()
		w.disks[i].failed = err
	}
	failed(2, errors.New("no room"))
	until(t, "c's failure is known", func() bool { return strings.Contains(says(2), "a restart") && strings.Contains(says(2), "no room") })
	if r := a.NotReady(); len(r) > 0 || says(1) != "" {
		t.Errorf("with two that take writes: %q, b waits for %q", r, says(1))
	}
	w.undecided("with c failed")
	failed(0, errors.New("no room"))
	until(t, "too few take writes", func() bool {
		r := a.NotReady()
		return len(r) == 1 && r[0] == "cluster: 1 of 1 ranges have too few members that are up and take writes to be written (W is 2): slots 00000000 to ffffffff: a needs a restart, c needs a restart" &&
			says(0) != ""
	})
	failed(2, nil)
	w.undecided("with a failed, which decides")
	until(t, "c is back", func() bool { return len(a.NotReady()) == 0 && says(2) == "" })
	w.procs[2].stop()
	w.procs[1].stop()
	until(t, "too few to be read", func() bool {
		r := a.NotReady()
		return len(r) == 2 && strings.Contains(r[0], "to be read (R is 2): slots 00000000 to ffffffff: b does not answer, c does not answer") && strings.Contains(r[1], "a needs a restart, b does not answer")
	})
	until(t, "questions for b's state have failed", func() bool {
		b, calls, failed := a.Status().Members[1], uint64(0), uint64(0)
		for _, v := range b.Verbs {
			if v.Verb != "member_state" {
				calls, failed = calls+v.Calls, failed+v.Failed
			} else if v.Failed == 0 {
				return false
			}
		}
		if calls != b.Calls || failed != b.Failed {
			t.Errorf("%d calls, %d failed, want %d and %d without those for the state", b.Calls, b.Failed, calls, failed)
		}
		return true
	})
}

// undecided wants that no member creates or drops a filter, because one of them takes no writes, and that nothing has happened then.
func (w *trio) undecided(when string) {
	w.t.Helper()
	for _, p := range w.procs {
		_, created := p.member.Filters().Create(ctx1(w.t), []byte("g"), door.FilterCreate{})
		for what, err := range map[string]error{"create": created, "drop": p.member.Filters().Drop(ctx1(w.t), []byte("f"))} {
			if !errors.Is(err, door.ErrMembersAway) || errors.Is(err, door.ErrUnknown) || !strings.Contains(err.Error(), "waits for a restart") {
				w.t.Errorf("%s: node %d answers to %s: %v", when, p.i, what, err)
			}
		}
	}
	for _, p := range w.procs {
		p.filter(w.t, "f")
		if _, err := p.member.Filters().Find(ctx1(w.t), []byte("g")); !errors.Is(err, bigset.ErrNoFilter) {
			w.t.Errorf("%s: node %d finds what was not created: %v", when, p.i, err)
		}
	}
}

// TestGaps: adjacent ranges for which the same members are missing are one, and no more than three are named.
func TestGaps(t *testing.T) {
	var g gaps
	for i, missing := range [][]string{{"c is joining", "b does not answer"}, {"b does not answer", "c is joining"}, {"d does not answer"}, {"b is joining"}, {"c is joining"}, {"d is joining"}} {
		if i != 3 {
			g.add(run{first: keyscheme.Slot(i) << 28, last: keyscheme.Slot(i+1)<<28 - 1}, sorted(missing))
		}
	}
	want := "slots 00000000 to 1fffffff: b does not answer, c is joining; slots 20000000 to 2fffffff: d does not answer; slots 40000000 to 4fffffff: c is joining; 1 more"
	if got := g.String(); got != want || g.count != 5 {
		t.Errorf("%d gaps:\n%s\nwant\n%s", g.count, got, want)
	}
}
