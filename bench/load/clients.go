package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"bigset/bench/probe"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// Groups returns a recorder for each name of a role in a workload, in the order of the file: clients with one name are one group in all
// phases.
func Groups(w *spec.Workload) (list []*sample.Latencies) {
	for _, p := range w.Phases {
		for _, role := range p.Roles {
			if !slices.ContainsFunc(list, func(l *sample.Latencies) bool { return l.Group() == role.Name }) {
				list = append(list, sample.NewLatencies(role.Name))
			}
		}
	}
	return list
}

// Role is what the clients of a role have done so far, in the current or the last phase. Any number of goroutines may call its methods.
type Role struct {
	*sample.Latencies
	Name  string // "" if it has no name
	Probe bool   // it acts while the clock of the others is stopped
}

// Clients are the clients of one phase, which act on one store. Run is called once; read what they have done afterwards. Roles may be read
// during the run.
type Clients struct {
	*Model
	sys     system.System
	nth     int // of the phase
	roles   []Role
	clients []*client
	probes  int
	alone   bool // at most one client acts at a time
	writes  bool

	ctx      context.Context
	began    time.Time
	duration time.Duration // 0 if the phase ends by operations
	until    time.Time     // zero likewise
	away     time.Duration
	awayCPU  time.Duration

	mu      sync.Mutex
	folders []string // of checkpoints
}

// NewClients returns the clients of the nth phase of the model's workload, which record into the Groups of that workload. ops is how many
// operations they do together; it is not used if the phase ends by time.
func NewClients(m *Model, sys system.System, groups []*sample.Latencies, nth, ops int) (*Clients, error) {
	p := &m.w.Phases[nth]
	count := clientsOf(p)
	c := &Clients{Model: m, sys: sys, nth: nth, alone: count <= 1}
	var probes []*client
	for i := range p.Roles {
		role := &p.Roles[i]
		isProbe := role.Every != (spec.Count{})
		group := groups[slices.IndexFunc(groups, func(l *sample.Latencies) bool { return l.Group() == role.Name })]
		c.roles = append(c.roles, Role{group, role.Name, isProbe})
		for nth, recorder := range group.Begin(role.Clients) {
			one := newClient(c, role, nth, recorder)
			if isProbe {
				probes = append(probes, one)
				continue
			}
			one.index = len(c.clients)
			c.clients = append(c.clients, one)
		}
		for _, k := range role.Mix {
			c.writes = c.writes || k.Kind.Writes()
		}
	}
	for i, one := range c.clients {
		one.quota = ops / count
		if i < ops%count {
			one.quota++
		}
		for part := i; part < c.parts; part += count {
			one.parts = append(one.parts, part)
		}
		if err := one.begin(uint64(i)); err != nil {
			return nil, err
		}
	}
	for i, one := range probes {
		one.parts, one.quota = c.clients[0].parts, -1
		if err := one.begin(uint64(probeStream + i)); err != nil {
			return nil, err
		}
		c.clients[0].probes = append(c.clients[0].probes, one)
	}
	c.probes = len(probes)
	return c, nil
}

// probeStream is the number of a probe's random stream, above those of all clients.
const probeStream = 1 << 32

// Roles returns what the clients of each role have done, in the order of the file.
func (c *Clients) Roles() []Role { return c.roles }

// Writes reports whether any of the clients writes.
func (c *Clients) Writes() bool { return c.writes }

// Probes returns how many of the clients are probes.
func (c *Clients) Probes() int { return c.probes }

// Late returns, for a phase that ends by time, how many operations of clients with a rate were due before its end but had not begun then.
func (c *Clients) Late() (n uint64) {
	for _, one := range c.clients {
		n += uint64(max(0, one.late))
	}
	return n
}

// Away returns the time, and the CPU time, for which the clock was stopped for a probe.
func (c *Clients) Away() (took, cpu time.Duration) { return c.away, c.awayCPU }

// Run lets all clients act until they have done their operations or, if duration is above 0, for that long after began. If one fails, or
// ctx ends, all end.
func (c *Clients) Run(ctx context.Context, began time.Time, duration time.Duration) error {
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	c.began, c.duration = began, duration
	if duration > 0 {
		c.until = began.Add(duration)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(c.clients))
	for i, one := range c.clients {
		wg.Go(func() {
			if errs[i] = one.run(); errs[i] != nil {
				cancel() // stop the others
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	var first error // the error of a cancelled client says less than that of the one that failed
	for i, err := range errs {
		if err != nil && (first == nil || first == context.Canceled) {
			if first = err; err != context.Canceled {
				first = fmt.Errorf("client %d: %w", i+1, err)
			}
		}
	}
	return first
}

// folder returns a folder for a checkpoint, beside that of the store.
func (c *Clients) folder() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.folders = append(c.folders, fmt.Sprintf("%s-%d-%d", c.sys.Dir(), c.nth, len(c.folders)))
	return c.folders[len(c.folders)-1]
}

// Clean removes the checkpoints that the clients have made.
func (c *Clients) Clean() (err error) {
	for _, dir := range c.folders {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	c.folders = nil
	return err
}

// Note writes which operations the clients have done: equal texts mean equal operations.
func (c *Clients) Note(to io.Writer) error {
	if _, err := fmt.Fprintln(to, c.seed, c.w.Elements); err != nil { // clients note the numbers of elements
		return err
	}
	for _, one := range c.clients {
		if _, err := fmt.Fprintf(to, "%d %d %d %x\n", c.nth, one.index, one.done, one.hash); err != nil {
			return err
		}
	}
	return nil
}

func cpuNow() time.Duration {
	cpu, _ := probe.CPUTime()
	return cpu
}
