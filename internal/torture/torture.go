package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"bigset"
	"bigset/internal/halt"
	"bigset/internal/history"
	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// Options say how a cluster is tortured.
type Options struct {
	// Command returns the command of the program with arguments, not started.
	Command  func(args ...string) *exec.Cmd
	Dir      string        // an empty folder, for the nodes'
	Duration time.Duration // of the faults, of which at least three are done; the end takes some seconds more
	Nodes    int           // default 3
	Clients  int           // default 6; two of three use sets, the third uses filters
	Seed     uint64        // the faults and their times are drawn from it; their effects depend on the machine
	// Next is the Command of a program of the next version, for the fault "roll", which is not in AllFaults; default none.
	Next func(args ...string) *exec.Cmd
	// Faults are the faults to run. They come in an order that is drawn, each once before one comes again. Default AllFaults. On Linux there is
	// also "full", for users that may mount file systems.
	Faults []string
	// Progress is called with what is done; default none.
	Progress func(format string, args ...any)
}

// ErrViolated is wrapped by the error of a run in which a promise was broken.
var ErrViolated = history.ErrViolated

// AllFaults are the faults by name.
var AllFaults = []string{"kill", "kill-all", "stop", "restart", "wipe", "roll-back", "clone", "isolate", "one-way", "cut", "delay", "slow"}

// full is the fault that fills a node's disk. It is not in AllFaults: it needs disks of its own, and the right to mount them.
const full = "full"

// Report is the result of a run.
type Report struct {
	History *history.Report
	Faults  map[string]int // that were done
	Epoch   uint64         // at the end
	Elapsed time.Duration
}

// sets is how many sets the clients share.
const sets = 4

// Run tortures a cluster. The error says what was wrong: a broken promise, which wraps history.ErrViolated, a member that did not
// become whole, or a process that ended by itself.
func Run(ctx context.Context, o Options) (Report, error) {
	o.Nodes, o.Clients = cmp.Or(o.Nodes, 3), cmp.Or(o.Clients, 6)
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if len(o.Faults) == 0 {
		o.Faults = AllFaults
	}
	for _, f := range o.Faults {
		if !slices.Contains(AllFaults, f) && f != full && (f != roll || o.Next == nil) {
			return Report{}, fmt.Errorf("torture: unknown fault %q, want one of %v, or %s", f, AllFaults, full)
		}
	}
	began := time.Now()
	ns, err := newNodes(&o)
	defer ns.close()
	if err != nil {
		return Report{}, err
	}
	if err := ns.startAll(); err != nil {
		return Report{}, err
	}
	if err := ns.whole(ctx, time.Minute); err != nil {
		return Report{}, err
	}
	r := &run{o: &o, ns: ns, history: history.New(func() time.Duration { return time.Since(began) }), report: Report{Faults: map[string]int{}}}
	if err := r.makeFilters(ctx); err != nil {
		return Report{}, err
	}
	err = r.faults(ctx)
	if end := r.end(ctx); err == nil {
		err = end
	}
	r.report.Elapsed = time.Since(began)
	r.report.History = r.history.Check()
	err = errors.Join(err, r.report.History.Err())
	ns.keep = err != nil
	return r.report, err
}

// run is one run.
type run struct {
	o       *Options
	ns      *nodes
	history *history.Recorder
	report  Report
	clients sync.WaitGroup
	bloomd  []*bloomdClient
	over    atomic.Bool
	next    atomic.Uint64
	strange atomic.Pointer[error] // the first error that no restart explains
}

// faults does one fault after another while clients work.
func (r *run) faults(ctx context.Context) error {
	for i := range r.o.Clients {
		rng, h := rand.New(rand.NewPCG(r.o.Seed, uint64(i))), r.history.Client(fmt.Sprintf("client %d", i))
		if i%3 == 2 {
			c := &bloomdClient{r: r, rng: rng, h: h}
			r.bloomd = append(r.bloomd, c)
			r.clients.Go(func() { c.work(ctx) })
			continue
		}
		c := &setClient{r: r, rng: rng, h: h}
		r.clients.Go(func() { c.work(ctx) })
	}
	defer func() {
		r.over.Store(true)
		r.clients.Wait()
	}()
	rng := rand.New(rand.NewPCG(r.o.Seed, 1<<32))
	var drawn []int // faults to come: all of them come before one comes again
	end, least := time.Now().Add(r.o.Duration), min(3, len(r.o.Faults))
	for done := 0; (done < least || time.Now().Before(end)) && ctx.Err() == nil; done++ {
		pause(ctx, time.Duration(200+rng.IntN(500))*time.Millisecond)
		if len(drawn) == 0 {
			drawn = rng.Perm(len(r.o.Faults))
		}
		name := r.o.Faults[drawn[0]]
		drawn = drawn[1:]
		r.o.Progress("%s", name)
		if err := r.fault(ctx, rng, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.report.Faults[name]++
		if err := r.ns.died(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fault does one fault and ends it.
func (r *run) fault(ctx context.Context, rng *rand.Rand, name string) error {
	ns := r.ns
	n := ns.all[rng.IntN(len(ns.all))]
	other := ns.all[rng.IntN(len(ns.all))]
	some := func(least, most int) { pause(ctx, time.Duration(least+rng.IntN(most-least))*time.Millisecond) }
	switch name {
	case "kill":
		if err := n.end(syscall.SIGKILL); err != nil {
			return err
		}
		some(0, 1500)
		return ns.start(n)
	case "kill-all":
		for _, n := range ns.all {
			_ = n.signal(syscall.SIGKILL)
		}
		for _, n := range ns.all {
			if err := n.end(syscall.SIGKILL); err != nil {
				return err
			}
		}
		return ns.startAll()
	case "restart":
		if err := n.end(syscall.SIGTERM); err != nil {
			return err
		}
		some(0, 500)
		return ns.start(n)
	case roll:
		return r.roll(ctx)
	case "stop":
		if err := n.signal(halt.Stop); err != nil {
			return err
		}
		some(300, 2500)
		return n.signal(halt.Continue)
	case "wipe": // one disk at a time: the cluster does not promise to survive two of three
		if err := r.killedWhole(ctx, n); err != nil {
			return err
		}
		if err := n.wipe(); err != nil {
			return err
		}
		if err := ns.start(n); err != nil {
			return err
		}
		return ns.whole(ctx, time.Minute)
	case "roll-back": // the disk comes back as it was earlier, as from a backup
		if err := r.killedWhole(ctx, n); err != nil {
			return err
		}
		if err := n.keepCopy(); err != nil {
			return err
		}
		if err := ns.start(n); err != nil {
			return err
		}
		some(300, 2000)
		if err := r.killedWhole(ctx, n); err != nil {
			return err
		}
		if err := n.rollBack(); err != nil {
			return err
		}
		if err := ns.start(n); err != nil {
			return err
		}
		return ns.whole(ctx, time.Minute)
	case "clone": // a copy of another node's disk replaces this node's
		of := ns.all[(slices.Index(ns.all, n)+1)%len(ns.all)]
		if err := r.killedWhole(ctx, n); err != nil {
			return err
		}
		if err := of.end(syscall.SIGKILL); err != nil {
			return err
		}
		if err := n.clone(of); err != nil {
			return err
		}
		if err := errors.Join(ns.start(of), ns.start(n)); err != nil {
			return err
		}
		return ns.whole(ctx, time.Minute)
	case full:
		if err := keepFull(ctx, n.disk, time.Duration(300+rng.IntN(2500))*time.Millisecond); err != nil {
			return err
		}
		return r.startIfFailed(ctx, n)
	case "isolate":
		ns.net.Isolate(n.id, true)
		some(300, 2500)
		ns.net.Isolate(n.id, false)
	case "one-way":
		if n != other {
			ns.net.OneWay(n.id, other.id, true)
			some(300, 2500)
			ns.net.OneWay(n.id, other.id, false)
		}
	case "cut":
		if l := ns.net.Get(n.id, other.id); l != nil && n != other {
			l.Cut(r.how(rng))
		}
	case "delay":
		if l := ns.net.Get(n.id, other.id); l != nil && n != other {
			r.delay(l, 30*time.Millisecond)
			some(300, 2000)
			r.delay(l, 0)
		}
	case "slow":
		if l := ns.net.Get(n.id, other.id); l != nil && n != other {
			r.limit(l, 64<<10)
			some(300, 2000)
			r.limit(l, 0)
		}
	}
	return nil
}

// killedWhole kills a node when all members are whole, so that the disk that it then loses is the only lost one.
func (r *run) killedWhole(ctx context.Context, n *node) error {
	if err := r.ns.whole(ctx, time.Minute); err != nil {
		return err
	}
	return n.end(syscall.SIGKILL)
}

// end heals everything, waits until all members are whole, reads everything at every node, and compares their stores.
func (r *run) end(ctx context.Context) error {
	r.o.Progress("the end: all is healed")
	if err := r.ns.net.Heal(); err != nil {
		return err
	}
	if err := r.ns.whole(ctx, 2*time.Minute); err != nil {
		return err
	}
	c := &setClient{r: r, rng: rand.New(rand.NewPCG(r.o.Seed, 1<<33)), h: r.history.Client("the end")}
	for i := range sets {
		for _, n := range r.ns.all {
			c.node = n
			if err := c.read(ctx, fmt.Sprint("set", i)); err != nil {
				return fmt.Errorf("a read at the end, at node %s: %w", n.id, err)
			}
		}
	}
	if err := r.checkAll(ctx); err != nil {
		return err
	}
	s, err := r.ns.all[0].status(ctx)
	if err != nil {
		return err
	}
	r.report.Epoch = s.Epoch
	return agree(ctx, func(ctx context.Context) error { return r.repair(ctx, c) }, r.compare, r.restart)
}

// setClient is a client that works on sets.
type setClient struct {
	r    *run
	rng  *rand.Rand
	h    *history.Client
	node *node
	mine []string // elements that it has added
}

// work does operations until the run has ended.
func (c *setClient) work(ctx context.Context) {
	for !c.r.over.Load() && ctx.Err() == nil {
		c.node = c.r.ns.all[c.rng.IntN(len(c.r.ns.all))]
		set := fmt.Sprint("set", c.rng.IntN(sets))
		switch c.rng.IntN(10) {
		case 0:
			_ = c.read(ctx, set)
		case 1, 2:
			c.lookup(ctx, false)
		case 3:
			c.lookup(ctx, true)
		default:
			c.add(ctx, set)
		}
	}
}

// operationTime is how long a client waits for an answer.
const operationTime = 4 * time.Second

func (c *setClient) do(ctx context.Context, verb wire.Verb, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	return c.node.link.Do(ctx, wire.Call{Verb: verb, Body: body})
}

// outcome returns what is known of an operation that changes something.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, wire.ErrNotSent):
		return history.Fail
	}
	return history.Unknown
}

// slow keeps a refused client from asking again at once.
func (c *setClient) slow(ctx context.Context, err error) {
	if err != nil {
		c.r.note(err)
		pause(ctx, 10*time.Millisecond)
	}
}

func (c *setClient) add(ctx context.Context, set string) {
	var ops []door.Op
	var elements []string
	for range 1 + c.rng.IntN(3) {
		e := fmt.Sprintf("e%08d", c.r.next.Add(1))
		elements = append(elements, e)
		ops = append(ops, door.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	op := c.h.Add(set, elements...)
	_, err := c.do(ctx, api.VerbWrite, api.AppendWrite(nil, &door.Write{Set: []byte(set), Ops: ops, Request: fmt.Appendf(nil, "%s-%d", elements[0], c.r.o.Seed)}))
	op.End(outcome(err), err)
	if err == nil {
		c.mine = append(c.mine, set+"/"+elements[0])
	}
	c.slow(ctx, err)
}

// lookup asks for an element that this client has added, and may remove it with the context that it got.
func (c *setClient) lookup(ctx context.Context, remove bool) {
	if len(c.mine) == 0 {
		return
	}
	i := c.rng.IntN(len(c.mine))
	set, element := c.mine[i][:4], c.mine[i][5:]
	op := c.h.Lookup(set)
	b, err := c.do(ctx, api.VerbSubset, api.AppendSubset(nil, &door.Subset{Set: []byte(set), Elements: [][]byte{[]byte(element)}}))
	var found []door.Presence
	if err == nil {
		found, err = api.DecodePresences(b)
	}
	if err == nil && len(found) == 1 {
		op.Answered(element, found[0].Present)
	}
	op.End(outcome(err), err)
	c.slow(ctx, err)
	if err != nil || !remove || !found[0].Present {
		return
	}
	c.mine = slices.Delete(c.mine, i, i+1)
	gone := c.h.Remove(set, op, element)
	_, err = c.do(ctx, api.VerbWrite, api.AppendWrite(nil, &door.Write{Set: []byte(set), Request: fmt.Appendf(nil, "rm-%s-%d", element, c.r.o.Seed),
		Ops: []door.Op{{Kind: keyscheme.OpRemove, Element: []byte(element), Context: found[0].Context}}}))
	gone.End(outcome(err), err)
}

// read reads a set at the default quorum.
func (c *setClient) read(ctx context.Context, set string) error { return c.readFrom(ctx, set, 0) }

// readFrom reads a set from a number of replicas; 0 means the default.
func (c *setClient) readFrom(ctx context.Context, set string, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, 4*operationTime)
	defer cancel()
	op := c.h.Read(set)
	var err error
	var part door.Part
	done := false
	for b, failed := range c.node.link.Stream(ctx, wire.Call{Verb: api.VerbRead, Priority: wire.PriorityRead, Body: api.AppendRead(nil, &door.Read{Set: []byte(set), R: replicas})}) {
		if err = failed; err != nil {
			break
		}
		if err = api.DecodePart(&part, b); err != nil {
			break
		}
		for _, e := range part.Elements {
			op.Saw(string(e.Name))
		}
		done = part.Done
	}
	if err == nil && !done {
		err = errors.New("torture: a read that is not done")
	}
	if errors.Is(err, bigset.ErrNotFound) { // nothing was added yet
		err = nil
	}
	op.End(outcome(err), err)
	c.slow(ctx, err)
	return err
}
