package run

import (
	"context"
	"slices"
	"testing"
	"time"

	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/bench/spec/workloads"
	"bigset/internal/testkit/tier"
)

// small runs a workload at a small size.
func small(t *testing.T, w *spec.Workload, o Options) []result.Row {
	t.Helper()
	rows, err := tiny(t, w, o)
	if err != nil {
		t.Fatalf("%s: %v", w.Name, err)
	}
	return rows
}

func tiny(t *testing.T, w *spec.Workload, o Options) ([]result.Row, error) {
	o.Dir = t.TempDir()
	if o.Rounds == 0 {
		o.Rounds = 1
	}
	if o.Sizes == nil {
		o.Sizes = []int{2000}
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 256 << 10
	}
	return Run(context.Background(), w, o)
}

// TestReady runs the ready workloads, a sixth of them at a push: each has all its rows, on each of its systems.
func TestReady(t *testing.T) {
	share := tier.ShareOf(t, 6, 6)
	for place, w := range workloads.Ready() {
		if !share.Has(place) {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel() // figures do not matter
			for i := range w.Phases {
				w.Phases[i].Ops.Absolute = min(w.Phases[i].Ops.Absolute, 200)
			}
			for _, took := range []time.Duration{100 * time.Millisecond, 3 * time.Second} { // on a busy machine a client may do nothing in the shorter time
				rows := small(t, w, Options{Sizes: []int{600}, Duration: took})
				seen := map[string]int{}
				for _, r := range rows {
					seen[r.Workload]++
				}
				for _, name := range w.Rows() {
					if want := len(Options{}.withDefaults(w).contenders()); seen[name] != want {
						t.Errorf("row %s: %d times, want %d", name, seen[name], want)
					}
				}
				verdicts := slices.DeleteFunc(Judge(w, rows, ""), func(v Verdict) bool {
					return v.State != NoFigure || v.Of.Smallest != v.To.Smallest // there is one size
				})
				if len(verdicts) == 0 {
					break
				} else if took > time.Second {
					t.Errorf("without figures: %v", verdicts)
				}
			}
		})
	}
}
