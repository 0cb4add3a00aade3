package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/sample/enginesource"
	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/bench/system/blob"
)

// watcher samples the stores that a runner has open. It is the runner's Observer. Its methods are called one at a time.
type watcher struct {
	run.Nobody
	ctx     context.Context
	w       *spec.Workload
	watch   func(*sample.Tick)
	every   time.Duration
	sizes   int    // that replace those of the file; 0 means none
	at      run.At // of the sampled stores
	sampler *sample.Sampler
	store   *enginesource.Source

	series []*sample.Series // finished
}

func newWatcher(ctx context.Context, w *spec.Workload, o Options) *watcher {
	return &watcher{ctx: ctx, w: w, watch: o.Watch, every: o.Every, sizes: len(o.Run.Sizes)}
}

// name is the name of a series: the workload, the system and, if there are several, the size.
func (w *watcher) name(at run.At) string {
	words := []string{at.Workload, at.System, at.Strategy}
	if w.sizes > 1 || w.sizes == 0 && (len(w.w.Small) > 1 || len(w.w.Full) > 1) {
		words = append(words, fmt.Sprint(at.Size))
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// Opened implements run.Observer.
func (w *watcher) Opened(at run.At, sys system.System, groups []*sample.Latencies) {
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
	case *blob.System:
		w.store.Pebble(s.DB())
	}
	if fresh { // counters start at the first read of the store
		w.start(sys.Dir(), groups)
	}
}

// Closing implements run.Observer.
func (w *watcher) Closing(system.System) {
	w.store.Detach()
}

func (w *watcher) start(dir string, groups []*sample.Latencies) {
	var names []string
	var sources []sample.Source
	for _, g := range groups {
		names, sources = append(names, g.Group()), append(sources, g)
	}
	w.sampler = sample.Start(sample.Options{Name: w.name(w.at), Every: w.every, Ratios: sample.Amplification(names...), Watch: w.watch,
		Sources: append(sources, w.store, sample.NewProcess(), sample.NewMachine(), sample.NewDisk(dir))})
}

// stop ends the current series.
func (w *watcher) stop() {
	if w.sampler != nil {
		w.series, w.sampler = append(w.series, w.sampler.Stop()), nil
	}
}

// take ends the current series, and returns all series since the last call.
func (w *watcher) take() (list []*sample.Series) {
	w.stop()
	list, w.series = w.series, nil
	return list
}

// PhaseBegan implements run.Observer.
func (w *watcher) PhaseBegan(p *run.Phase) {
	w.sampler.Phase(p.Name, p.Progress)
}

// StepBegan implements run.Observer.
func (w *watcher) StepBegan(text string) {
	if w.sampler != nil {
		w.sampler.Step(text)
	}
}
