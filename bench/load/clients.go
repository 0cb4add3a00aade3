package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"bigset/bench/probe"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// Clients are those of one phase, which act on one store. Run is called once, and what they have done is read after it; Lives may be read
// meanwhile.
type Clients struct {
	*Model
	sys     system.System
	nth     int     // of the phase
	lives   []*Live // one for each role
	clients []*client
	probes  int
	alone   bool // one client acts at a time
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

// NewClients returns the clients of the nth phase of the model's workload. ops is how many operations they have together; if the phase ends
// by time, it is not used.
func NewClients(m *Model, sys system.System, nth, ops int) (*Clients, error) {
	p := &m.w.Phases[nth]
	count := clientsOf(p)
	c := &Clients{Model: m, sys: sys, nth: nth, alone: count <= 1}
	var probes []*client
	for i := range p.Roles {
		role := &p.Roles[i]
		isProbe := role.Every != (spec.Count{})
		live := newLive(role.Name, isProbe, role.Clients)
		c.lives = append(c.lives, live)
		for nth := range role.Clients {
			one := newClient(c, role, nth, live.clients[nth])
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

// probeStream is the number of a probe's random numbers, above those of all clients.
const probeStream = 1 << 32

// Lives returns what the clients of each role have done, in the order of the file.
func (c *Clients) Lives() []*Live { return c.lives }

// Writes reports whether any of the clients writes.
func (c *Clients) Writes() bool { return c.writes }

// Probes returns how many of the clients are probes.
func (c *Clients) Probes() int { return c.probes }

// Away returns the time, and the CPU time, for which the clock stood still because a probe acted.
func (c *Clients) Away() (took, cpu time.Duration) { return c.away, c.awayCPU }

// Run lets all clients act until they have done their operations or, if duration is above 0, for that long after began. When one fails, or
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
				cancel() // the others need not go on
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	var first error // a client that was cancelled says less than the one that failed
	for i, err := range errs {
		if err != nil && (first == nil || first == context.Canceled) {
			if first = err; err != context.Canceled {
				first = fmt.Errorf("client %d: %w", i+1, err)
			}
		}
	}
	return first
}

// folder returns one for a checkpoint, beside the store's.
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

// Note writes down which operations the clients have done: equal texts are equal operations.
func (c *Clients) Note(to io.Writer) error {
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
