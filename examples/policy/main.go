// Policy measures a compaction strategy of its own beside the ready ones, and draws all of them on one page. Copy it, change lazy, and run
//
//	go run ./examples/policy -workload churn -report policy.html
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"bigset/bench/lab"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	"bigset/bench/spec/workloads"
	"bigset/compaction"
)

// lazy lets flushes and compactions drop what they meet, and wants spans rewritten only in sets at rest: so it never competes with writes.
// A strategy does not decide what is dead, so none of its answers can lose an element or bring one back. Wrong answers cost space and work.
type lazy struct{}

// Name is its name in rows, plots and -strategies.
func (lazy) Name() string { return "lazy" }

// WorksOn accepts the records that flushes and compactions ask about.
func (lazy) WorksOn(r compaction.Record) error {
	if r != compaction.Merge {
		return fmt.Errorf("%w: lazy works on merge records", compaction.ErrStrategy)
	}
	return nil
}

func (lazy) Filters() bool  { return true }  // durable tombstones go to the drop filter
func (lazy) Deletes() bool  { return false } // no point deletes
func (lazy) Rewrites() bool { return true }  // the rewriter asks Wants and Worth

// Wants asks for the rewriter if a fifth of a set at rest is dead.
func (lazy) Wants(l compaction.Load) bool {
	return l.Quiet >= compaction.QuietEnough && l.Garbage() > 4096 && float64(l.Garbage()) > 0.2*float64(l.Keys)
}

// Worth reports whether a fifth of a span is dead.
func (lazy) Worth(s compaction.Span) bool { return float64(s.Dead) > 0.2*float64(s.Keys) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name := flag.String("workload", "churn", "a ready workload, which `bigset bench list` names, or a file, such as ./mine.yaml")
	page := flag.String("report", "policy.html", "the file of the report")
	o := lab.Options{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	flag.IntVar(&o.Run.Rounds, "rounds", 3, "how often all strategies run, in turns")
	flag.Parse()
	if err := measure(ctx, os.Stdout, *name, *page, o); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

// workload returns a ready workload or, if the name has a dot, that of a file.
func workload(name string) (*spec.Workload, error) {
	if !strings.Contains(name, ".") {
		return workloads.Named(name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parser.Parse(name, text, parser.Known{})
}

// measure runs a workload with lazy and two ready strategies, prints the figures, and writes the report.
func measure(ctx context.Context, out io.Writer, name, page string, o lab.Options) (err error) {
	w, err := workload(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(page, os.O_WRONLY|os.O_CREATE, 0o644) // before the work: an unwritable page is reported at once
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	o.Run.Extra = []compaction.Strategy{lazy{}}
	o.Run.Strategies = []string{"default", "lazy", "point-deletes"}
	o.Run.Systems = []spec.System{spec.Bigset}
	r, err := lab.Run(ctx, []*spec.Workload{w}, o)
	if r == nil || len(r.Results) == 0 {
		return err
	}
	return errors.Join(err, r.WriteText(out), f.Truncate(0), r.WritePage(f))
}
