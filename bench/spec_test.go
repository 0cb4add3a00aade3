package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	ready "bigset/bench/spec/workloads"
	"bigset/bench/system"
	"bigset/bench/system/all"
	"bigset/compaction"
	"bigset/engine"
	"bigset/engine/pebbletool"
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
	var known parser.Known
	for _, s := range compaction.Strategies() {
		of := parser.Strategy{Name: s.Name()}
		for _, r := range []compaction.Record{compaction.Merge, compaction.Set} {
			if s.WorksOn(r) == nil {
				of.Records = append(of.Records, r.String())
			}
		}
		known.Strategies = append(known.Strategies, of)
	}
	for _, w := range ready.Ready() {
		file := w.Name + ".yaml"
		text, err := fs.ReadFile(ready.Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(file, text, known); err != nil {
			t.Error(err)
		}
	}
}

// Pebble opens with the least and the greatest value of each option that a file may set, and with all of them together. The defaults that
// options are checked against are the engine's.
func TestSpecOptions(t *testing.T) {
	least, most := map[string]int64{}, map[string]int64{}
	for _, o := range spec.Options() {
		least[o.Name], most[o.Name] = o.Least, o.Most
	}
	sets := []map[string]int64{least, most}
	for _, o := range spec.Options() {
		for _, v := range []int64{o.Least, o.Most} {
			text := fmt.Sprintf("name: x\nabout: y\nsize: 1\nstore: {pebble: {%s: %d}}\nphases: [{name: main, ops: 1, mix: {add: 1}}]\n", o.Name, v)
			if _, err := parser.Parse("x.yaml", []byte(text), parser.Known{}); err == nil { // it is refused where it needs another option
				sets = append(sets, map[string]int64{o.Name: v})
			} else if !strings.HasPrefix(o.Name, "l0-") {
				t.Error(err)
			}
		}
	}
	for _, o := range sets {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{system.NamePebble, system.NameBigset} {
				sys, err := all.Open(t.Context(), name, "default", t.TempDir(), system.Options{MemTableBytes: 1 << 20, Record: compaction.Merge, Pebble: o})
				if err != nil {
					t.Fatal(err)
				}
				b := system.NewBatch(100)
				for i := range 100 {
					b.Add(system.Elements{}, i, 0)
				}
				inserted := sys.Set(system.SetName).Insert(b.List, b.Dots)
				_, flushed := sys.Settle(t.Context())
				if err := errors.Join(inserted, flushed, sys.Verify(system.SetName, 100), sys.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	const text = "name: x\nabout: y\nsize: 1\nstore: {pebble: {%s: %d}}\nphases: [{name: main, ops: 1, mix: {add: 1}}]\n"
	for option, limit := range map[string]int{"l0-compaction-threshold": po.L0StopWritesThreshold, "l0-stop-writes-threshold": po.L0CompactionThreshold} {
		for _, v := range []int{limit - 1, limit, limit + 1} {
			_, err := parser.Parse("x.yaml", fmt.Appendf(nil, text, option, v), parser.Known{})
			if want := v == limit || (v < limit) == (option == "l0-compaction-threshold"); (err == nil) != want {
				t.Errorf("%s of %d: got %v", option, v, err)
			}
		}
	}
}

// Each goal of the default run has the reason for which it may be missed, on this machine or on another.
func TestGoalsHaveReasons(t *testing.T) {
	chosen, err := Config{}.chosen()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, w := range chosen {
		for _, a := range w.assertions() {
			if !a.Shown {
				checked++
			}
			if !a.Shown && a.Why == "" {
				t.Errorf("%s: the goal %q has no why", w.Name, a.Text)
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d goals", checked)
	}
}
