package lab

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/load"
	"bigset/bench/result"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/sample/enginesource"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// watcher samples the stores that a runner has open: it is the runner's Observer. Its methods are called one at a time.
type watcher struct {
	run.Nobody
	ctx     context.Context
	w       *spec.Workload
	watch   func(*sample.Tick)
	every   time.Duration
	sizes   int    // that take the place of those of the file; 0 is none
	at      run.At // of the stores that are sampled
	sampler *sample.Sampler
	store   *enginesource.Source
	clients []*clients

	kept []kept
	data uint64
}

// kept is the series of a system at a size, that of the last round.
type kept struct {
	name   string
	series *sample.Series
}

func newWatcher(ctx context.Context, w *spec.Workload, o Options) *watcher {
	return &watcher{ctx: ctx, w: w, watch: o.Watch, every: o.Every, sizes: len(o.Run.Sizes)}
}

// name is what a series is called: the workload, the system and, if there are several, the size.
func (w *watcher) name(at run.At) string {
	words := []string{at.Workload, at.System, at.Strategy}
	if w.sizes > 1 || w.sizes == 0 && (len(w.w.Small) > 1 || len(w.w.Full) > 1) {
		words = append(words, fmt.Sprint(at.Size))
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// Opened implements run.Observer.
func (w *watcher) Opened(at run.At, sys system.System) {
	fresh := w.sampler == nil || at != w.at
	if fresh {
		w.stop()
		w.at, w.store = at, enginesource.New()
	}
	switch s := sys.(type) {
	case *system.Bigset:
		_ = w.store.Engine(w.ctx, s.Store()) // a store that can't be read has no figures
	case *system.Raw:
		w.store.Pebble(s.DB())
	case *system.Blob:
		w.store.Pebble(s.DB())
	}
	if fresh { // counters count from the first look at the store
		w.start(sys.Dir())
	}
}

// Closing implements run.Observer.
func (w *watcher) Closing(sys system.System) {
	if u, err := sys.Usage(); err == nil {
		w.data = max(w.data, u.Tables)
	}
	w.store.Detach()
}

func (w *watcher) start(dir string) {
	w.clients = nil
	var names []string
	for _, p := range w.w.Phases {
		for _, r := range p.Roles {
			if !contains(w.clients, r.Name) {
				w.clients, names = append(w.clients, &clients{group: r.Name, tick: result.NewHistogram()}), append(names, r.Name)
			}
		}
	}
	sources := []sample.Source{}
	for _, c := range w.clients {
		sources = append(sources, c)
	}
	w.sampler = sample.Start(sample.Options{Name: w.name(w.at), Every: w.every, Ratios: sample.Amplification(names...), Watch: w.watch,
		Sources: append(sources, w.store, sample.NewProcess(), sample.NewMachine(), sample.NewDisk(dir))})
}

func contains(list []*clients, group string) bool {
	for _, c := range list {
		if c.group == group {
			return true
		}
	}
	return false
}

// stop ends the series that goes on, and keeps it in the place of that of an earlier round.
func (w *watcher) stop() {
	if w.sampler == nil {
		return
	}
	s := w.sampler.Stop()
	w.sampler = nil
	for i := range w.kept {
		if w.kept[i].name == s.Name {
			w.kept[i].series = s
			return
		}
	}
	w.kept = append(w.kept, kept{s.Name, s})
}

// end returns the series of all that was watched, and the most bytes of tables that a store had.
func (w *watcher) end() (list []*sample.Series, data uint64) {
	w.stop()
	for _, k := range w.kept {
		list = append(list, k.series)
	}
	return list, w.data
}

// PhaseBegan implements run.Observer.
func (w *watcher) PhaseBegan(p *run.Phase) {
	for _, c := range w.clients {
		c.follow(p.Lives)
	}
	w.sampler.Phase(p.Name, p.Progress)
}

// clients is a sample.Source: what the clients of all roles of a name do, in one phase after the other.
type clients struct {
	group string

	mu     sync.Mutex // guards what follows
	live   []*load.Live
	before load.Counts // of the phases that have ended
	tick   *hdrhistogram.Histogram
}

// follow goes on with the clients of a phase.
func (c *clients) follow(lives []*load.Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.live = c.counts(), nil
	for _, l := range lives {
		if l.Role == c.group {
			c.live = append(c.live, l)
		}
	}
}

func (c *clients) counts() load.Counts {
	sum := c.before
	for _, l := range c.live {
		n := l.Counts()
		sum.Ops, sum.Calls, sum.Bytes = sum.Ops+n.Ops, sum.Calls+n.Calls, sum.Bytes+n.Bytes
	}
	return sum
}

// Name implements sample.Source.
func (c *clients) Name() string { return strings.TrimSpace("clients " + c.group) }

// Columns implements sample.Source.
func (c *clients) Columns() []sample.Column { return sample.ClientColumns(c.group) }

// Read implements sample.Source.
func (c *clients) Read(values []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick.Reset()
	for _, l := range c.live {
		l.Take(c.tick)
	}
	n := c.counts()
	sample.ClientValues(values, n.Ops, n.Bytes, 0, c.tick)
}
