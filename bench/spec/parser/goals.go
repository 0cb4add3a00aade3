package parser

import (
	"go.yaml.in/yaml/v4"

	"bigset/bench/spec"
)

// Goals reads a file of assertions about loads that no workload file describes: a mapping from names to lists. names are the allowed names.
// Any row and system may be named; a row that begins with / is a full name. A figure without a limit is only shown. An error is a
// *FileError.
func Goals(file string, text []byte, names []string) (map[string][]spec.Assertion, error) {
	r := &reader{}
	list := map[string][]spec.Assertion{}
	var fields []field
	for _, name := range names {
		fields = append(fields, field{Key: name, Read: func(n *yaml.Node) {
			w := &spec.Workload{Name: name}
			r.Items(n, "goals", assertionsMax, func(n *yaml.Node) {
				a := r.assertion(n)
				r.checkAssertion(w, &a, r.texts[len(r.texts)-1])
				list[name] = append(list[name], a)
			})
		}})
	}
	if root := r.Load(text); root != nil {
		r.Object(root, "goals", fields)
	}
	return list, r.Failed(file)
}
