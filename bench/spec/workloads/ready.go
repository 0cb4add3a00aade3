// Package workloads contains the workload files that come with the program: the YAML files of this folder, parsed.
//
//	w, err := workloads.Named("churn")
//
// Begin reading at insert.yaml, which explains itself line by line; docs/workloads.md is the reference of the keys. A new file needs an
// entry in order.
//
// The files are part of the program. The results of Ready and Named belong to the caller; any goroutine may call them.
package workloads

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	"bigset/bench/spec/source"
)

//go:embed *.yaml
var files embed.FS

// order is the order in which the ready workloads are listed. A test requires all of them in it.
var order = []string{
	"insert", "insert-observed", "insert-concurrent", "insert-batch", "grow", "remove", "contains", "read", "range", "filter", "reclaim", "churn",
	"churn-young", "queue", "mixed", "contexts", "contexts-open", "small-sets", "small-sets-heap", "small-sets-bounded", "cold", "cardinality",
	"drop", "checkpoint", "recover", "clock",
	"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f",
	"words", "flat", "thousand-sets", "hour", "sawtooth", "timeline", "saturate",
}

var ready = sync.OnceValues(func() ([]*spec.Workload, error) {
	var all []*spec.Workload
	for _, name := range order {
		file := name + ".yaml"
		text, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		w, err := parser.Parse(file, text, parser.Known{})
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
})

// Ready returns the workloads that come with the program, in the order for a reader. Each call returns new ones.
func Ready() []*spec.Workload {
	all, err := ready()
	if err != nil {
		panic(err) // the files are part of the program
	}
	return clones(all)
}

// clones copies workloads deeply enough that a caller's changes are not visible to others.
func clones(all []*spec.Workload) (copies []*spec.Workload) {
	for _, w := range all {
		c := *w
		c.Small, c.Full = slices.Clone(w.Small), slices.Clone(w.Full)
		c.Systems, c.Strategies = slices.Clone(w.Systems), slices.Clone(w.Strategies)
		c.Phases, c.Assertions = slices.Clone(w.Phases), slices.Clone(w.Assertions)
		for i := range c.Phases {
			c.Phases[i].Roles = slices.Clone(c.Phases[i].Roles)
		}
		copies = append(copies, &c)
	}
	return copies
}

// Named returns a ready workload by its name, or an error that suggests a similar name.
func Named(name string) (*spec.Workload, error) {
	all := Ready()
	for _, w := range all {
		if w.Name == name {
			return w, nil
		}
	}
	return nil, fmt.Errorf("workloads: no ready workload %q%s: there are %s", source.Short(name), source.Hint(name, order), strings.Join(order, ", "))
}

// Files returns the ready files, NAME.yaml each.
func Files() fs.FS { return files }
