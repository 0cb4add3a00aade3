package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigset/bench/probe"
	"bigset/bench/system"
)

// BloomdConfig configures RunBloomd: loads in bloomd's protocol on one running server, or on two in turns.
type BloomdConfig struct {
	A BloomdServer `json:"a"`
	// B is the server to compare A with; without an address there is no comparison.
	B BloomdServer `json:"b,omitzero"`
	// Modes are the kinds of requests; nil means all of BloomdModes.
	Modes []string `json:"modes,omitempty"`
	// Connections and Depths (requests in flight on each connection) are the points at which each mode is measured; nil means 1, 16 and 64.
	Connections []int `json:"connections,omitempty"`
	Depths      []int `json:"depths,omitempty"`
	// Passes is how often everything is repeated; 0 means 3.
	Passes int `json:"passes"`
	// Span is how long each point takes on each server in a pass; 0 means 2 s.
	Span time.Duration `json:"span"`
	// Keys is the capacity of each filter and the number of keys of a load; 0 means 1 million.
	Keys int `json:"keys"`
	// Probability is the probability of the filters; 0 means 0.0001.
	Probability float64 `json:"probability"`
	// Workers is the number of threads of B; 0 means 1. With more than 1 the goal is to be faster than B at 64 connections.
	Workers int `json:"workers"`
	// Progress receives lines of text about the progress; nil means none are written.
	Progress io.Writer `json:"-"`
}

// BloomdServer is a server that speaks bloomd's protocol.
type BloomdServer struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid,omitzero"` // of its process on this machine, whose CPU time is counted; 0 means unknown
}

// bloomdModes are the kinds of requests: add a key, check one, and both for a hundred keys at a time.
var bloomdModes = []bloomdMode{{"set", 1, true}, {"check", 1, false}, {"bulk", 100, true}, {"multi", 100, false}}

type bloomdMode struct {
	command string
	keys    int  // per request
	writes  bool // the requests add keys
}

// BloomdModes returns the names of the modes.
func BloomdModes() []string {
	var names []string
	for _, m := range bloomdModes {
		names = append(names, m.command)
	}
	return names
}

const (
	// bloomdKeyBytes is the length of every key.
	bloomdKeyBytes = 12
	// bloomdDepthMax bounds the requests in flight on a connection to what the socket buffers hold: the sender does not read while it
	// sends.
	bloomdDepthMax       = 256
	bloomdConnectionsMax = 4096
	bloomdWait           = 30 * time.Second // for any answer
)

func (c BloomdConfig) withDefaults() BloomdConfig {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if c.Modes == nil {
		c.Modes = BloomdModes()
	}
	if c.Connections == nil {
		c.Connections = []int{1, 16, 64}
	}
	if c.Depths == nil {
		c.Depths = []int{1, 16, 64}
	}
	def(&c.Passes, 3)
	def(&c.Keys, 1_000_000)
	def(&c.Workers, 1)
	if c.Span == 0 {
		c.Span = 2 * time.Second
	}
	if c.Probability == 0 {
		c.Probability = 0.0001
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

func (c BloomdConfig) validate() error {
	for _, m := range c.Modes {
		if !slices.Contains(BloomdModes(), m) {
			return fmt.Errorf("%w: unknown mode %q, want one of %s", ErrConfig, m, strings.Join(BloomdModes(), ", "))
		}
	}
	within := func(list []int, most int) bool {
		return !slices.ContainsFunc(list, func(n int) bool { return n < 1 || n > most })
	}
	switch {
	case c.A.Addr == "":
		return fmt.Errorf("%w: no address of a server", ErrConfig)
	case !within(c.Connections, bloomdConnectionsMax):
		return fmt.Errorf("%w: connections must be 1 to %d", ErrConfig, bloomdConnectionsMax)
	case !within(c.Depths, bloomdDepthMax):
		return fmt.Errorf("%w: requests in flight must be 1 to %d", ErrConfig, bloomdDepthMax)
	case c.Passes < 1 || c.Passes > roundsMax || c.Span < 0 || c.Workers < 1:
		return fmt.Errorf("%w: %d passes of %v, %d workers", ErrConfig, c.Passes, c.Span, c.Workers)
	case c.Keys <= 10_000 || c.Keys > 100_000_000 || c.Keys%100 != 0:
		return fmt.Errorf("%w: %d keys: it must be a multiple of 100 above 10,000, up to 100 million", ErrConfig, c.Keys)
	case !(c.Probability > 0 && c.Probability < 0.1):
		return fmt.Errorf("%w: a probability of %v: it must be above 0 and below 0.1", ErrConfig, c.Probability)
	}
	return nil
}

// bloomdPoint is one load.
type bloomdPoint struct {
	mode               bloomdMode
	connections, depth int
	// once says that each key is sent once, however long that takes: marking a key again is cheaper for a server that keeps a log.
	once bool
}

func (p bloomdPoint) name() string {
	return fmt.Sprintf("bloomd/%s-%d-%d", p.mode.command, p.connections, p.depth)
}

func (c BloomdConfig) points() (list []bloomdPoint) {
	for _, name := range c.Modes {
		mode := bloomdModes[slices.Index(BloomdModes(), name)]
		for _, n := range c.Connections {
			for _, depth := range c.Depths {
				list = append(list, bloomdPoint{mode: mode, connections: n, depth: depth})
			}
		}
	}
	return list
}

// The names of the servers in rows.
const (
	systemA = "a"
	systemB = "b"
)

// RunBloomd measures and returns a report. If it ends early, it returns the error and a report of what all passes have finished. The names
// of the filters that it makes begin with "bench-"; it drops them at the end.
func RunBloomd(ctx context.Context, c BloomdConfig) (_ *BloomdReport, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &bloomdRunner{ctx: ctx, cfg: c, run: strconv.FormatInt(time.Now().UnixNano(), 36), began: time.Now()}
	for _, s := range []struct {
		name   string
		server BloomdServer
	}{{systemA, c.A}, {systemB, c.B}} {
		if s.server.Addr == "" {
			continue
		}
		t, e := r.connect(s.name, s.server)
		if e != nil {
			return nil, e
		}
		defer func() { err = errors.Join(err, r.leave(t)) }()
		r.targets = append(r.targets, t)
	}
	report := &BloomdReport{Machine: ThisMachine(), Config: c, Repeated: map[string]int{}}
	r.repeated = report.Repeated
	for pass := range c.Passes {
		for i, p := range c.points() {
			if err := r.measure(p, pass, i); err != nil {
				report.Results = r.rows.Rows()
				return report, fmt.Errorf("bench: %s, pass %d: %w", p.name(), pass+1, err)
			}
		}
	}
	report.Results = r.rows.Rows()
	return report, nil
}

type bloomdRunner struct {
	ctx     context.Context
	cfg     BloomdConfig
	run     string // in the names of its filters, so that they differ from those of other runs
	began   time.Time
	targets []*bloomdTarget
	rows    collector
	filters int // number of filters made

	repeated map[string]int
}

// bloomdTries is how often a load is tried on a server that gives a wrong answer. bloomd looks a filter up again after every 32 keys of a
// request, and now and then does not find it.
const bloomdTries = 3

// measure runs one load on each server, in an order that changes from pass to pass.
func (r *bloomdRunner) measure(p bloomdPoint, pass, i int) error {
	order := slices.Clone(r.targets)
	if (pass+i)%2 == 1 {
		slices.Reverse(order)
	}
	for _, t := range order {
		f, hist, own, err := r.point(t, p)
		for try := 1; try < bloomdTries && errors.Is(err, system.ErrWrong); try++ {
			_, _ = fmt.Fprintf(r.cfg.Progress, "%s on %s is measured again: %v\n", p.name(), t.name, err)
			r.repeated[t.name]++
			f, hist, own, err = r.point(t, p)
		}
		if err != nil {
			return fmt.Errorf("%s (%s): %w", t.name, t.server.Addr, err)
		}
		r.rows.Add(Row{Workload: p.name(), System: t.name, Elements: r.cfg.Keys}, f, hist)
		_, _ = fmt.Fprintf(r.cfg.Progress, "%6.1fs  pass %d of %d, %s on %s: %s requests/s, the loader's CPU %s µs a request\n",
			time.Since(r.began).Seconds(), pass+1, r.cfg.Passes, p.name(), t.name, Thousands(uint64(f.OpsPerSecond)), number(own))
	}
	return nil
}

// bloomdTarget is a server that is measured.
type bloomdTarget struct {
	name    string
	server  BloomdServer
	conn    net.Conn // for commands outside the load
	answers *bufio.Reader
	full    string // the filter that contains all keys, for checks
	// cpu returns the CPU time that the server has used; nil means unknown.
	cpu func() (time.Duration, error)
	// profile begins a profile of the server during a load, and returns a function that waits for its end; nil means no profiles.
	profile func(workload string) (wait func() error)
	// rest waits until the server does nothing in the background; nil means that it is measured as it is.
	rest func() error
}

func (r *bloomdRunner) connect(name string, s BloomdServer) (*bloomdTarget, error) {
	conn, err := (&net.Dialer{Timeout: bloomdWait}).DialContext(r.ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	t := &bloomdTarget{name: name, server: s, conn: conn, answers: bufio.NewReader(conn)}
	if s.PID != 0 {
		t.cpu = func() (time.Duration, error) { return probe.ProcessCPU(s.PID) }
		if _, err := t.cpu(); err != nil {
			return nil, errors.Join(fmt.Errorf("bench: CPU time of process %d: %w", s.PID, err), conn.Close())
		}
	}
	return t, nil
}

// ask sends one command and returns its answer of one line.
func (t *bloomdTarget) ask(command string) (string, error) {
	if err := t.conn.SetDeadline(time.Now().Add(bloomdWait)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(t.conn, command+"\n"); err != nil {
		return "", err
	}
	line, err := t.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// change sends a create or a drop. Both take all nodes of a cluster, and its answer is bloomdFault while one of them does not answer in time.
// Asking again is safe, so change does that for as long as it would wait for an answer. The answer already then says that an earlier try was
// done after all.
func (r *bloomdRunner) change(t *bloomdTarget, command, already string) error {
	again := false
	for began := time.Now(); ; again = true {
		line, err := t.ask(command)
		switch {
		case err != nil:
			return err
		case again && line == already:
			return nil
		case line != bloomdFault || time.Since(began) > bloomdWait || r.ctx.Err() != nil:
			return system.Expect("answer to "+command, line, "Done")
		}
		time.Sleep(bloomdPause)
	}
}

// The answers of bloomd's protocol to a change that could not be made, and to one that was made before.
const (
	bloomdFault  = "Internal Error"
	bloomdExists = "Exists"
	bloomdAbsent = "Filter does not exist"
)

// bloomdPause is the time after which a change is tried again.
const bloomdPause = 20 * time.Millisecond

// leave removes what is left on a server.
func (r *bloomdRunner) leave(t *bloomdTarget) (err error) {
	if t.full != "" {
		err = r.drop(t, t.full)
	}
	return errors.Join(err, t.conn.Close())
}

func (r *bloomdRunner) drop(t *bloomdTarget, filter string) error {
	return r.change(t, "drop "+filter, bloomdAbsent)
}

// create makes a filter with a new name.
func (r *bloomdRunner) create(t *bloomdTarget) (string, error) {
	r.filters++
	name := fmt.Sprintf("bench-%s-%06d", r.run, r.filters)
	return name, r.change(t, fmt.Sprintf("create %s capacity=%d prob=%g", name, r.cfg.Keys, r.cfg.Probability), bloomdExists)
}

// point runs one load on one server. own is the CPU time of the loader for a request, in µs.
func (r *bloomdRunner) point(t *bloomdTarget, p bloomdPoint) (f Figures, hist histogram, own float64, err error) {
	if p.mode.writes {
		name, err := r.create(t)
		if err != nil {
			return f, nil, 0, err
		}
		f, hist, own, err = r.load(t, p, newBloomdLoad(p.mode, name, r.cfg.Keys))
		return f, hist, own, errors.Join(err, r.drop(t, name))
	}
	if t.full == "" {
		if err := r.fill(t); err != nil {
			return f, nil, 0, err
		}
		if err := r.warm(t, p); err != nil {
			return f, nil, 0, err
		}
	}
	return r.load(t, p, newBloomdLoad(p.mode, t.full, r.cfg.Keys))
}

// warm lets a server rest after the filter for checks was filled, and then runs a load for a part of the span without measuring it, so that
// what the server does once for a filter that rests is done by then.
func (r *bloomdRunner) warm(t *bloomdTarget, p bloomdPoint) error {
	if t.rest == nil {
		return nil
	}
	if err := t.rest(); err != nil {
		return err
	}
	warm, unprofiled := *r, *t
	warm.cfg.Span /= 4
	unprofiled.profile = nil
	_, _, _, err := warm.load(&unprofiled, p, newBloomdLoad(p.mode, t.full, r.cfg.Keys))
	return err
}

// fill makes the filter for checks and adds all keys.
func (r *bloomdRunner) fill(t *bloomdTarget) (err error) {
	if t.full, err = r.create(t); err != nil {
		return err
	}
	bulk := bloomdModes[slices.Index(BloomdModes(), "bulk")]
	l := newBloomdLoad(bulk, t.full, r.cfg.Keys)
	c, err := r.dial(t, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c[0].conn.Close()) }()
	return c[0].drive(l, 0, 16, l.count, time.Now().Add(time.Hour))
}
