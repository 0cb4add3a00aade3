package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"bigset/bench"
	"bigset/bench/result"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/compaction"
)

// Options say how workloads are run, and what observes them.
type Options struct {
	Run run.Options // its Observer, Progress, Unfinished and Keep are the lab's own
	// Out is a file for the report as JSON while it grows. Rounds that it contains already, from a run with the same options, are not run
	// again. "" means none.
	Out string
	// OtherBuild accepts an Out of another build of the program; otherwise it is refused.
	OtherBuild bool
	// Every is how often the stores are sampled; 0 means a second, a negative value never: then there are no series, and Watch is not called.
	Every time.Duration
	// Watch is called with each sample, by a goroutine of its own; nil means no calls.
	Watch func(*sample.Tick)
	// Progress receives a line when something begins; nil means none are written.
	Progress func(string)
}

// Result is the result of a run.
type Result struct {
	bench.Report
	Verdicts []Verdict        `json:"verdicts"`
	Series   []*sample.Series `json:"series"` // of the last round of each system and strategy, in the order of the runs

	Interrupted bool `json:"interrupted,omitempty"`

	workloads []*spec.Workload
	strategy  string
}

// Verdict is the result of an assertion of a workload.
type Verdict struct {
	Workload string    `json:"workload"`
	That     string    `json:"that"`
	Means    string    `json:"means,omitempty"`
	Why      string    `json:"why,omitempty"` // the file's explanation for a miss
	State    run.State `json:"state"`
	Elements int       `json:"elements,omitempty"`
	Value    float64   `json:"value"`
	Low      float64   `json:"low"`
	High     float64   `json:"high"`
	Limit    float64   `json:"limit"`
	AtMost   bool      `json:"at_most"`

	unit string
}

// Unclear reports whether the rounds straddle the limit: some met it and others did not.
func (v Verdict) Unclear() bool {
	if v.AtMost {
		return v.State != run.NoFigure && v.Low <= v.Limit && v.Limit < v.High
	}
	return v.State != run.NoFigure && v.Low < v.Limit && v.Limit <= v.High
}

// Missed returns the assertions that failed by more than noise, each as its workload and text.
func (r *Result) Missed() (list []string) {
	for _, v := range r.Verdicts {
		if v.State == run.Missed && !v.Unclear() {
			list = append(list, v.Workload+": "+v.That)
		}
	}
	return list
}

// Run runs workloads one after another. If it ends early, because ctx is done or something failed, it returns the error and what was
// finished; the Result is nil only if nothing could begin.
func Run(ctx context.Context, workloads []*spec.Workload, o Options) (*Result, error) {
	if usual := compaction.Default().Name(); o.Run.Strategy == "" && len(o.Run.Strategies) > 0 && !slices.Contains(o.Run.Strategies, usual) {
		o.Run.Strategy = o.Run.Strategies[0] // assertions are about this strategy
	}
	for _, w := range workloads { // before the first one takes its time
		if err := run.Check(w, o.Run); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	r := &Result{workloads: workloads, strategy: o.Run.Strategy}
	if err := r.begin(workloads, o); err != nil {
		return nil, err
	}
	for _, w := range workloads {
		begun, complete, err := r.Begun(w.Name, o.Run.Rounds, o.Run.Full)
		if complete {
			continue
		}
		if err == nil {
			err = r.one(ctx, w, o, begun)
		}
		if err != nil {
			r.Interrupted = ctx.Err() != nil
			return r, err
		}
	}
	return r, nil
}

// begin makes an empty report, or continues that of the run's file.
func (r *Result) begin(workloads []*spec.Workload, o Options) error {
	c := bench.Config{Rounds: o.Run.Rounds, Sync: o.Run.Sync, Strategy: o.Run.Strategy, Seed: o.Run.Seed, Full: o.Run.Full,
		MemTableBytes: o.Run.MemTableBytes, CacheBytes: o.Run.CacheBytes, Out: o.Out, OtherBuild: o.OtherBuild,
		Sizes: o.Run.Sizes, Strategies: o.Run.Strategies, Duration: o.Run.Duration, Files: map[string]string{}}
	for _, s := range o.Run.Systems {
		c.Systems = append(c.Systems, string(s))
	}
	for _, s := range o.Run.Extra {
		c.Extra = append(c.Extra, s.Name())
	}
	for _, w := range workloads {
		if c.Files[w.Name] != "" {
			return fmt.Errorf("%w: two workloads are named %s: their rows could not be distinguished", run.ErrOptions, w.Name)
		}
		c.Workloads = append(c.Workloads, w.Name)
		c.Files[w.Name] = hash(w.Source)
	}
	report, err := bench.StartReport(c)
	if err != nil {
		return err
	}
	r.Report = *report
	if r.Report.Series != nil {
		if err := json.Unmarshal(r.Report.Series, &r.Series); err != nil {
			return fmt.Errorf("lab: series of %s: %w", o.Out, err)
		}
	}
	for _, w := range workloads {
		r.judge(w)
	}
	return nil
}

// hash returns a hash of a text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// one runs a workload, after the rounds that an earlier run has finished, and adds its rows.
func (r *Result) one(ctx context.Context, w *spec.Workload, o Options, begun *result.Unfinished) error {
	watch := newWatcher(ctx, w, o)
	opt := o.Run
	opt.Observer, opt.Progress, opt.Unfinished = watch, o.Progress, begun
	if o.Every < 0 {
		opt.Observer = run.Nobody{}
	}
	opt.Keep = func(u *result.Unfinished) error {
		err := r.keepSeries(watch, o)
		if o.Out == "" {
			return err
		}
		return errors.Join(err, r.KeepRounds(u, o.Out))
	}
	rows, err := run.Run(ctx, w, opt)
	if e := r.keepSeries(watch, o); err == nil {
		err = e
	}
	if err != nil {
		r.Put(rows)
		r.NoteBuild()
		r.judge(w)
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	if err := r.Take(rows, o.Out); err != nil {
		return err
	}
	r.judge(w)
	return nil
}

// keepSeries stores the series of a round that has ended in place of those of an earlier round, also in the run's file.
func (r *Result) keepSeries(watch *watcher, o Options) (err error) {
	for _, s := range watch.take() {
		if i := slices.IndexFunc(r.Series, func(had *sample.Series) bool { return had.Name == s.Name }); i >= 0 {
			r.Series[i] = s
		} else {
			r.Series = append(r.Series, s)
		}
	}
	if o.Out != "" {
		r.Report.Series, err = json.Marshal(r.Series)
	}
	return err
}

// judge judges the assertions of a workload, if it has rows, in place of earlier verdicts about it.
func (r *Result) judge(w *spec.Workload) {
	if !r.Has(w.Name) {
		return
	}
	of := func(v Verdict) bool { return v.Workload == w.Name }
	at := slices.IndexFunc(r.Verdicts, of)
	if at < 0 {
		at = len(r.Verdicts)
	}
	var verdicts []Verdict
	for _, v := range run.Judge(w, r.Results, r.strategy) {
		verdicts = append(verdicts, Verdict{Workload: w.Name, That: v.Text, Means: v.Means, Why: v.Why, State: v.State, Elements: v.Elements,
			Value: v.Value, Low: v.Low, High: v.High, Limit: v.Limit, AtMost: v.AtMost, unit: v.Unit()})
	}
	r.Verdicts = slices.Insert(slices.DeleteFunc(r.Verdicts, of), at, verdicts...)
}

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
