package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/server/wire"
)

// memDisk is a disk in memory. What a test changes it changes between two lives of its member.
type memDisk struct {
	mu            sync.Mutex
	identity      []byte
	kept          map[string][]byte
	sets, filters bool
	data          bool
	slow          time.Duration // that Save takes
	failed        error
	refuses       func(value []byte) error // what Save fails with; nil means never
	hangs         func()                   // called by Save before it does anything; nil means nothing
}

func newDisk(identity string) *memDisk {
	return &memDisk{identity: []byte(identity), kept: map[string][]byte{}}
}

func (d *memDisk) Identity() []byte { return d.identity }
func (d *memDisk) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}
func (d *memDisk) Load(key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[key], nil
}
func (d *memDisk) Save(_ context.Context, key string, value []byte) error {
	time.Sleep(d.slow)
	if d.hangs != nil {
		d.hangs()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil {
		if err := d.refuses(value); err != nil {
			return err
		}
	}
	d.kept[key] = value
	return nil
}
func (d *memDisk) MayLack() (sets, filters bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sets, d.filters
}
func (d *memDisk) Certified(_ context.Context, sets, filters bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sets, d.filters = d.sets && !sets, d.filters && !filters
	return nil
}
func (d *memDisk) HasData(context.Context) (bool, error) { return d.data, nil }
func (d *memDisk) Seal() (key, domain []byte) {
	return append([]byte("key of "), pad(d.identity, 9)...), pad(d.identity, 8)
}

func pad(b []byte, n int) []byte { return append(append([]byte{}, b...), make([]byte, n)...)[:n] }

// net3 is members over memory.
type net3 struct {
	t       testing.TB
	ids     []string
	disks   []*memDisk
	members []*Membership // nil where there is no process
	cut     map[[2]int]bool
	mu      sync.Mutex
	fills   []error // by member: what Fill returns
	epochs  map[uint64]string
	clock   time.Time
	before  func(i, j int, v wire.Verb)
}

// fillFails says what Fill of a member returns from now on.
func (w *net3) fillFails(i int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fills[i] = err
}

func newNet(t testing.TB, n int) *net3 {
	w := &net3{t: t, members: make([]*Membership, n), fills: make([]error, n), cut: map[[2]int]bool{}, epochs: map[uint64]string{}, clock: time.Unix(1, 0)}
	for i := range n {
		w.ids = append(w.ids, string(rune('a'+i)))
		w.disks = append(w.disks, newDisk(w.ids[i]+"1"))
	}
	return w
}

// way is how member i reaches member j.
type way struct {
	w    *net3
	i, j int
}

func (y way) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	y.w.mu.Lock()
	before := y.w.before
	y.w.mu.Unlock()
	if before != nil {
		before(y.i, y.j, c.Verb)
	}
	y.w.mu.Lock()
	to, cut := y.w.members[y.j], y.w.cut[[2]int{y.i, y.j}]
	y.w.mu.Unlock()
	if to == nil || cut {
		return nil, wire.ErrNotSent
	}
	return to.Control(ctx, &wire.Request{Verb: c.Verb, Body: c.Body, From: &wire.Remote{Role: wire.RoleNode, Name: y.w.ids[y.i]}})
}

func (way) Stream(context.Context, wire.Call) iter.Seq2[[]byte, error] { panic("no streams") }

func (w *net3) start(i int, change ...func(*MembershipConfig)) (*Membership, error) {
	c := MembershipConfig{Node: w.ids[i], Name: "test", Callers: map[string]wire.Caller{}, Disk: w.disks[i], Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.clock
		},
		Changed: func(v View) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if r := v.Record; r != nil {
				if was := w.epochs[r.Epoch]; was != "" && was != string(r.encode()) {
					w.t.Errorf("epoch %d is\n%s\nand\n%s", r.Epoch, was, r.encode())
				}
				w.epochs[r.Epoch] = string(r.encode())
			}
		},
		Fill: func(context.Context, View) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.fills[i]
		}}
	for j, id := range w.ids {
		c.Peers = append(c.Peers, Peer{ID: id})
		if j != i {
			c.Callers[id] = way{w, i, j}
		}
	}
	for _, f := range change {
		f(&c)
	}
	m, err := NewMembership(c)
	if err == nil {
		w.mu.Lock()
		w.members[i] = m
		w.mu.Unlock()
	}
	return m, err
}

func (w *net3) startAll() {
	w.t.Helper()
	for i := range w.ids {
		if _, err := w.start(i); err != nil {
			w.t.Fatal(err)
		}
	}
}

// rounds lets members have rounds until all that run serve, or says why not.
func (w *net3) rounds(n int) (waits string) {
	for range n {
		whole := true
		for _, m := range w.members {
			if m == nil {
				continue
			}
			m.Round(context.Background())
			for m.filling() {
				time.Sleep(100 * time.Microsecond)
			}
		}
		w.tick(time.Second)
		var first *Record
		for _, m := range w.members {
			if m == nil {
				continue
			}
			v := m.View()
			if first == nil {
				first = v.Record
			}
			whole = whole && v.Serves && v.Sets && v.Filters && v.Record.Origin == "" && v.Record.Epoch == first.Epoch
			if !v.Serves || !v.Sets || !v.Filters {
				s, _ := m.State(context.Background())
				waits = s.Waits
			}
		}
		if whole {
			return ""
		}
	}
	return waits
}

func (w *net3) tick(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func (m *Membership) filling() bool {
	m.filler.mu.Lock()
	defer m.filler.mu.Unlock()
	return m.filler.running
}

// pretend makes a member believe that a record was committed.
func (m *Membership) pretend(r *Record) {
	m.ledger.Committed = r
	now := *m.shown.Load()
	now.ledger = m.ledger
	m.shown.Store(&now)
}

// stop ends a member's process.
func (w *net3) stop(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[i] = nil
}

func TestBirth(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 5} {
		w := newNet(t, n)
		for i := range n - 1 { // nobody is born alone
			if _, err := w.start(i); err != nil {
				t.Fatal(err)
			}
		}
		if waits := w.rounds(3); n > 1 && !strings.Contains(waits, "the birth of the cluster") {
			t.Errorf("%d members without the last one wait for %q", n, waits)
		}
		if _, err := w.start(n - 1); err != nil {
			t.Fatal(err)
		}
		if waits := w.rounds(4); waits != "" {
			t.Fatalf("%d members wait for %q", n, waits)
		}
		r := w.members[n-1].View().Record
		if r.Epoch != 1 || len(r.Members) != n || string(r.Domain) != string(pad([]byte("a1"), 8)) {
			t.Errorf("%d members: %s", n, r.encode())
		}
		for i := range n { // all at once go on where they were
			w.stop(i)
		}
		w.startAll()
		if waits := w.rounds(2); waits != "" || w.members[0].View().Record.Epoch != 1 {
			t.Errorf("%d members after a restart: %q, epoch %d", n, waits, w.members[0].View().Record.Epoch)
		}
	}
}

// A member that holds data gives its tokens' key, answers reads alone until the others have copied it, and is then one of many.
func TestBirthFromData(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.disks[1].data = true
	w.fillFails(0, errors.New("not yet"))
	w.fillFails(2, errors.New("not yet"))
	w.startAll()
	w.rounds(3)
	for i, m := range w.members {
		v := m.View()
		if v.Record == nil || v.Record.Epoch != 1 || v.Record.Origin != "b" || !v.Serves || v.Sets != (i == 1) || v.Filters != (i == 1) {
			t.Fatalf("member %d: %+v", i, v)
		}
		if !strings.HasPrefix(string(v.Record.Seal), "key of b1") {
			t.Errorf("member %d: seal %q", i, v.Record.Seal)
		}
	}
	w.fillFails(0, nil)
	w.rounds(3)
	if v := w.members[0].View(); !v.Sets || v.Record.Epoch != 1 || v.Record.Origin != "b" {
		t.Fatalf("with one of two filled: %+v", v)
	}
	w.fillFails(2, nil)
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	if v := w.members[2].View(); v.Record.Epoch != 2 || v.Record.Origin != "" {
		t.Errorf("with all filled: %+v", v)
	}
	two := newNet(t, 3)
	two.disks[0].data, two.disks[2].data = true, true
	two.startAll()
	if waits := two.rounds(3); waits == "" {
		t.Error("two members with data became a cluster")
	}
	if s, _ := two.members[0].State(context.Background()); !strings.Contains(s.Waits, "a and c hold data") {
		t.Errorf("two members with data: %q", s.Waits)
	}
}

// TestStrangeData has a folder with sets of its own start in the place of a member: it is refused, by itself and by the others, and becomes no
// member when all of them start again. A folder that took part in the birth, and has not heard of its end, is no stranger.
func TestStrangeData(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.disks[2].data = true
	w.before = func(_, j int, v wire.Verb) { // c ends before it hears that it is born
		if j == 2 && v == verbCommit {
			w.mu.Lock()
			w.members[2] = nil
			w.mu.Unlock()
		}
	}
	w.startAll()
	w.rounds(3)
	w.before = nil
	own := w.disks[2]
	w.disks[2] = newDisk("x1")
	w.disks[2].data = true
	w.tick(3 * time.Second)
	for range 2 {
		if _, err := w.start(2); err != nil {
			t.Fatal(err)
		}
		w.rounds(3)
		s, _ := w.members[2].State(context.Background())
		if s.Committed != nil || !strings.HasPrefix(s.Waits, "a, b: ") || strings.Count(s.Waits, "written outside the cluster") != 1 || strings.Contains(s.Waits, "can't be reached") {
			t.Errorf("a strange folder waits for %q, and has the record %v", s.Waits, s.Committed)
		}
		r := w.members[0].View().Record.clone()
		r.Epoch, r.Proposer = r.Epoch+1, "a"
		if err := w.members[2].agree(context.Background(), r); !errors.Is(err, ErrForeign) {
			t.Errorf("a strange folder agrees to epoch %d: %v", r.Epoch, err)
		}
		for i := range 3 {
			w.stop(i)
		}
		for i := range 2 {
			if _, err := w.start(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.disks[2] = own.clone("c, after a cut") // it is named by no record
	w.disks[2].data = true
	w.tick(3 * time.Second)
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	if waits := w.rounds(6); waits != "" || !w.members[2].View().Serves {
		t.Errorf("the member that was born waits for %q", waits)
	}
}

// A disk that is another one, or that may lack something, joins under a new epoch to which all others agreed first.
func TestRejoin(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	w.stop(1)
	w.disks[1] = newDisk("b2")
	w.fillFails(1, errors.New("not yet"))
	w.tick(3 * time.Second)
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.stop(2) // one that must agree is away
	w.rounds(3)
	if v := w.members[1].View(); v.Serves || v.Record == nil || v.Record.Epoch != 1 {
		t.Fatalf("without c: %+v", v)
	}
	if v := w.members[0].View(); v.Record.Epoch != 1 {
		t.Fatalf("a is at epoch %d without c", v.Record.Epoch)
	}
	if _, err := w.start(2); err != nil {
		t.Fatal(err)
	}
	w.rounds(3)
	for i, m := range w.members {
		v := m.View()
		if e := v.Record.Members[1]; v.Record.Epoch != 2 || e.Sets != 2 || e.Filters != 2 || e.Disk != 2 || string(e.Incarnation) != "b2" || !v.Serves {
			t.Fatalf("member %d: %+v %s", i, v, v.Record.encode())
		}
	}
	if v := w.members[1].View(); v.Sets || v.Filters {
		t.Fatalf("b answers before it is filled: %+v", v)
	}
	w.stop(1) // a power cut before it was filled: its disk counts as new still
	w.disks[1].filters = true
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.fillFails(1, errors.New("not yet"))
	w.rounds(3)
	if v := w.members[1].View(); v.Record.Epoch != 3 || v.Record.Members[1].Disk != 3 || v.Record.Members[1].Sets != 3 || !v.Record.lost(1) {
		t.Fatalf("after a power cut before it was filled: %+v %s", v, v.Record.encode())
	}
	w.stop(1) // and another one; what it is filled with then stays, and it goes on under its epoch
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.fillFails(1, nil)
	if waits := w.rounds(4); waits != "" || w.members[0].View().Record.Epoch != 4 {
		t.Fatalf("%q at epoch %d", waits, w.members[0].View().Record.Epoch)
	}
	w.stop(1)
	w.disks[1].filters = true // a power cut
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	if v := w.members[1].View(); v.Serves {
		t.Fatal("a disk that may lack marks serves under the epoch in which it acknowledged them")
	}
	w.fillFails(1, errors.New("not yet"))
	w.rounds(3)
	if v := w.members[1].View(); v.Record.Epoch != 5 || !v.Serves || !v.Sets || v.Filters || v.Record.Members[1].Disk != 4 || v.Record.Members[1].Sets != 4 {
		t.Fatalf("after a power cut: %+v %s", v, v.Record.encode())
	}
	// A second one, while it is filled, may have taken back what was acknowledged in between.
	w.stop(1)
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.fillFails(1, nil)
	if waits := w.rounds(4); waits != "" || w.members[0].View().Record.Epoch != 6 || w.disks[1].filters {
		t.Fatalf("%q at epoch %d", waits, w.members[0].View().Record.Epoch)
	}
}

// A member whose disk did not take the record of the new epoch, to which all have agreed, may still lack what it may have lacked before.
func TestEpochUnsaved(t *testing.T) {
	t.Parallel()
	w := newNet(t, 2)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	w.stop(1)
	d := w.disks[1]
	d.sets = true // a crash
	failed := 0
	d.refuses = func(value []byte) error {
		if l, err := decodeLedger(value); err == nil && l.epoch() == 2 && failed == 0 {
			failed++
			return errors.New("no")
		}
		return nil
	}
	m, err := w.start(1)
	if err != nil {
		t.Fatal(err)
	}
	w.fillFails(1, errors.New("not yet"))
	for range 3 {
		m.Round(context.Background())
		if v := m.View(); v.Serves && v.Record.Epoch == 1 || v.Sets {
			t.Fatalf("after %d failures it answers for what it may lack: %+v", failed, v)
		}
	}
	if failed != 1 || m.View().Record.Epoch != 2 {
		t.Errorf("%d failures, epoch %d", failed, m.View().Record.Epoch)
	}
}

// What a folder says of where it was filled counts for the disk that was, not for a copy of it.
func TestFilledElsewhere(t *testing.T) {
	t.Parallel()
	w := newNet(t, 2)
	w.disks[0].data = true
	w.startAll()
	if waits := w.rounds(6); waits != "" {
		t.Fatal(waits)
	}
	w.stop(1)
	w.disks[1].identity = []byte("b2") // the same folder, copied
	w.fillFails(1, errors.New("not yet"))
	w.tick(time.Minute)
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.disks[1].kept[keyFilled] = []byte(`{"identity":"6231","sets":99,"filters":99}`)
	w.stop(1)
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	w.rounds(3)
	if v := w.members[1].View(); !v.Serves || v.Sets || v.Filters {
		t.Errorf("a copied folder counts as filled: %+v", v)
	}
}

// One member that does not agree is enough, and what the others have agreed to is taken back.
func TestRefusedProposal(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	r := w.members[0].View().Record
	w.tick(time.Minute)
	if err := w.members[1].agree(context.Background(), r.rejoined("a", []byte("a2"), true, true, false)); err != nil {
		t.Fatal(err)
	}
	c := w.members[2]
	if err := c.propose(context.Background(), r.rejoined("c", []byte("c2"), true, true, false)); err == nil || !strings.Contains(err.Error(), "b does not agree") {
		t.Errorf("b holds what a proposes, and c: %v", err)
	}
	for i, m := range w.members {
		if s, _ := m.State(context.Background()); s.Committed.Epoch != 1 || s.Prepared != nil && s.Prepared.Proposer == "c" {
			t.Errorf("member %d: epoch %d, prepared %+v", i, s.Committed.Epoch, s.Prepared)
		}
	}
}

// A proposer that meets another one, which comes before it, takes its own proposal back, also when all others had agreed to it.
func TestYield(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	ctx := context.Background()
	m := w.members[2]
	r := m.View().Record
	mine, theirs := r.rejoined("c", []byte("c2"), true, true, false), r.rejoined("b", []byte("b2"), true, true, false)
	w.tick(time.Minute)
	w.mu.Lock()
	asked := 0
	w.before = func(i, j int, v wire.Verb) { // b proposes to c while c is still asking a
		if v == verbPropose && i == 2 && asked == 0 {
			asked++
			if err := m.agree(ctx, theirs); err != nil {
				t.Errorf("c does not yield: %v", err)
			}
		}
	}
	w.mu.Unlock()
	if err := m.propose(ctx, mine); err == nil || m.View().Record.Epoch != 1 {
		t.Errorf("c has yielded, and commits: %v, epoch %d", err, m.View().Record.Epoch)
	}
	if asked != 1 {
		t.Error("c has asked nobody")
	}
}

// While a disk is alive no other one takes its place.
func TestClone(t *testing.T) {
	t.Parallel()
	w := newNet(t, 2)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	w.disks[1] = newDisk("b2")
	if _, err := w.start(1); err != nil {
		t.Fatal(err)
	}
	m := w.members[1]
	m.Round(context.Background())
	if s, _ := m.State(context.Background()); !strings.Contains(s.Waits, "two processes are started as b") {
		t.Errorf("a clone waits for %q", s.Waits)
	}
}

// TestTwin: a second process of a member is noticed while the first one answers. A restart, another connection of the same process, and a
// process that does not answer any more are not mistaken for one.
func TestTwin(t *testing.T) {
	t.Parallel()
	w := newNet(t, 2)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	a, b := w.members[0], w.members[1].Boot()
	ask := func() { a.askAll(context.Background()) }
	for _, c := range []struct {
		what            string
		do              func()
		boot, connected uint64
		twin            bool
	}{
		{"another process", ask, b + 1, b, true},
		{"the same process connects again", ask, b, b, false},
		{"a process after the connections to the former one have ended", ask, b + 1, 0, false},
		{"a process after the connections were opened again", ask, b + 1, b + 1, false},
		{"a process after one of two connections was opened again: the new process answers", ask, b, b + 1, false},
		{"a program that draws no number", ask, 0, b, false},
		{"a process while a third member hangs", func() { ask(); w.tick(roundTime + time.Second) }, b + 1, b, true},
		{"a process at the last moment of the former one", func() { ask(); w.tick(a.aliveTime() - 1) }, b + 1, b, true},
		{"a process after the former one was silent for long", func() { ask(); w.tick(a.aliveTime()) }, b + 1, b, false},
		{"a process while the former one can't be reached", func() {
			ask()
			w.mu.Lock()
			w.cut[[2]int{0, 1}] = true
			w.mu.Unlock()
			ask()
		}, b + 1, b, false},
	} {
		c.do()
		err := a.twin("b", c.boot, c.connected)
		if (err != nil) != c.twin || err != nil && !(errors.Is(err, ErrForeign) && strings.Contains(err.Error(), "two processes are started as b")) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// A member whose epoch is far ahead raises no other's: they serve on, and say which node to mend.
func TestEpochFarAhead(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	bad := w.members[2]
	r := bad.View().Record.clone()
	r.Epoch = epochMax
	bad.pretend(r)
	ctx := context.Background()
	if _, err := w.members[1].Control(ctx, &wire.Request{Verb: verbCommit, Body: r.encode(), From: &wire.Remote{Role: wire.RoleNode, Name: "c"}}); !errors.Is(err, ErrRecord) {
		t.Errorf("a commit of the last epoch: %v", err)
	}
	for _, m := range w.members[:2] {
		m.Round(ctx)
		s, _ := m.State(ctx)
		if v := m.View(); !v.Serves || v.Record.Epoch != 1 || !strings.Contains(s.Waits, "c: cluster: bad record of members: epoch 9007199254740992 is too far after epoch 1") {
			t.Errorf("%s serves %v at epoch %d, and waits for %q", s.ID, v.Serves, v.Record.Epoch, s.Waits)
		}
	}
}

// TestMissing: a member that refuses this one is named with its reason, and one that is only away without.
func TestMissing(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	m, err := w.start(0)
	if err != nil {
		t.Fatal(err)
	}
	m.others["b"] = other{err: fmt.Errorf("%w: its settings differ", ErrForeign)}
	m.others["c"] = other{err: wire.ErrNotSent}
	if got, want := m.missing(nil), "b, c can't be reached; b: cluster: not of this cluster: its settings differ"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := m.missing(map[string]State{"b": {}, "c": {}}); got != "" {
		t.Errorf("nobody is missing: %q", got)
	}
	m.others["b"] = other{}
	if got, want := m.missing(nil), "c can't be reached; this node can't take the record of b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	twice := MembershipConfig{Node: "a", Peers: []Peer{{"a", "h:1"}, {"b", "h:2"}, {"c", "h:1"}}}
	if err := twice.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "nodes a and c have one address") {
		t.Errorf("two nodes at one address: %v", err)
	}
}

func TestForeignMembers(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*MembershipConfig){
		"called \"test\"":           func(c *MembershipConfig) { c.Name = "other" },
		"with the members a,b,c":    func(c *MembershipConfig) { c.Peers[0], c.Peers[1] = c.Peers[1], c.Peers[0] },
		"these are chosen at birth": func(c *MembershipConfig) { c.Settings.R, c.Settings.W = 1, 3 },
	} {
		w := newNet(t, 3)
		w.startAll()
		if waits := w.rounds(4); waits != "" {
			t.Fatal(waits)
		}
		w.stop(2)
		if _, err := w.start(2, change); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		w.disks[2] = newDisk("c2") // an empty one finds out from the others
		w.tick(time.Minute)
		m, err := w.start(2, change)
		if err != nil {
			t.Fatal(err)
		}
		m.Round(context.Background())
		if s, _ := m.State(context.Background()); !strings.Contains(s.Waits, what) || m.View().Record != nil {
			t.Errorf("%s: an empty disk waits for %q", what, s.Waits)
		}
	}
	w := newNet(t, 2)
	w.startAll()
	for name, f := range map[string]*wire.Remote{"a client": {Role: wire.RoleClient, Name: "a"}, "a stranger": {Role: wire.RoleNode, Name: "x"}} {
		if _, err := w.members[1].Control(context.Background(), &wire.Request{Verb: verbState, From: f}); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := recordOf(2)
	b, _ := json.Marshal(r)
	if _, err := w.members[1].Control(context.Background(), &wire.Request{Verb: verbPropose, Body: b, From: &wire.Remote{Role: wire.RoleNode, Name: "a"}}); !errors.Is(err, ErrRecord) {
		t.Errorf("a proposal of another: %v", err)
	}
}

// Whatever fails in whatever order: one record an epoch, and in the end all serve.
func TestMembershipSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 2 + int(seed%3)
		w := newNet(t, n)
		for i := range w.ids {
			if rng.IntN(2) == 0 {
				if _, err := w.start(i); err != nil {
					t.Fatal(err)
				}
			}
		}
		wiped := 0
		for range 80 {
			i, j := rng.IntN(n), rng.IntN(n)
			switch rng.IntN(12) {
			case 0:
				w.stop(i)
			case 1:
				if w.members[i] == nil {
					if _, err := w.start(i); err != nil {
						t.Fatal(err)
					}
				}
			case 2:
				if w.members[i] == nil && rng.IntN(3) == 0 && w.holders() > 1 {
					wiped++
					w.disks[i] = newDisk(fmt.Sprintf("%s%d", w.ids[i], wiped+1))
				}
			case 3:
				if d := w.disks[i]; w.members[i] == nil {
					d.mu.Lock()
					d.filters = true
					d.mu.Unlock()
				}
			case 4:
				w.mu.Lock()
				w.cut[[2]int{i, j}] = !w.cut[[2]int{i, j}]
				w.mu.Unlock()
			default:
				var all sync.WaitGroup // several at once
				for k := range n {
					if m := w.members[k]; m != nil && rng.IntN(2) == 0 {
						all.Go(func() { m.Round(context.Background()) })
					}
				}
				all.Wait()
				w.tick(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
		}
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
		for i := range w.ids {
			if w.members[i] == nil {
				if _, err := w.start(i); err != nil {
					t.Fatal(err)
				}
			}
		}
		if waits := w.rounds(30); waits != "" {
			t.Fatalf("seed %d: in the end they wait for %q", seed, waits)
		}
	}
}

// holders is how many disks hold a record.
func (w *net3) holders() (n int) {
	for _, d := range w.disks {
		value, _ := d.Load(keyLedger)
		if l, err := decodeLedger(value); err == nil && l.Committed != nil {
			n++
		}
	}
	return n
}

// clone returns a disk with what this one keeps, as a copied folder has it.
func (d *memDisk) clone(identity string) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := newDisk(identity)
	c.data = d.data
	for k, v := range d.kept {
		c.kept[k] = v
	}
	return c
}

// TestBadState: a member with a record that the others can't take ends the rounds of none: one that is being filled goes on.
func TestBadState(t *testing.T) {
	t.Parallel()
	w := newNet(t, 3)
	w.startAll()
	if waits := w.rounds(4); waits != "" {
		t.Fatal(waits)
	}
	w.stop(2)
	w.disks[2] = newDisk("c2")
	w.fillFails(2, errors.New("not yet"))
	w.tick(time.Minute)
	c, err := w.start(2)
	if err != nil {
		t.Fatal(err)
	}
	w.rounds(3)
	if v := c.View(); !v.Serves || v.Sets {
		t.Fatalf("c: %+v", v)
	}
	b := w.members[1]
	r := b.View().Record.clone()
	r.Epoch += 1 << 40
	b.pretend(r)
	c.Round(t.Context())
	if got := c.Waits(); !strings.Contains(got, "b: ") || !strings.Contains(got, "; its copy of what it may lack") {
		t.Errorf("c waits for %q", got)
	}
	w.fillFails(2, nil)
	for range 2 {
		for c.filling() {
			time.Sleep(100 * time.Microsecond)
		}
		c.Round(t.Context())
	}
	for c.filling() {
		time.Sleep(100 * time.Microsecond)
	}
	if v := c.View(); !v.Sets || !v.Filters || !strings.Contains(c.Waits(), "b: ") {
		t.Errorf("c is filled: %v, %v; it waits for %q", v.Sets, v.Filters, c.Waits())
	}
}

// TestNamesFit: IDs that a greeting has no room for are refused.
func TestNamesFit(t *testing.T) {
	t.Parallel()
	c := MembershipConfig{Node: "a", Peers: []Peer{{ID: "a"}}}
	for i := range 240 {
		c.Peers = append(c.Peers, Peer{ID: fmt.Sprintf("%064d", i)})
	}
	if err := c.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
	c.Peers = c.Peers[:200]
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
