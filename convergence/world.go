package convergence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// world runs one script from scratch.
type world struct {
	sys   System
	spec  Spec
	s     *Script
	h     *history
	nodes []*node
	stats *Stats

	pcg   *rand.PCG
	rand  *rand.Rand
	clock int64
	step  *Step
	note  []string // what the step did, gathered when trace is set
	trace bool

	made      []made // by step, as they are in the script
	nothing   made   // of a step that does not exist
	pos       int    // the step's place in the script
	reads     []*reading
	reading   Reading      // the last one, which is judged
	canRepair bool         // the system has anti-entropy
	copies    [][]*copying // by source, then target
	side      uint32       // a partition: the replicas on one side
	lww       LastWriterWins
	own       bool // AddWins.ReplaceOwn
	tagged    bool // the system names its adds
	batches   int
	owned     int  // with System.CausalNet: how many messages replicas have sent by themselves
	failed    bool // an operation was answered by an error, or its messages are lost for good
	lost      bool // messages are lost for good
	shared    any  // System.Share
	bulk      int  // bytes of messages of fills
	found     *Violation
	damaged   bool
	names     []*node   // of the current step
	calling   uint32    // the replicas of the current call, as bits
	progress  *progress // for the watchdog; nil is none
	reached   reached
}

// made is what a step made, for later steps that name it.
type made struct {
	view   *seenView
	wanted bool // a later operation takes its context from view
	tried  *tried
	msgs   []*message
	ask    *question
	backup *backup
}

// at returns what the step with a number has made, which is nothing if no such step exists.
func (w *world) at(step int) *made {
	i, ok := step-1, true
	if i < 0 || i >= len(w.made) || w.s.Steps[i].N != step { // steps before it were removed
		i, ok = slices.BinarySearchFunc(w.s.Steps, step, func(s Step, n int) int { return s.N - n })
	}
	if !ok {
		w.nothing = made{}
		return &w.nothing
	}
	return &w.made[i]
}

// want records which views later steps need.
func (w *world) want() {
	for i := range w.s.Steps {
		for _, o := range w.s.Steps[i].Ops {
			if o.Ctx > 0 {
				w.at(o.Ctx).wanted = true
			}
		}
	}
}

// node is a replica and what the kit knows of it.
type node struct {
	id       int
	rep      Replica
	quieter  Quieter // the replica, if it is one
	sender   Sender
	verifier Verifier
	start    int
	skew     int64

	sure    bitset          // events that it has applied and not lost
	durable bitset          // those that it acknowledged for good
	maybe   bitset          // events that can have reached it in any way
	since   bitset          // those that it did, or received by their messages, since it was opened
	arrived bitset          // with System.CausalNet: events that it has received at least one message of
	had     bitset          // with System.CausalNet: the messages (message.own) that it sent or received, and has not lost
	hadKept bitset          // the same after a crash
	hadEver bitset          // the same in all its lives
	newest  int             // the last of the steps whose messages it received
	waiting []*message      // that it may hold back until others have come
	doubts  []doubt         // what it may have done, or may have kept through a crash, and has not shown yet
	faulty  bool            // its disk fails
	late    int64           // the latest time that its clock can have, by LastWriterWins.Time
	ids     bitset          // those of sure that it did or received by their messages: it knows their ids
	idsKept bitset          // the same after a crash
	loose   map[string]bool // elements that were damaged here
	mixed   bool            // something came other than by operations and their messages
	parts   bool            // it may have received parts of operations, by messages
	joining bool            // it lost its data, and need not answer
	refill  bool            // it will join again after a crash: that it was filled is not durable
	touched bool            // by this step
	closed  bool
	gone    bool // for good, or it has not joined yet
	last    int  // the kind of step that was done here last, by kindNumbers, and one; 0 is none
}

// message is a message on the net.
type message struct {
	to, from    int // to is -1 for every replica
	data        []byte
	copy        []byte // of data, to detect that a replica changes it
	sure, maybe bitset
	deps        bitset // what its author knew of when it sent it
	repair      bool
	parts       bool   // its author may have had parts of operations
	own         int    // with System.CausalNet: its number among those that replicas sent by themselves; 0 if it is of an operation
	after       bitset // with System.CausalNet: those of them that its author had ever had
	step        int
	all         []*message        // those of its operation: together they carry it
	seen        [replicasMax]int  // how often each replica received it
	life        [replicasMax]int  // the life in which each took it last; 0 is none
	kept        [replicasMax]bool // and whether that is durable
}

type question struct {
	from  int
	step  int
	data  []byte
	copy  []byte // of data, to detect that a replica changes it
	maybe bitset
}

type backup struct {
	disk           any
	durable, maybe bitset
}

type copying struct {
	c       Copy   // nil when none is in progress
	promise bitset // what its target has when it is done
	floor   bitset // the same, if a crash takes its target back to the progress of an earlier copy
	begun   bool   // floor is valid
	done    bool   // but that is not durable
}

// seenView is a view from which operations take contexts.
type seenView struct {
	View
	sure, maybe bitset
	loose       map[string]bool
	unread      bool   // what would have been shown is not known
	kept        []Item // copies of items, to detect that a replica changes their tags
}

// keep copies the tags of an element.
func (v *seenView) keep(it Item) {
	if len(it.Tags) > 0 {
		v.kept = append(v.kept, Item{Elem: it.Elem, Tags: slices.Clone(it.Tags)})
	}
}

// intact checks that a replica has not changed a view after it returned it.
func (v *seenView) intact(n *node) *Violation {
	for _, was := range v.kept {
		if it, _ := v.find(was.Elem); !slices.Equal(it.Tags, was.Tags) {
			return bad(Changed, "replica %c changed the tags %v of %s in a view, after it had returned the view, to %v", letter(n.id), was.Tags, show(was.Elem), it.Tags)
		}
	}
	return nil
}

// errSkip means that a step can't be done.
var errSkip = errors.New("skipped")

// runScript runs a script and returns what it violates. It adds to stats. With trace it records in each step what the step did.
func runScript(sys System, s *Script, stats *Stats, trace bool, at *progress) (v *Violation) {
	w := &world{sys: sys, spec: sys.spec(), s: s, h: newHistory(), stats: stats, trace: trace, progress: at, made: make([]made, len(s.Steps))}
	w.want()
	w.lww, _ = byTime(w.spec)
	if a, ok := w.spec.(AddWins); ok {
		w.own = a.ReplaceOwn
	}
	w.pcg = rand.NewPCG(s.Seed, 0)
	w.rand = rand.New(w.pcg)
	at.here()
	defer func() {
		at.found.Store(v)
		if at := w.close(v); v == nil && at != nil {
			v = at
			if w.step != nil {
				v.Step = w.step.N
				w.mark(v)
			}
		}
	}()
	if v := w.guard(w.open); v != nil {
		return v
	}
	for i := range s.Steps {
		w.step, w.pos = &s.Steps[i], i
		at.step.Store(int64(w.step.N))
		w.call(w.named(w.step)...)
		if v := w.guard(w.do); v != nil {
			v.Step = w.step.N
			if w.trace && v.Kind == Panicked && !strings.HasSuffix(w.step.pretty, Panicked) {
				w.step.pretty = strings.Join(append(w.note, ""), "; ") + "!! panicked"
			}
			return v
		}
	}
	return nil
}

// named returns the replicas that a step names.
func (w *world) named(s *Step) []*node {
	w.names = w.names[:0]
	for _, c := range kinds[s.Kind] {
		switch c {
		case 'A':
			w.names = append(w.names, w.nodes[s.A])
		case 'B':
			w.names = append(w.names, w.nodes[s.B])
		case 'S':
			for i, n := range w.nodes {
				if s.Set>>i&1 != 0 {
					w.names = append(w.names, n)
				}
			}
		}
	}
	return w.names
}

// guard turns a panic into a violation.
func (w *world) guard(do func() *Violation) (v *Violation) {
	defer func() {
		if p := recover(); p != nil {
			v = bad(Panicked, "%v", p)
			v.Stack = trimStack(string(debug.Stack()))
		}
	}()
	return do()
}

func (w *world) open() *Violation {
	if w.sys.Share != nil {
		w.shared = w.sys.Share()
	}
	joiners := w.s.joiners()
	for i := range w.s.Replicas {
		n := &node{id: i, loose: map[string]bool{}, touched: true, gone: joiners>>i&1 != 0}
		w.nodes = append(w.nodes, n)
		w.copies = append(w.copies, make([]*copying, w.s.Replicas))
		if n.gone {
			continue
		}
		if v := w.start(n, nil, false); v != nil {
			return v
		}
	}
	w.settleDown()
	return nil
}

func (w *world) start(n *node, disk any, moved bool) *Violation {
	w.call(n)
	rep, err := w.sys.Open(Env{
		ID: n.id, Replicas: w.s.Replicas, Start: n.start, Disk: disk, Moved: moved, Rand: w.rand, Base: w.s.Base, Shared: w.shared,
		Now:       func() int64 { return w.now(n) },
		Sometimes: w.reached.count,
	})
	n.start++
	n.since, n.waiting, n.doubts, n.faulty = bitset{}, nil, nil, false
	if err == nil && rep == nil {
		err = errors.New("its Open returned neither a replica nor an error")
	}
	if err != nil {
		n.closed = true
		return bad(Failed, "replica %c does not open: %v", letter(n.id), err)
	}
	n.rep, n.closed = rep, false
	n.quieter, _ = rep.(Quieter)
	n.sender, _ = rep.(Sender)
	n.verifier, _ = rep.(Verifier)
	if _, ok := rep.(Repairer); ok {
		w.canRepair = true
	}
	return w.resend(n)
}

// Clocks show the origin and an epoch before the first step. The epoch is long enough that no clock goes below the origin. The origin
// is a usual time, in 2023, so that a clock that is kept in a float64 loses digits. With the default pace the lower 32 bits of
// clocks become 0 at step 35.
const (
	epoch  = 1_000_000 // steps
	origin = 395_812_000<<32 - (epoch+35)*int64(time.Microsecond)
)

// now returns what a replica's clock shows. Jumps are in thousandths of a step.
func (w *world) now(n *node) int64 {
	step := int64(w.sys.Pace)
	if step == 0 {
		step = int64(time.Microsecond)
	}
	return origin + (epoch+w.clock)*step + n.skew*step/1000
}

// close closes everything, and returns the first thing that went wrong. After a panic it leaves the replicas of that call, and
// streaming reads, as they are: a lock that was held in the panic is never released.
func (w *world) close(after *Violation) (first *Violation) {
	skip := uint32(0)
	if after != nil && after.Kind == Panicked {
		skip = w.calling
	}
	note := func(v *Violation) {
		if first == nil {
			first = v
		}
	}
	for _, r := range w.reads {
		if skip == 0 {
			note(w.guard(r.end))
		}
	}
	for _, n := range w.nodes {
		if n.rep != nil && !n.closed && skip>>n.id&1 == 0 {
			note(w.closeNode(n))
		}
	}
	w.reach()
	return first
}

// closeNode closes a replica, which must succeed unless its disk fails.
func (w *world) closeNode(n *node) *Violation {
	w.call(n)
	n.closed = true
	return w.guard(func() *Violation {
		if err := n.rep.Close(); err != nil && !n.faulty {
			return bad(Failed, "replica %c does not close: %v", letter(n.id), err)
		}
		return nil
	})
}

// reached counts the states that replicas name, possibly from goroutines of their own.
type reached struct {
	sync.Mutex
	states map[string]int
}

func (r *reached) count(state string) {
	r.Lock()
	defer r.Unlock()
	if r.states == nil {
		r.states = map[string]int{}
	}
	r.states[state]++
}

// reach adds what replicas have reached to the counts of the schedule.
func (w *world) reach() {
	w.reached.Lock()
	defer w.reached.Unlock()
	for state, n := range w.reached.states {
		w.stats.Sometimes[state] += n
	}
}

// do runs one step, then looks at the replicas that it touched.
func (w *world) do() *Violation {
	s := w.step
	w.clock = int64(s.N)
	w.pcg.Seed(w.s.Seed, uint64(s.N))
	w.note = w.note[:0]
	v, err := w.run(s)
	w.settleDown()
	for _, n := range w.nodes {
		w.collect(n)
	}
	switch {
	case v != nil:
	case err != nil:
		w.stats.Skipped++
		w.say("%v", err)
	case w.found != nil:
		v = w.found
	default:
		w.stats.Steps++
		w.countPair(s)
		if !s.Unread {
			v = w.look()
		}
	}
	if w.trace {
		s.pretty = strings.Join(w.note, "; ")
	}
	w.mark(v)
	return v
}

// mark shows a violation in the printed step that caused it.
func (w *world) mark(v *Violation) {
	if w.trace && v != nil {
		w.step.pretty += " !! " + v.Kind
	}
}

// quietTries is how often the kit asks whether a replica is quiet before it pauses between two questions, and quietPause is the
// length of a pause.
const (
	quietTries = 1000
	quietPause = 20 * time.Microsecond
)

// settleDown waits until all replicas are quiet. A replica that never is quiet hangs the step.
func (w *world) settleDown() {
	if w.sys.wait != nil {
		w.sys.wait()
	}
	for _, n := range w.nodes {
		if n.quieter != nil && !n.closed {
			for tries := 0; !n.quieter.Quiet(); tries++ {
				if runtime.Gosched(); tries > quietTries {
					time.Sleep(quietPause)
				}
			}
		}
	}
}

func (w *world) say(format string, args ...any) {
	if w.trace {
		w.note = append(w.note, fmt.Sprintf(format, args...))
	}
}

// look checks what every touched replica shows.
func (w *world) look() *Violation {
	for _, n := range w.nodes {
		if !n.touched || n.gone {
			continue
		}
		n.touched = false
		if v := w.check(n); v != nil {
			return v
		}
	}
	return nil
}

// check reads one replica and judges it by what it must and may show.
func (w *world) check(n *node) *Violation {
	w.call(n)
	if n.verifier != nil {
		if err := n.verifier.Verify(); err != nil {
			return bad(Unverifiable, "replica %c: %v", letter(n.id), err)
		}
	}
	view, err := n.rep.Read()
	if errors.Is(err, ErrNotReady) && n.joining {
		w.stats.Sometimes["replica not ready"]++
		w.say("%c is not ready", letter(n.id))
		return nil
	}
	if err != nil {
		return bad(Failed, "replica %c does not answer a read: %v", letter(n.id), err)
	}
	n.joining = false
	if m := &w.made[w.pos]; m.wanted && m.view == nil {
		m.view = &seenView{View: view, sure: n.sure.clone(), maybe: n.maybe.clone(), loose: n.loose}
		for _, it := range view.Items {
			m.view.keep(it)
		}
	}
	if w.trace {
		w.say("%c shows %s", letter(n.id), view)
	}
	r := Reading{View: view, h: w.h, must: n.sure, may: n.maybe, loose: n.loose, mixed: n.mixed}
	v := w.judge(r)
	if v == nil && len(n.doubts) > 0 && !n.faulty {
		v = w.resolve(n, &r)
	}
	if v == nil && !n.mixed && w.h.batched {
		v = w.torn(n, &view)
	}
	if v != nil {
		v.Text = fmt.Sprintf("replica %c: %s", letter(n.id), v.Text)
	}
	return v
}

// judge checks the order of a view, then asks the specification.
func (w *world) judge(r Reading) *Violation {
	w.stats.Checks++
	w.reading = r
	for i := 1; i < len(r.View.Items); i++ {
		if a, b := r.View.Items[i-1].Elem, r.View.Items[i].Elem; a >= b {
			return bad(Disorder, "%q is shown after %q", b, a)
		}
	}
	for _, it := range r.View.Items {
		if !slices.IsSorted(it.Values) {
			return bad(Disorder, "the values of %q are not in order: %q", it.Elem, it.Values)
		}
	}
	return w.spec.Judge(&w.reading)
}

// torn checks that a replica shows all adds of a batch or none, unless something may have removed some of them.
func (w *world) torn(n *node, view *View) *Violation {
	var batch, shown, missing int
	for i := range w.h.events {
		e := &w.h.events[i]
		if e.batch == 0 || e.Op.Kind != "add" || e.Tag == "" || !n.maybe.has(i) {
			continue
		}
		if e.batch != batch {
			batch, shown, missing = e.batch, 0, 0
		}
		it, _ := view.find(e.Op.Elem)
		switch {
		case contains(it.Tags, e.Tag):
			shown++
		case !(AddWins{ReplaceOwn: w.own}).mayBeKilled(&Reading{h: w.h}, i, &n.maybe, true):
			missing++
		}
		if shown > 0 && missing > 0 {
			return bad(Torn, "only a part of the batch of step %d is shown", e.Step)
		}
	}
	return nil
}

func contains(tags []string, tag string) bool {
	for _, t := range tags {
		if t == tag {
			return true
		}
	}
	return false
}

// shownMax is how many elements of a view are printed.
const shownMax = 20

// show writes an element or a value as scripts do, but shortens long ones.
func show(elem string) string {
	if len(elem) > 40 {
		return fmt.Sprintf("%s...(%d bytes)", word(elem[:8]), len(elem))
	}
	return word(elem)
}

// String returns a view as {a b[tag tag]}.
func (v View) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, it := range v.Items {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == shownMax {
			fmt.Fprintf(&b, "... %d in all", len(v.Items))
			break
		}
		b.WriteString(show(it.Elem))
		if len(it.Values) > 0 {
			for k, value := range it.Values {
				b.WriteString([]string{"=", "|"}[min(k, 1)] + show(value))
			}
		}
		if len(it.Tags) > 0 {
			b.WriteString(fmt.Sprint(it.Tags))
		}
	}
	return b.String() + "}"
}

// apart reports whether a partition separates two replicas.
func (w *world) apart(a, b int) bool { return w.side != 0 && w.side>>a&1 != w.side>>b&1 }
