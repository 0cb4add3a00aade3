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
