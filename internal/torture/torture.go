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

	"bigset/internal/halt"
	"bigset/internal/history"
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
var AllFaults = []string{"kill", "kill-all", "stop", "restart", "rolling", "wipe", "roll-back", "clone", "isolate", "one-way", "cut", "delay", "slow"}

// losing are the faults that may take what was not acknowledged.
var losing = []string{"kill", "kill-all", "wipe", "roll-back", "clone", full}

// full is the fault that fills a node's disk. It is not in AllFaults: it needs disks of its own, and the right to mount them.
const full = "full"

// Report is the result of a run.
type Report struct {
	History *history.Report
	Faults  map[string]int // that were done
	Epoch   uint64         // at the end
	Elapsed time.Duration
}

// sets is how many sets the clients share. With five nodes each owns some of them, and none owns all.
const sets = 6

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
	o        *Options
	ns       *nodes
	history  *history.Recorder
	report   Report
	clients  sync.WaitGroup
	sets     []*setClient
	bloomd   []*bloomdClient
	owners   *owners
	over     atomic.Bool
	next     atomic.Uint64
	requests atomic.Uint64         // changes of sets, each counted once
	strange  atomic.Pointer[error] // the first error that no restart explains
}

// faults does one fault after another while clients work.
func (r *run) faults(ctx context.Context) error {
	for i := range r.o.Clients {
		rng, h := rand.New(rand.NewPCG(r.o.Seed, uint64(i))), r.history.Client(fmt.Sprintf("client %d", i))
		if i%3 == 2 {
			c := &bloomdClient{r: r, rng: rng, h: h}
			c.order = c.dropHere
			r.bloomd = append(r.bloomd, c)
			r.clients.Go(func() { c.work(ctx) })
			continue
		}
		c := &setClient{r: r, rng: rng, h: h}
		r.sets = append(r.sets, c)
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
	if slices.Contains(losing, name) {
		defer r.history.Losing()()
	}
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
	case "rolling": // all nodes, one by one, under load
		for _, n := range ns.all {
			if err := n.end(syscall.SIGTERM); err != nil {
				return err
			}
			if err := errors.Join(ns.start(n), ns.whole(ctx, time.Minute)); err != nil {
				return err
			}
		}
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

// end heals everything, waits until all members are whole, repeats what is unknown, reads everything at every node, and compares their stores.
func (r *run) end(ctx context.Context) error {
	r.o.Progress("the end: all is healed")
	if err := r.ns.net.Heal(); err != nil {
		return err
	}
	if err := r.ns.whole(ctx, 2*time.Minute); err != nil {
		return err
	}
	for _, c := range r.sets {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	c := &setClient{r: r, rng: rand.New(rand.NewPCG(r.o.Seed, 1<<33)), h: r.history.Client("the end"), named: true}
	for i := range sets {
		for _, n := range r.ns.all {
			c.node = n
			if err := c.read(ctx, setName(i)); err != nil {
				return fmt.Errorf("a read at the end, at node %s: %w", n.id, err)
			}
		}
	}
	if err := r.checkAll(ctx); err != nil {
		return err
	}
	s, err := r.ns.all[0].status(ctx)
	for tries := 1; err != nil && tries < settleTries; tries++ {
		s, err = r.ns.all[0].status(ctx)
	}
	if err != nil {
		return err
	}
	r.report.Epoch = s.Epoch
	if r.owners, err = ownersOf(&s); err != nil {
		return err
	}
	return agree(ctx, func(ctx context.Context) error { return r.repair(ctx, c) }, r.compare, r.restart)
}
