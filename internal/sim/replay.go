package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"bigset/convergence"
)

// Failure is a violation, and how to reproduce it.
type Failure struct {
	Violation *convergence.Violation
	Seed      uint64 // of the script
	Script    string // shrunk, with what each step did: what Replay reads
	text      string
}

// String prints the failure for people, with the script.
func (f *Failure) String() string { return f.text }

// Replayed is the result of running a script again.
type Replayed struct {
	Violation    *convergence.Violation // of the last run that failed; nil is none
	Script       string                 // with what each step did then, or in the last run
	Runs, Failed int
}

// replays is how often a script is run again: a script with engines does not fail each time.
const replays = 10

// Replay runs the schedule of a file that holds a violation, ten times. If it can't read the file, its error wraps
// convergence.ErrScript.
func Replay(in io.Reader) (_ *Replayed, err error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(string(text), scriptHead) {
		return replayCluster(text)
	}
	s, err := convergence.ReadScript(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	sys := Rules()
	if s.System != sys.Name {
		var done func() error
		sys, done = Engines()
		defer func() { err = errors.Join(err, done()) }()
	}
	return replay(func() (*convergence.Violation, fmt.Stringer, error) {
		return convergence.Replay(sys, bytes.NewReader(text))
	})
}

// replay runs a script replays times.
func replay(run func() (*convergence.Violation, fmt.Stringer, error)) (*Replayed, error) {
	r := &Replayed{}
	for r.Runs < replays {
		v, s, err := run()
		if err != nil {
			return nil, err
		}
		if r.Runs++; v != nil {
			r.Failed++
			r.Violation = v
		}
		if v != nil || r.Failed == 0 {
			r.Script = s.String()
		}
	}
	return r, nil
}

func replayCluster(text []byte) (*Replayed, error) {
	s, err := readScript(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return replay(func() (*convergence.Violation, fmt.Stringer, error) {
		again := s.filter(all)
		v, err := runAlone(again)
		return v, again, err
	})
}

func all(int, *step) bool { return true }

// explainCluster runs a failing schedule of a cluster again, and shrinks it in at most runs runs; 0 is shrinkRuns.
func explainCluster(ctx context.Context, s *script, v *convergence.Violation, runs int) (*Failure, error) {
	h := &shrinker{ctx: ctx, best: s, v: v, runs: cmp.Or(runs, shrinkRuns), run: runAlone}
	_, failed, err := h.again(s, replays)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s\nthe schedule of %d steps failed in %d of %d more runs", v, len(s.steps), failed, replays)
	if failed > 0 {
		h.seeds = shrinkSeeds
		if err := h.shrink(); err != nil {
			return nil, err
		}
		if v, failed, err = h.again(h.best, replays); err != nil {
			return nil, err
		}
		text = fmt.Sprintf("%s\n%s\nshrunk to %d steps, which failed in %d of %d runs", h.v, text, len(h.best.steps), failed, replays)
	}
	if v == nil {
		v = h.v
	}
	return &Failure{Violation: v, Seed: h.best.seed, Script: h.best.String(), text: text + "\n\n" + h.best.String()}, nil
}
