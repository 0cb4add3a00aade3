package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ClusterConfig configures RunCluster.
type ClusterConfig struct {
	// Command returns the unstarted command of the program with arguments. It has no default.
	Command func(args ...string) *exec.Cmd `json:"-"`
	// Dir is where the temporary folder is made; empty means the system's default place.
	Dir string `json:"-"`
	// Parts are the parts to measure; nil means all of ClusterParts.
	Parts []string `json:"parts"`
	// Rounds is how often the parts with loads are repeated; 0 means 3. Faults, fill and idle are measured once.
	Rounds int `json:"rounds"`
	// Span is how long each load takes in a round; 0 means 2 s.
	Span time.Duration `json:"span"`
	// Elements is the size of the set that is read; 0 means 200,000, with Full 1 million.
	Elements int `json:"elements"`
	// FillBytes is how much data the empty member is filled with; 0 means 256 MB, with Full 1 GB.
	FillBytes int64 `json:"fill_bytes"`
	// Keys is the capacity of the filters and the number of keys of a load; 0 means 1,050,000, which a cluster splits into 256 slices.
	Keys int    `json:"keys"`
	Seed uint64 `json:"seed"`
	Full bool   `json:"full,omitzero"`
	// Short makes everything so small that it takes seconds. Its figures mean nothing.
	Short bool `json:"short,omitzero"`
	// Profiles is an existing folder for CPU profiles of the first node of each system, one for each load that reads or writes sets or
	// filters; empty means none. Profiles use CPU time themselves.
	Profiles string `json:"profiles,omitempty"`
	// Progress receives lines of text about the progress; nil means none are written.
	Progress io.Writer `json:"-"`
}

// clusterParts are the parts in the order in which they run.
var clusterParts = []struct {
	name, about string
	once        bool
	run         func(*lab) error
}{
	{"transport", "server/wire alone, over loopback, beside bare sockets", false, (*lab).transport},
	{"add", "adds of one caller and of 64, with a client each or shared, beside synced adds to a store in this process; with and without TLS", false, (*lab).adding},
	{"read", "a streaming read of a set, beside a local one and one at two of three replicas in this process", false, (*lab).reading},
	{"filters", "bloomd's protocol: check pipelined, multi and bulk of 1,000 keys, beside a node alone", false, (*lab).filters},
	{"faults", "a node killed, its hints replayed, and one stopped, under load", true, (*lab).faults},
	{"fill", "an empty disk filled under load, beside writing a file", true, (*lab).filling},
	{"idle", "memory of an idle member with 4,096 buckets, beside a node alone", true, (*lab).idle},
}

// ClusterParts returns the names of the parts of RunCluster, with a line about each.
func ClusterParts() (list []Workload) {
	for _, p := range clusterParts {
		list = append(list, Workload{p.name, p.about})
	}
	return list
}

func clusterPartNames() (names []string) {
	for _, p := range clusterParts {
		names = append(names, p.name)
	}
	return names
}

func (c ClusterConfig) withDefaults() ClusterConfig {
	pick := func(small, full, short int) int {
		switch {
		case c.Short:
			return short
		case c.Full:
			return full
		}
		return small
	}
	if c.Parts == nil {
		c.Parts = clusterPartNames()
	}
	if c.Rounds == 0 {
		c.Rounds = pick(3, 5, 1)
	}
	if c.Span == 0 {
		c.Span = time.Duration(pick(2000, 5000, 100)) * time.Millisecond
	}
	if c.Elements == 0 {
		c.Elements = pick(200_000, 1_000_000, 2_000)
	}
	if c.FillBytes == 0 {
		c.FillBytes = int64(pick(256, 1000, 1)) * 1_000_000
	}
	if c.Keys == 0 {
		c.Keys = pick(1_050_000, 1_050_000, 20_000)
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

func (c ClusterConfig) validate() error {
	for _, p := range c.Parts {
		if !slices.Contains(clusterPartNames(), p) {
			return fmt.Errorf("%w: unknown part %q, want one of %s", ErrConfig, p, strings.Join(clusterPartNames(), ", "))
		}
	}
	switch {
	case c.Command == nil:
		return fmt.Errorf("%w: no program to start", ErrConfig)
	case c.Rounds < 1 || c.Rounds > roundsMax || c.Span < 0:
		return fmt.Errorf("%w: %d rounds of %v", ErrConfig, c.Rounds, c.Span)
	case c.Elements < 1 || c.Elements > elementsMax || c.FillBytes < 0:
		return fmt.Errorf("%w: %d elements, %d bytes to fill", ErrConfig, c.Elements, c.FillBytes)
	case c.Keys <= 10_000 || c.Keys > 100_000_000 || c.Keys%1000 != 0:
		return fmt.Errorf("%w: %d keys: it must be a multiple of 1,000 above 10,000, up to 100 million", ErrConfig, c.Keys)
	}
	return nil
}

// The names of the systems in rows of a cluster.
const (
	systemLocal     = "local"      // a store in this process
	systemReplica   = "quorum"     // three stores in this process, with a coordinator
	systemAlone     = "alone"      // one node, a process
	systemCluster   = "cluster"    // three nodes, three processes
	systemTLS       = "tls"        // three nodes whose connections are encrypted
	systemWire      = "wire"       // requests without content
	systemWireTLS   = "wire-tls"   // the same over encrypted connections
	systemSocket    = "socket"     // the same bytes over bare connections
	systemSocketTLS = "socket-tls" // over encrypted ones
	systemFloor     = "floor"      // three local applies, and three requests without content
	systemDisk      = "disk"       // a file that is written and synced
	systemLimit     = "limit"      // the configured bound on copies
)

// lab is one run.
type lab struct {
	*env
	c     ClusterConfig
	nodes map[string]*processes // by system
	next  atomic.Uint64         // number of the next element to add
	last  map[string]Figures    // of this round, by workload and system

	arounds []Around

	bloomd *bloomdRunner
}

// RunCluster starts nodes, and measures them beside a node without a cluster and beside stores in this process. It returns a report. If it
// ends early, it returns the error and a report of what was finished. All processes that it has started have ended when it returns, and its
// temporary folder is removed. Only one goroutine of a process may call it at a time.
func RunCluster(ctx context.Context, c ClusterConfig) (_ *ClusterReport, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp(place(c.Dir), "bigset-bench-cluster-")
	if err != nil {
		return nil, fmt.Errorf("bench: temporary folder: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	began := time.Now()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(c.Progress, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	cfg := Config{Seed: c.Seed}.withDefaults()
	l := &lab{env: &env{ctx: ctx, cfg: cfg, elements: c.Elements, root: root, rows: &collector{}, say: say}, c: c,
		nodes: map[string]*processes{}, last: map[string]Figures{}}
	defer l.stopAll()
	err = l.run()
	if l.bloomd != nil {
		l.rows.Take(&l.bloomd.rows)
	}
	return &ClusterReport{Machine: ThisMachine(), Config: c, Results: l.rows.Rows(), Arounds: l.arounds}, err
}

// run runs the parts with loads in rounds, and then the parts that are measured once.
func (l *lab) run() error {
	for round := range l.c.Rounds {
		if err := l.parts(round, false); err != nil {
			return err
		}
	}
	return l.parts(0, true)
}

func (l *lab) parts(round int, once bool) error {
	l.round = round
	for _, p := range clusterParts {
		if p.once == once && slices.Contains(l.c.Parts, p.name) {
			if err := l.part(p.name, p.run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lab) part(name string, run func(*lab) error) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	l.say("%s, round %d", name, l.round+1)
	if err := run(l); err != nil {
		return fmt.Errorf("bench: cluster, %s, round %d: %w", name, l.round+1, err)
	}
	return nil
}

// inTurns calls functions in an order that changes from round to round.
func (l *lab) inTurns(list ...func() error) error {
	if l.round%2 == 1 {
		slices.Reverse(list)
	}
	for _, f := range list {
		if err := errors.Join(l.ctx.Err(), f()); err != nil {
			return err
		}
	}
	return nil
}

// took records the result of a load.
func (l *lab) took(workload, system string, elements int, f Figures, hist histogram) {
	l.last[workload+" "+system] = f
	l.rows.Add(Row{Workload: workload, System: system, Elements: elements}, f, hist)
	text := fmt.Sprintf("  %s %s: %s/s", workload, system, Thousands(uint64(f.OpsPerSecond)))
	for _, t := range []struct {
		name string
		v    *float64
	}{{"p50 µs", f.P50}, {"p99 µs", f.P99}, {"cpu µs", f.CPUMicros}, {"MB/s", f.MBPerSecond}} {
		if t.v != nil {
			text += fmt.Sprintf(", %s %s", t.name, number(*t.v))
		}
	}
	l.say("%s", text)
}

// warmCalls is how often each goroutine of a load calls before the measurement, so that connections are open.
const warmCalls = 3

// load makes n goroutines call what begin returns for each, repeatedly, for the span. The CPU time is that of this process and of the
// processes in of.
func (l *lab) load(workload, system string, of *processes, n int, begin func(g int) (func() error, error)) error {
	calls := make([]func() error, n)
	for g := range calls {
		var err error
		if calls[g], err = begin(g); err != nil {
			return err
		}
		for range warmCalls {
			if err := calls[g](); err != nil {
				return err
			}
		}
	}
	runtime.GC()
	phases, errs := make([]*phase, n), make([]error, n)
	cpu, err := of.cpu()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	began, own := time.Now(), cpuNow()
	until := began.Add(l.c.Span)
	for g, call := range calls {
		p := &phase{ctx: l.ctx, hist: newHistogram()}
		phases[g] = p
		wg.Go(func() {
			for last := time.Now(); last.Before(until) && errs[g] == nil && l.ctx.Err() == nil; {
				errs[g] = call()
				now := time.Now()
				p.observe(now.Sub(last))
				p.ops++
				last = now
			}
		})
	}
	profile := l.profile(workload, system, of)
	wg.Wait()
	took, own := time.Since(began), cpuNow()-own
	after, err := of.cpu()
	if err := errors.Join(l.ctx.Err(), err, errors.Join(errs...), profile()); err != nil {
		return fmt.Errorf("%s %s: %w", workload, system, err)
	}
	all := phases[0]
	for _, p := range phases[1:] {
		all.ops += p.ops
		all.hist.Merge(p.hist)
	}
	var f Figures
	all.figures(&f, took, own+after-cpu)
	l.took(workload, system, n, f, all.hist)
	return nil
}
