package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"bigset/compaction"
)

// Config configures Run. The zero value is the default run: the core workloads at small sizes, a minute or two in all.
type Config struct {
	// Workloads are the names of the workloads to run, in that order; nil means all. The function Workloads lists them.
	Workloads []string `json:"workloads,omitempty"`
	// Elements is the size of the sets; 0 means each workload's own.
	Elements int `json:"elements,omitempty"`
	// Rounds is how often everything is repeated; 0 means 3, with Full 5 (3 from 10 million elements on).
	Rounds int `json:"rounds,omitempty"`
	// Dir is where the temporary folder is made; "" means the system's default place, or the current folder if that place is not on a disk.
	Dir string `json:"dir,omitempty"`
	// Sync makes every write durable before the next one, unless a workload decides this itself.
	Sync bool `json:"sync,omitempty"`
	// Strategy is the strategy of the system bigset; "" means default. In workloads that compare strategies it replaces default.
	Strategy string `json:"strategy,omitempty"`
	// Seed determines elements and victims; runs with equal seeds do the same operations.
	Seed uint64 `json:"seed"`
	// Full runs the large sizes, as long as it takes.
	Full bool `json:"full,omitempty"`
	// MemTableBytes and CacheBytes are those of every store; 0 means 64 MiB. Workloads whose shape depends on how often a memtable fills
	// scale it down with their elements.
	MemTableBytes int   `json:"memtable_bytes"`
	CacheBytes    int64 `json:"cache_bytes"`
	// Files are hashes of the workload files that were run, by the workloads' names; nil means none.
	Files map[string]string `json:"files,omitempty"`
	// Sizes, Systems, Strategies and Duration replace those of the workload files unless they are empty. Extra are the names of strategies
	// that the caller added.
	Sizes      []int         `json:"sizes,omitempty"`
	Systems    []string      `json:"systems,omitempty"`
	Strategies []string      `json:"strategies,omitempty"`
	Duration   time.Duration `json:"duration_ns,omitempty"`
	Extra      []string      `json:"extra_strategies,omitempty"`
	// Out is a file for the report as JSON while it grows. Rounds that it contains already, from a run with the same Config, are not
	// measured again. A larger number of Rounds adds to them, a smaller one keeps them. "" means none.
	Out string `json:"-"`
	// OtherBuild accepts an Out of another build of this program, and notes that in the report; otherwise it is refused.
	OtherBuild bool `json:"-"`
	// Program is this program's file, which the workload program runs as another process; "" leaves its row out.
	Program string `json:"-"`
	// Progress receives lines of text about the progress; nil means none are written.
	Progress io.Writer `json:"-"`
}

// ErrConfig is returned for a Config that cannot be run.
var ErrConfig = errors.New("bench: bad configuration")

const (
	elementsMax = 1 << 30
	roundsMax   = 1000
)

func (c Config) withDefaults() Config {
	if c.Strategy == "" {
		c.Strategy = compaction.Default().Name()
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = 64 << 20
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 64 << 20
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Elements < 0 || c.Elements > elementsMax:
		return fmt.Errorf("%w: %d elements: it must be 1 to %d", ErrConfig, c.Elements, elementsMax)
	case c.Rounds < 0 || c.Rounds > roundsMax:
		return fmt.Errorf("%w: %d rounds: it must be 1 to %d", ErrConfig, c.Rounds, roundsMax)
	case c.MemTableBytes < 64<<10 || c.MemTableBytes > math.MaxInt32 || c.CacheBytes < 0:
		return fmt.Errorf("%w: a memtable of %d bytes, a cache of %d", ErrConfig, c.MemTableBytes, c.CacheBytes)
	}
	if _, err := compaction.ByName(c.Strategy); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	_, err := c.chosen()
	return err
}

// chosen returns the workloads to run.
func (c Config) chosen() ([]*workload, error) {
	if c.Full && len(c.Workloads) == 0 || slices.Equal(c.Workloads, []string{"all"}) {
		return workloads(), nil
	}
	if len(c.Workloads) == 0 {
		return slices.DeleteFunc(slices.Clone(workloads()), func(w *workload) bool { return slices.Contains(onRequest, w.Name) }), nil
	}
	var chosen []*workload
	for _, name := range c.Workloads {
		w := workloadNamed(name)
		if w == nil {
			return nil, fmt.Errorf("%w: unknown workload %q, want one of %s", ErrConfig, name, strings.Join(workloadNames(), ", "))
		}
		chosen = append(chosen, w)
	}
	return chosen, nil
}

// differs returns the option in which rows measured under c and under o differ, so that they must not be combined; "" means none. The number
// of rounds is no such option.
func (c Config) differs(o Config) string {
	for _, of := range []struct {
		what     string
		old, now any
	}{
		{"workload files", c.Files, o.Files}, {"--elements", c.Elements, o.Elements}, {"--elements", c.Sizes, o.Sizes},
		{"--full", c.Full, o.Full}, {"--seed", c.Seed, o.Seed}, {"--system", c.Systems, o.Systems}, {"--strategy", c.Strategy, o.Strategy},
		{"--strategy", c.Strategies, o.Strategies}, {"strategies of the caller", c.Extra, o.Extra}, {"--duration", c.Duration, o.Duration},
		{"--sync", c.Sync, o.Sync}, {"bytes of a memtable", c.MemTableBytes, o.MemTableBytes}, {"bytes of the cache", c.CacheBytes, o.CacheBytes},
	} {
		if old, now := said(of.old), said(of.now); old != now {
			return fmt.Sprintf("%s: %s there, %s now", of.what, old, now)
		}
	}
	return ""
}

// said writes the value of an option.
func said(v any) string {
	if r := reflect.ValueOf(v); r.IsZero() || r.Kind() == reflect.Map && r.Len() == 0 {
		return "none"
	}
	return strings.Trim(strings.TrimPrefix(fmt.Sprint(v), "map"), "[]")
}
