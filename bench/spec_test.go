package bench

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bigset/bench/spec"
	"bigset/compaction"
)

// The figures that an assertion may name are those that rows have, and some that are computed.
func TestSpecFigures(t *testing.T) {
	var rows, files []string
	for f := range reflect.TypeFor[Figures]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		rows = append(rows, name)
	}
	for _, f := range spec.Figures() {
		if !f.Derived {
			files = append(files, f.Name)
		}
	}
	slices.Sort(rows)
	slices.Sort(files)
	if !slices.Equal(rows, files) {
		t.Errorf("rows have %v, files may name %v", rows, files)
	}
}

// The ready files name only strategies of the engine, on records that those work on.
func TestSpecStrategies(t *testing.T) {
	var known spec.Known
	for _, s := range compaction.Strategies() {
		of := spec.Strategy{Name: s.Name()}
		for _, r := range []compaction.Record{compaction.Merge, compaction.Set} {
			if s.WorksOn(r) == nil {
				of.Records = append(of.Records, r.String())
			}
		}
		known.Strategies = append(known.Strategies, of)
	}
	for _, w := range spec.Ready() {
		file := w.Name + ".yaml"
		text, err := fs.ReadFile(spec.Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spec.Parse(file, text, known); err != nil {
			t.Error(err)
		}
	}
}

// A ready file that stands for a workload has its line, its sizes, and as many goals, less those that a file can't say.
func TestSpecWorkloads(t *testing.T) {
	fewer := map[string]int{ // goals of what a file does not measure
		"contexts":   7, // contexts-open has those of the open form; elements of other replicas can't be said
		"small-sets": 2, // the heap of sets
	}
	sizes := map[string]bool{"insert-observed": true, "read": true, "cardinality": true} // with a small size before
	same := 0
	for _, w := range spec.Ready() {
		old := workloadNamed(w.Name)
		if old == nil {
			continue
		}
		same++
		small, full := w.Small[len(w.Small)-1], w.Full[len(w.Full)-1]
		if small != old.small || full != old.full || len(w.Small) > 1 != sizes[w.Name] {
			t.Errorf("%s: sizes %v and %v, want %d and %d", w.Name, w.Small, w.Full, old.small, old.full)
		}
		if want := len(goals(w.Name, "default")) - fewer[w.Name]; len(w.Assertions) != want {
			t.Errorf("%s: %d assertions, want %d", w.Name, len(w.Assertions), want)
		}
	}
	if same != 18 {
		t.Errorf("%d ready files stand for workloads, want 18", same)
	}
}
