package run

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/probe"
	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// phase is a phase that runs on a stage.
type phase struct {
	*stage
	*spec.Phase
	nth     int
	show    *Phase
	began   time.Time
	clients []*client // probes left out
	alone   bool      // one client acts at a time
	writes  bool

	ctx     context.Context
	cancel  context.CancelFunc
	until   time.Time // zero if the phase ends by operations
	away    time.Duration
	awayCPU time.Duration
}

// phase runs a phase.
func (s *stage) phase(nth int, spec *spec.Phase) error {
	p := &phase{stage: s, Phase: spec, nth: nth}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	defer p.cancel()
	if err := p.prepare(); err != nil {
		return err
	}
	s.o.Observer.PhaseBegan(p.show)
	f, err := p.measured()
	if err != nil {
		return err
	}
	if len(p.Roles) > 0 {
		s.note(nth, p.clients)
		s.timed = s.timed || p.show.Duration > 0
	}
	rows, err := p.rows(f)
	if err != nil {
		return err
	}
	s.o.Observer.PhaseEnded(p.show, rows)
	return nil
}

// mainPhase is the phase whose rows have the workload's name alone.
const mainPhase = "main"

// duration returns how long the phase goes on, 0 if it ends by operations.
func (p *phase) duration() time.Duration {
	switch {
	case p.Phase.Duration == 0:
		return 0
	case p.o.Duration > 0:
		return p.o.Duration
	case p.o.Full && p.DurationFull > 0:
		return p.DurationFull
	}
	return p.Phase.Duration
}

// prepare makes the clients.
func (p *phase) prepare() error {
	p.show = &Phase{epoch: time.Now(), At: p.stage.at, Name: p.Name, Row: p.w.Name, Measured: !p.Unmeasured, Duration: p.duration()}
	if p.Name != mainPhase {
		p.show.Row += "/" + p.Name
	}
	count := clientsOf(p.Phase)
	if p.show.Duration == 0 && count > 0 {
		p.show.Ops = p.Ops.At(p.stage.at.Size)
	}
	p.alone = count <= 1
	var probes []*client
	for i := range p.Roles {
		role := &p.Roles[i]
		isProbe := role.Every != (spec.Count{})
		live := newLive(role.Name, isProbe, role.Clients)
		p.show.Lives = append(p.show.Lives, live)
		for nth := range role.Clients {
			c := newClient(p, role, nth, live.clients[nth])
			if isProbe {
				probes = append(probes, c)
				continue
			}
			c.index = len(p.clients)
			p.clients = append(p.clients, c)
		}
		for _, k := range role.Mix {
			p.writes = p.writes || k.Kind.Writes()
		}
	}
	for i, c := range p.clients {
		c.quota = p.show.Ops / count
		if i < p.show.Ops%count {
			c.quota++
		}
		for part := i; part < p.parts; part += count {
			c.parts = append(c.parts, part)
		}
		if err := c.begin(uint64(i)); err != nil {
			return err
		}
	}
	for i, c := range probes {
		c.parts, c.quota = p.clients[0].parts, -1
		if err := c.begin(uint64(probeStream + i)); err != nil {
			return err
		}
		p.clients[0].probes = append(p.clients[0].probes, c)
	}
	return nil
}

// probeStream is the number of a probe's random numbers, above those of all clients.
const probeStream = 1 << 32

// measured runs the clients and returns the figures of all.
func (p *phase) measured() (f result.Figures, err error) {
	runtime.GC()
	before, err := p.sys.Usage()
	if err != nil {
		return f, err
	}
	cpu, began := cpuNow(), time.Now()
	p.began = began
	p.show.began.Store(max(1, int64(began.Sub(p.show.epoch))))
	var end time.Time
	var took time.Duration
	busy := func() error {
		if err := p.act(); err != nil {
			return err
		}
		if p.Compact {
			if err := p.stage.compact(); err != nil {
				return err
			}
		}
		end = time.Now()
		if p.Settle {
			if end, err = p.sys.Settle(p.stage.ctx); err != nil {
				return err
			}
		}
		took, cpu = end.Sub(began)-p.away, cpuNow()-cpu-p.awayCPU
		if p.Rest { // what it does then is in the bytes, waiting for it is not in the time
			return p.sys.RestFully(p.stage.ctx)
		}
		return nil
	}
	most := uint64(0)
	if p.Unmeasured || !p.removes() {
		err = busy()
	} else {
		most, err = watched(p.sys.Dir(), busy)
	}
	if err != nil || p.Unmeasured {
		return f, err
	}
	after, err := p.sys.Usage()
	if err != nil {
		return f, err
	}
	p.figures(&f, took, cpu)
	p.wrote(&f, before, after, most)
	f.HeapBytes = new(probe.HeapBytes())
	return f, nil
}

// removes reports whether bytes may come and go in the phase.
func (p *phase) removes() bool {
	for _, role := range p.Roles {
		for _, k := range role.Mix {
			if k.Kind.Removes() {
				return true
			}
		}
	}
	return p.Compact
}

// act lets all clients act until they have ended.
func (p *phase) act() error {
	if p.show.Duration > 0 {
		p.until = p.began.Add(p.show.Duration)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(p.clients))
	for i, c := range p.clients {
		wg.Go(func() {
			if errs[i] = c.run(); errs[i] != nil {
				p.cancel() // the others need not go on
			}
		})
	}
	wg.Wait()
	if err := p.stage.ctx.Err(); err != nil {
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

// figures fills in the figures of speed of all roles but probes.
func (p *phase) figures(f *result.Figures, took, cpu time.Duration) {
	var all Counts
	h := result.NewHistogram()
	for _, l := range p.show.Lives {
		if !l.Probe {
			all.add(l.Counts())
			h.Merge(l.all())
		}
	}
	if len(p.Roles) == 0 {
		if !p.Compact {
			return
		}
		all.Ops = 1
		_ = h.RecordValue(int64(min(took, result.LatencyMax))) // it is in range
	}
	f.Ops, f.OpsPerSecond = all.Ops, float64(all.Ops)/max(took, 1).Seconds()
	if _, known := probe.CPUTime(); known && all.Ops > 0 {
		f.CPUMicros = new(result.Micros(cpu) / float64(all.Ops))
	}
	f.Latencies(h)
	if p.Beside != "" && p.speeds[p.Beside] > 0 {
		f.Kept = new(f.OpsPerSecond / p.speeds[p.Beside])
	}
	p.speeds[p.Name] = f.OpsPerSecond
}

// wrote fills in the figures of the store.
func (p *phase) wrote(f *result.Figures, before, after system.Usage, most uint64) {
	f.BytesOnDisk = new(after.Tables)
	if after.Counted {
		f.KeysLive, f.KeysDead = new(after.Live), new(after.Keys-min(after.Keys, after.Live))
	}
	if most > 0 {
		f.BytesPeak = new(max(most, after.Tables))
	}
	if len(p.Roles) == 0 && !p.Compact {
		return
	}
	d := after.Since(before)
	written := d.WAL + d.Flush + d.Compact + d.Rewrite
	f.BytesWritten, f.BytesWAL, f.BytesFlush, f.BytesCompact = new(written), new(d.WAL), new(d.Flush), new(d.Compact)
	f.BytesRewrite, f.BytesRead = new(d.Rewrite), new(d.Read)
	if after.Counted {
		f.Stalls, f.KeysTabled = new(d.Stalls), new(d.KeysTabled)
	}
	if user := p.userBytes(); p.writes && user > 0 {
		f.WriteAmp = new(float64(written) / float64(user))
	}
}

func (p *phase) userBytes() (n uint64) {
	for _, l := range p.show.Lives {
		n += l.Counts().Bytes
	}
	return n
}

// rows adds the rows of the phase to those of the run, and returns those of this round.
func (p *phase) rows(f result.Figures) (rows []result.Row, err error) {
	if p.Unmeasured {
		return nil, nil
	}
	row := result.Row{Workload: p.show.Row, Elements: p.stage.at.Size, StreamHash: p.hashNow()}
	row.System, row.Record, row.Strategy = p.sys.Label()
	if err := p.sameOps(&row); err != nil {
		return nil, err
	}
	all := result.NewHistogram()
	for _, l := range p.show.Lives {
		if !l.Probe {
			all.Merge(l.all())
		}
	}
	add := func(row result.Row, f result.Figures, h *hdrhistogram.Histogram) {
		p.runner.rows.Add(row, f, h)
		row.Figures, row.Rounds = f, []result.Figures{f}
		rows = append(rows, row)
	}
	add(row, f, all)
	for _, l := range p.show.Lives {
		if l.Role == "" {
			continue
		}
		part := row
		part.Workload += "/" + l.Role
		h, n := l.all(), l.Counts().Ops
		g := result.Figures{Ops: n, BytesOnDisk: f.BytesOnDisk}
		switch {
		case l.Probe:
			g.OpsPerSecond = float64(n) / max(p.away, 1).Seconds()
			if len(p.clients[0].probes) > 1 { // it had only some of that time
				g.OpsPerSecond = float64(n) / max(time.Duration(h.Mean()*float64(h.TotalCount())), 1).Seconds()
			}
		case f.Ops > 0:
			g.OpsPerSecond = f.OpsPerSecond * float64(n) / float64(f.Ops)
		}
		g.Latencies(h)
		add(part, g, h)
	}
	return rows, nil
}

// watchInterval is how often watched looks.
const watchInterval = 10 * time.Millisecond

// watched returns the most bytes that tables took in a folder while f ran, those on their way in or out, too.
func watched(dir string, f func() error) (most uint64, err error) {
	stop, top := make(chan struct{}), make(chan uint64)
	go func() {
		t := time.NewTicker(watchInterval)
		defer t.Stop()
		most := probe.TableFiles(dir)
		for {
			select {
			case <-t.C:
				most = max(most, probe.TableFiles(dir))
			case <-stop:
				top <- max(most, probe.TableFiles(dir))
				return
			}
		}
	}()
	err = f()
	close(stop)
	return <-top, err
}

func cpuNow() time.Duration {
	cpu, _ := probe.CPUTime()
	return cpu
}
