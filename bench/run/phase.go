package run

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/load"
	"bigset/bench/probe"
	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// phase is a phase that runs on a stage.
type phase struct {
	*stage
	*spec.Phase
	show    *Phase
	clients *load.Clients
}

// phase runs a phase.
func (s *stage) phase(nth int, spec *spec.Phase) error {
	p := &phase{stage: s, Phase: spec}
	if err := p.prepare(nth); err != nil {
		return err
	}
	s.o.Observer.PhaseBegan(p.show)
	f, err := p.measured()
	if err != nil {
		return err
	}
	if len(p.Roles) > 0 {
		_ = p.clients.Note(s.stream) // a hash accepts everything
		s.timed = s.timed || p.show.Duration > 0
	}
	rows, err := p.rows(f)
	if err != nil {
		return err
	}
	s.o.Observer.PhaseEnded(p.show, rows)
	return nil
}

// mainPhase is the phase whose rows have the workload's name only.
const mainPhase = "main"

// duration returns how long the phase runs, or 0 if it ends by operations.
func (p *phase) duration() time.Duration {
	switch {
	case p.Phase.Duration == 0:
		return 0
	case p.o.Duration > 0:
		return p.o.Duration
	}
	return p.Lasts(p.o.Full)
}

// prepare makes the clients.
func (p *phase) prepare(nth int) (err error) {
	p.show = &Phase{epoch: time.Now(), At: p.stage.at, Name: p.Name, Row: p.w.Name, Measured: !p.Unmeasured, Duration: p.duration()}
	if p.Name != mainPhase {
		p.show.Row += "/" + p.Name
	}
	if p.show.Duration == 0 && len(p.Roles) > 0 {
		p.show.Ops = p.Ops.At(p.stage.at.Size)
	}
	if p.clients, err = load.NewClients(p.model, p.sys, p.groups, nth, p.show.Ops); err != nil {
		return err
	}
	p.show.Roles = p.clients.Roles()
	return nil
}

// measured runs the clients and returns the figures of all.
func (p *phase) measured() (f result.Figures, err error) {
	runtime.GC()
	before, open, err := p.prior()
	if err != nil {
		return f, err
	}
	cpu, began := cpuNow(), time.Now()
	p.show.began.Store(max(1, int64(began.Sub(p.show.epoch))))
	var end time.Time
	var took time.Duration
	busy := func() error {
		if err := p.clients.Run(p.ctx, began, p.show.Duration); err != nil {
			return err
		}
		if open != nil {
			if err := open(); err != nil {
				return err
			}
		}
		if p.Compact {
			p.stepBegan(doing(spec.StepCompact))
			if err := p.compact(); err != nil {
				return err
			}
		}
		if p.SpaceBack > 0 {
			p.stepBegan("waiting for space")
			if err := p.spaceBack(before.Tables); err != nil {
				return err
			}
		}
		end = time.Now()
		if p.Settle {
			p.stepBegan(doing(spec.StepSettle))
			if end, err = p.sys.Settle(p.ctx); err != nil {
				return err
			}
		}
		away, awayCPU := p.clients.Away()
		took, cpu = end.Sub(began)-away, cpuNow()-cpu-awayCPU
		if p.Rest { // the bytes of this work count, but not the time to wait for it
			p.stepBegan("resting")
			return p.sys.RestFully(p.ctx)
		}
		return nil
	}
	most := uint64(0)
	if p.Unmeasured || !p.removes() {
		err = busy()
	} else {
		most, err = watched(p.sys.Dir(), busy)
	}
	if err = errors.Join(err, p.clients.Clean()); err != nil || p.Unmeasured {
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

// stepBegan reports to the observer what the phase does other than its operations.
func (p *phase) stepBegan(step string) { p.o.Observer.StepBegan(p.Name + ": " + step) }

// prior returns what the store has written before the phase and, if the phase is to open the store, the function that does it.
func (p *phase) prior() (before system.Usage, open func() error, err error) {
	if p.Reopen != "" { // the counters of a store start when it is opened
		p.stepBegan(doing(p.Reopen))
		open, err = p.shut(p.Reopen, p.strategy)
		return before, open, err
	}
	before, err = p.sys.Usage()
	return before, nil, err
}

const (
	spaceMin  = 16 << 10 // bytes of tables without elements
	spaceWait = 2 * time.Minute
)

// spaceBack waits until the share of the table bytes that the phase wants is free again. Systems that free nothing by themselves are asked
// to.
func (p *phase) spaceBack(before uint64) error {
	if p.system != spec.Bigset {
		if err := p.compact(); err != nil {
			return err
		}
	}
	most := max(spaceMin, uint64(float64(before)*(1-p.SpaceBack)))
	for began := time.Now(); ; {
		u, err := p.sys.Usage()
		switch {
		case err != nil:
			return err
		case u.Tables <= most:
			return nil
		case time.Since(began) > spaceWait:
			return fmt.Errorf("%w: tables still take %d bytes of %d after %v: space-back %.4g%%", ErrWrong, u.Tables, before, spaceWait, 100*p.SpaceBack)
		}
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case <-time.After(system.RestPoll):
		}
	}
}

// single reports whether the phase does one thing without clients.
func (p *phase) single() bool { return len(p.Roles) == 0 && (p.Compact || p.Reopen != "") }

// removes reports whether the phase may add and remove bytes.
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

// figures sets the figures of speed of all roles except probes.
func (p *phase) figures(f *result.Figures, took, cpu time.Duration) {
	total, h := uint64(0), result.NewHistogram()
	for _, role := range p.show.Roles {
		if !role.Probe {
			ops, _ := role.Ops()
			total += ops
			h.Merge(role.Total())
		}
	}
	if len(p.Roles) == 0 {
		if !p.single() {
			return
		}
		total = 1
		_ = h.RecordValue(int64(min(took, result.LatencyMax))) // in range
	}
	f.Ops, f.OpsPerSecond = total, float64(total)/max(took, 1).Seconds()
	if _, known := probe.CPUTime(); known && total > 0 {
		f.CPUMicros = new(result.Micros(cpu) / float64(total))
	}
	f.Latencies(h)
	if p.show.Duration > 0 && slices.ContainsFunc(p.Roles, func(r spec.Role) bool { return r.Rate > 0 }) {
		f.Late = new(p.clients.Late())
	}
	if p.Beside != "" && p.speeds[p.Beside] > 0 {
		f.Kept = new(f.OpsPerSecond / p.speeds[p.Beside])
	}
	p.speeds[p.Name] = f.OpsPerSecond
}

// wrote sets the figures of the store.
func (p *phase) wrote(f *result.Figures, before, after system.Usage, most uint64) {
	f.BytesOnDisk = new(after.Tables)
	if after.Counted {
		f.KeysLive, f.KeysDead = new(after.Live), new(after.Keys-min(after.Keys, after.Live))
	}
	if most > 0 {
		f.BytesPeak = new(max(most, after.Tables))
	}
	if len(p.Roles) == 0 && !p.single() {
		return
	}
	d := after.Since(before)
	written := d.WAL + d.Flush + d.Compact + d.Rewrite
	f.BytesWritten, f.BytesWAL, f.BytesFlush, f.BytesCompact = new(written), new(d.WAL), new(d.Flush), new(d.Compact)
	f.BytesRewrite, f.BytesRead = new(d.Rewrite), new(d.Read)
	if after.Counted {
		f.Stalls, f.KeysTabled = new(d.Stalls), new(d.KeysTabled)
	}
	if user := p.userBytes(); p.clients.Writes() && user > 0 {
		f.WriteAmp = new(float64(written) / float64(user))
	}
}

func (p *phase) userBytes() (n uint64) {
	for _, role := range p.show.Roles {
		_, bytes := role.Ops()
		n += bytes
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
	for _, role := range p.show.Roles {
		if !role.Probe {
			all.Merge(role.Total())
		}
	}
	add := func(row result.Row, f result.Figures, h *hdrhistogram.Histogram) {
		p.runner.rows.Add(row, f, h)
		row.Figures, row.Rounds = f, []result.Figures{f}
		rows = append(rows, row)
	}
	add(row, f, all)
	for _, role := range p.show.Roles {
		if role.Name == "" {
			continue
		}
		part := row
		part.Workload += "/" + role.Name
		h := role.Total()
		n, _ := role.Ops()
		g := result.Figures{Ops: n, BytesOnDisk: f.BytesOnDisk}
		switch {
		case role.Probe:
			away, _ := p.clients.Away()
			g.OpsPerSecond = float64(n) / max(away, 1).Seconds()
			if p.clients.Probes() > 1 { // it had only some of that time
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

// watchInterval is how often watched reads the folder.
const watchInterval = 10 * time.Millisecond

// watched returns the largest size of the tables in a folder while f ran, including tables being added or removed.
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
