package sample

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Source is something that is sampled. Read is called by one goroutine at a time.
type Source interface {
	// Name is shown if the source is too slow.
	Name() string
	// Columns are the figures that Read returns, always the same.
	Columns() []Column
	// Read sets a value for each column. Values are NaN before; unknown ones must stay NaN.
	Read(values []float64)
}

// Ratio is a computed column: the sum of some columns divided by the sum of others. For counters, the sums are of their growth since the
// phase began. It is NaN if one of them is unknown or the divisor is 0.
type Ratio struct {
	Name   string
	Of, To []string
}

// Options say what is sampled.
type Options struct {
	Name    string        // of the series
	Every   time.Duration // 0 means a second
	Bound   int           // of the series
	Sources []Source      // no two have a column of the same name
	Ratios  []Ratio       // a ratio is left out if one of its columns does not exist
	// Watch is called with ticks, by a goroutine of its own. While it is busy, ticks are skipped: afterwards it gets the latest one. Nil
	// means no calls.
	Watch func(*Tick)
}

// Tick is the sample of one moment. The receiver may keep it, but must not change it.
type Tick struct {
	Name    string
	At      time.Duration // since the series began
	Columns []Column
	Values  []float64 // of Columns
	Skipped []Skip

	Phase    string
	Step     string  // what is done in place of the phase's operations, such as settling; "" while they run
	Done, Of float64 // of the phase; Of is 0 if its end is unknown
}

// Value returns the value of a column, NaN if there is none.
func (t *Tick) Value(name string) float64 {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return math.NaN()
	}
	return t.Values[i]
}

// Has reports whether a tick has a column, whatever its value.
func (t *Tick) Has(name string) bool {
	for _, c := range t.Columns {
		if c.Name == name {
			return true
		}
	}
	return false
}

// Sampler reads sources at ticks, each in a goroutine of its own. A source that has not answered after half a tick is skipped, and is asked
// again only after it has answered: requests don't pile up, and the ticks of the others stay in time. Any number of goroutines may call the
// methods.
type Sampler struct {
	opt    Options
	began  time.Time
	feeds  []*feed
	ratios []ratio
	watch  *watcher
	cuts   chan *cut
	quit   chan struct{}
	done   sync.WaitGroup
	ending sync.Once

	mu       sync.Mutex // guards the fields below
	series   Series
	totals   []float64 // growth of each column since the phase began
	phase    string
	step     string
	progress func() (done, of float64)
}

// feed is a source with the goroutine that reads it.
type feed struct {
	source  Source
	columns []Column
	first   int // first of its columns in the series
	ask     chan []float64
	answer  chan reading
	spare   []float64 // memory for the next reading; nil while the source is read
	skipped int

	// For each counter: the largest value so far, and the growth since a moment that the series does not contain yet. A counter that falls
	// counts as unchanged until it exceeds the largest value again.
	most, grown []float64
	since       []time.Time
}

// cut is the beginning of a phase.
type cut struct {
	phase    string
	progress func() (done, of float64)
	made     chan struct{}
}

// reading is an answer of a source.
type reading struct {
	values []float64
	at     time.Time
}

// ratio is a Ratio by the positions of its columns.
type ratio struct {
	of, to []int
	growth bool
}

// Start samples at once, and then at each tick until Stop is called.
func Start(o Options) *Sampler {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	s := &Sampler{opt: o, began: time.Now(), cuts: make(chan *cut), quit: make(chan struct{})}
	s.series.Name, s.series.Bound = o.Name, o.Bound
	for _, src := range o.Sources {
		f := newFeed(src, len(s.series.Columns))
		s.feeds, s.series.Columns = append(s.feeds, f), append(s.series.Columns, f.columns...)
		s.done.Go(f.reads)
	}
	s.addRatios()
	s.totals = make([]float64, len(s.series.Columns))
	if o.Watch != nil {
		s.watch = &watcher{watch: o.Watch, wake: make(chan struct{}, 1)}
		s.done.Go(s.watch.run)
	}
	s.tick(o.Every / 2)
	s.done.Go(s.run)
	return s
}

func newFeed(src Source, first int) *feed {
	c := src.Columns()
	f := &feed{source: src, columns: c, first: first, ask: make(chan []float64), answer: make(chan reading, 1), spare: make([]float64, len(c))}
	f.most, f.grown, f.since = make([]float64, len(c)), make([]float64, len(c)), make([]time.Time, len(c))
	return f
}

// reads reads the source on each request.
func (f *feed) reads() {
	for values := range f.ask {
		for i := range values {
			values[i] = math.NaN()
		}
		f.source.Read(values)
		f.answer <- reading{values, time.Now()}
	}
}

func (s *Sampler) addRatios() {
	for _, r := range s.opt.Ratios {
		of, ok := s.places(r.Of)
		to, found := s.places(r.To)
		if !ok || !found {
			continue
		}
		s.ratios = append(s.ratios, ratio{of, to, s.series.Columns[of[0]].Growth})
		s.series.Columns = append(s.series.Columns, Column{Name: r.Name, Unit: "1"})
	}
}

func (s *Sampler) places(names []string) (places []int, ok bool) {
	for _, name := range names {
		i := s.series.index(name)
		if i < 0 {
			return nil, false
		}
		places = append(places, i)
	}
	return places, len(places) > 0
}

// Growth per second is computed over at least one stretchShare-th of a tick. Over less time it means nothing: a flush counts when it has
// ended, as if all of it happened at that moment. The rest of a run after its last tick is sampled if it is at least that long.
const stretchShare = 4

// stretch is the least time over which growth per second is computed.
func (s *Sampler) stretch() time.Duration { return s.opt.Every / stretchShare }

func (s *Sampler) run() {
	t := time.NewTicker(s.opt.Every)
	defer t.Stop()
	last := s.began
	for {
		select {
		case <-t.C:
			last = time.Now()
			s.tick(s.opt.Every / 2)
		case c := <-s.cuts:
			last = time.Now()
			s.cut(c, s.tick(s.opt.Every/2))
			t.Reset(s.opt.Every)
		case <-s.quit:
			if last == s.began || time.Since(last) >= s.stretch() {
				s.tick(s.opt.Every / 2)
			}
			for _, f := range s.feeds {
				close(f.ask)
			}
			if s.watch != nil {
				close(s.watch.wake)
			}
			return
		}
	}
}

// tick asks all sources that are not being read, and waits for a while for their answers. It returns its time since the beginning of the
// series.
func (s *Sampler) tick(patience time.Duration) time.Duration {
	at := time.Now()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for _, f := range s.feeds {
		f.begin()
	}
	values := make([]float64, len(s.series.Columns))
	for i := range values {
		values[i] = math.NaN()
	}
	growth, late := make([]float64, len(values)), false
	for _, f := range s.feeds {
		r, ok := f.wait(deadline.C, &late)
		if !ok {
			f.skipped++
			continue
		}
		f.take(r, values[f.first:], growth[f.first:], s.stretch())
	}
	t := s.add(at.Sub(s.began), values, growth)
	if s.watch != nil {
		s.watch.show(t)
	}
	return t.At
}

// begin asks the source. It discards an answer that has arrived since the last tick, as too old.
func (f *feed) begin() {
	if f.spare == nil {
		select {
		case r := <-f.answer:
			f.spare = r.values
		default:
			return
		}
	}
	f.ask <- f.spare
	f.spare = nil
}

// wait waits for the answer until a deadline, which all feeds share.
func (f *feed) wait(deadline <-chan time.Time, late *bool) (r reading, ok bool) {
	if !*late {
		select {
		case r = <-f.answer:
			f.spare = r.values
			return r, true
		case <-deadline:
			*late = true
		}
	}
	select {
	case r = <-f.answer:
		f.spare = r.values
		return r, true
	default:
		return r, false
	}
}

// take stores the answer of a source: the values of gauges, and the growth of counters, absolute and per second. Growth per second is
// unknown until a stretch has passed: then it covers all the time since it was last known.
func (f *feed) take(r reading, values, growth []float64, stretch time.Duration) {
	for i, c := range f.columns {
		v := r.values[i]
		if !c.Growth {
			values[i] = v
			continue
		}
		if math.IsNaN(v) {
			continue
		}
		if f.since[i].IsZero() { // the count so far is not growth
			f.most[i], f.since[i] = v, r.at
			continue
		}
		growth[i] = max(0, v-f.most[i])
		f.most[i], f.grown[i] = max(f.most[i], v), f.grown[i]+growth[i]
		if passed := r.at.Sub(f.since[i]); passed > 0 && passed >= stretch {
			values[i] = f.grown[i] / passed.Seconds()
			f.grown[i], f.since[i] = 0, r.at
		}
	}
}

// add adds a tick to the series.
func (s *Sampler) add(at time.Duration, values, growth []float64) *Tick {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range growth {
		s.totals[i] += g
	}
	for i, r := range s.ratios {
		from := values
		if r.growth {
			from = s.totals
		}
		if to := sum(from, r.to); to != 0 {
			values[len(values)-len(s.ratios)+i] = sum(from, r.of) / to
		}
	}
	s.series.Add(at.Seconds(), values)
	s.series.Skipped = s.series.Skipped[:0:0]
	for _, f := range s.feeds {
		if f.skipped > 0 {
			s.series.Skipped = append(s.series.Skipped, Skip{f.source.Name(), f.skipped})
		}
	}
	t := &Tick{Name: s.series.Name, At: at, Columns: s.series.Columns, Values: values, Skipped: s.series.Skipped, Phase: s.phase, Step: s.step}
	if s.progress != nil {
		t.Done, t.Of = s.progress()
	}
	return t
}

func sum(values []float64, places []int) (total float64) {
	for _, i := range places {
		total += values[i]
	}
	return total
}

// Phase begins a phase: it samples, so that earlier values don't belong to the phase, adds a mark to the series, and restarts the ratios of
// counters. It waits for the sources as long as a tick does. progress returns how much of the phase is done, and of how much. It is called
// at ticks and must be quick. Nil means that the progress is unknown.
func (s *Sampler) Phase(name string, progress func() (done, of float64)) {
	c := &cut{name, progress, make(chan struct{})}
	select {
	case s.cuts <- c:
		<-c.made
	case <-s.quit: // no more ticks follow
	}
}

// Step sets what later ticks name as the current step, until the next phase begins. It is quick, and adds nothing to the series.
func (s *Sampler) Step(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = name
}

// cut begins a phase at the last tick.
func (s *Sampler) cut(c *cut, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.series.mark(at.Seconds(), c.phase)
	s.phase, s.step, s.progress = c.phase, "", c.progress
	clear(s.totals)
	close(c.made)
}

// Series returns a copy of the samples so far.
func (s *Sampler) Series() *Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.series.clone()
}

// Stop samples once more, unless the last sample is recent, ends the sampler, and returns the series. It waits for a read in progress: when
// it returns, no source is read any more and Watch is not called again. A second call returns the same.
func (s *Sampler) Stop() *Series {
	s.ending.Do(func() { close(s.quit) })
	s.done.Wait()
	return s.Series()
}

// watcher passes ticks to Options.Watch: always the latest one.
type watcher struct {
	watch func(*Tick)
	wake  chan struct{}

	mu   sync.Mutex
	last *Tick
}

func (w *watcher) show(t *Tick) {
	w.mu.Lock()
	w.last = t
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

func (w *watcher) run() {
	for range w.wake {
		w.mu.Lock()
		t := w.last
		w.mu.Unlock()
		w.watch(t)
	}
}
