package source

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Reader reads nodes and collects problems. The zero Reader is ready to use.
type Reader struct {
	problems []Problem

	// Objects and Words record the requested objects and words by name, if they are not nil. A test compares them with a schema.
	Objects map[string][]string
	Words   map[string][]string
}

func (r *Reader) At(line, column int, format string, args ...any) {
	r.problems = append(r.problems, Problem{line, column, fmt.Sprintf(format, args...)})
}

func (r *Reader) Wrong(n *yaml.Node, format string, args ...any) {
	r.At(n.Line, n.Column, format, args...)
}

// Field is a key of a mapping and the function that reads its value.
type Field struct {
	Key  string
	Read func(n *yaml.Node)
}

// Object reads a mapping and returns the values of its keys by key. The name is that in the schema.
func (r *Reader) Object(n *yaml.Node, name string, fields []Field) map[string]*yaml.Node {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	if r.Objects != nil {
		r.Objects[name] = keys
	}
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, "%s for %s: it must be a mapping with %s", kindName(n), name, List(keys))
		return nil
	}
	have := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.Index(keys, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.Wrong(key, "%s for a key: %s has the keys %s", kindName(key), name, List(keys))
		case at < 0:
			r.Wrong(key, "unknown key %q in %s%s: the keys are %s", Short(key.Value), name, Hint(key.Value, keys), List(keys))
		case have[key.Value] != nil:
			r.Wrong(key, "key %q stands twice in %s: once is allowed", key.Value, name)
		default:
			have[key.Value] = value
			fields[at].Read(value)
		}
	}
	return have
}

// Items calls read for each item of a list with at least one item and at most most.
func (r *Reader) Items(n *yaml.Node, what string, most int, read func(n *yaml.Node)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.Wrong(n, "%s for %s: it must be a list", kindName(n), what)
	case len(n.Content) == 0:
		r.Wrong(n, "no %s: leave the key out, or name at least one", what)
	case len(n.Content) > most:
		r.Wrong(n, "%d %s: the maximum is %d", len(n.Content), what, most)
	default:
		for _, c := range n.Content {
			read(c)
		}
	}
}

// Text returns a scalar as written; what names it in problems.
func (r *Reader) Text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.Wrong(n, "%s for %s: it must be one value", kindName(n), what)
		return "", false
	}
	return strings.TrimSpace(n.Value), true
}

// Word reads one of the allowed words. The name is that in the schema.
func Word[T ~string](r *Reader, n *yaml.Node, name string, allowed []T) T {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	if r.Words != nil {
		r.Words[name] = names
	}
	s, ok := r.Text(n, name)
	if ok && !slices.Contains(names, s) {
		r.Wrong(n, "unknown %s %q%s: allowed are %s", name, Short(s), Hint(s, names), List(names))
		return ""
	}
	return T(s)
}

func (r *Reader) Flag(n *yaml.Node, what string) bool {
	s, ok := r.Text(n, what)
	if ok && (s != "true" && s != "false" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0) {
		r.Wrong(n, "%q for %s: it must be true or false", Short(s), what)
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
		return fmt.Sprintf("%q", Short(n.Value))
	}
	return "something else"
}

// List writes names separated by commas.
func List(names []string) string { return strings.Join(names, ", ") }

// Short shortens a text from a file to fit into a line.
func Short(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// Hint suggests the known name most similar to an unknown one.
func Hint(name string, names []string) string {
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

// distance returns how many letters must be changed, added or removed to turn a into b.
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
