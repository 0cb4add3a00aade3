package spec

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader reads nodes and gathers problems.
type reader struct {
	known       Known
	optionNames []string
	problems    []Problem
	top         place        // the workload, with its phases
	texts       []*yaml.Node // of the assertions

	// objects and words are what the reader asked for, by the names that the schema has for them; nil where nobody wants to know. A test
	// compares them with the schema.
	objects map[string][]string
	words   map[string][]string
}

// place is where an object stands: its node, the values of its keys, and where the objects in it stand.
type place struct {
	node *yaml.Node
	keys map[string]*yaml.Node
	in   []place // roles of a phase, phases of a workload
}

// of returns where the value of a key stands, or else the object.
func (p place) of(key string) *yaml.Node {
	if n := p.keys[key]; n != nil {
		return n
	}
	return p.node
}

func (r *reader) at(line, column int, format string, args ...any) {
	r.problems = append(r.problems, Problem{line, column, fmt.Sprintf(format, args...)})
}

func (r *reader) wrong(n *yaml.Node, format string, args ...any) {
	r.at(n.Line, n.Column, format, args...)
}

// field is a key of a mapping and what reads its value.
type field struct {
	key  string
	read func(n *yaml.Node)
}

// object reads a mapping and returns the values of the keys that it has, by key. The name is the schema's.
func (r *reader) object(n *yaml.Node, name string, fields []field) map[string]*yaml.Node {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	if r.objects != nil {
		r.objects[name] = keys
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "%s for %s: it must be a mapping with %s", kindName(n), name, list(keys))
		return nil
	}
	have := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.Index(keys, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.wrong(key, "%s for a key: %s has the keys %s", kindName(key), name, list(keys))
		case at < 0:
			r.wrong(key, "unknown key %q in %s%s: the keys are %s", short(key.Value), name, hint(key.Value, keys), list(keys))
		case have[key.Value] != nil:
			r.wrong(key, "key %q stands twice in %s: once is allowed", key.Value, name)
		default:
			have[key.Value] = value
			fields[at].read(value)
		}
	}
	return have
}

// items calls read for each item of a list of at least one and at most that many.
func (r *reader) items(n *yaml.Node, what string, most int, read func(n *yaml.Node)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.wrong(n, "%s for %s: it must be a list", kindName(n), what)
	case len(n.Content) == 0:
		r.wrong(n, "no %s: leave the key out, or name at least one", what)
	case len(n.Content) > most:
		r.wrong(n, "%d %s: the maximum is %d", len(n.Content), what, most)
	default:
		for _, c := range n.Content {
			read(c)
		}
	}
}

// text returns a scalar as it is written; what names it in problems.
func (r *reader) text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.wrong(n, "%s for %s: it must be one value", kindName(n), what)
		return "", false
	}
	return strings.TrimSpace(n.Value), true
}

// word reads one of some words. The name is the schema's.
func word[T ~string](r *reader, n *yaml.Node, name string, allowed []T) T {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	if r.words != nil {
		r.words[name] = names
	}
	s, ok := r.text(n, name)
	if ok && !slices.Contains(names, s) {
		r.wrong(n, "unknown %s %q%s: allowed are %s", name, short(s), hint(s, names), list(names))
		return ""
	}
	return T(s)
}

func (r *reader) flag(n *yaml.Node, what string) bool {
	s, ok := r.text(n, what)
	if ok && (s != "true" && s != "false" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0) {
		r.wrong(n, "%q for %s: it must be true or false", short(s), what)
	}
	return s == "true"
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return fmt.Sprintf("%q", short(n.Value))
	}
	return "something else"
}

func list(names []string) string { return strings.Join(names, ", ") }

// short cuts what a file says to what fits into a line.
func short(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// hint names the known name that an unknown one is nearly.
func hint(name string, names []string) string {
	if len(name) > 64 || slices.Contains(names, name) {
		return ""
	}
	best, least := "", min(2, max(1, len(name)/3))+1
	for _, n := range names {
		if d := distance(strings.ToLower(name), n); d < least && d < len(n) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (is it %s?)", best)
}

// distance is how many letters must be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
