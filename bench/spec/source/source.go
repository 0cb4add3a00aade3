package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// ErrFile is in the chain of all errors about the text of a file.
var ErrFile = errors.New("spec: bad workload file")

// TextBytesMax is the length of the longest file, in bytes.
const TextBytesMax = 256 << 10

const (
	problemsMax = 20
	depthMax    = 16 // of nested nodes; a valid file needs at most 7
)

// Problem is something wrong at a place in a file.
type Problem struct {
	Line, Column int // from 1; columns count characters
	What         string
}

// FileError contains all problems of a file, in the order of the text. errors.Is finds ErrFile in it.
type FileError struct {
	File     string // as passed to Failed
	Problems []Problem
	More     int // number of problems that are not listed
}

// Error returns a line for each problem: FILE:LINE:COL: what is wrong: what is allowed.
func (e *FileError) Error() string {
	b := &strings.Builder{}
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		_, _ = fmt.Fprintf(b, "%s:%d:%d: %s", e.File, p.Line, p.Column, p.What)
	}
	if e.More > 0 {
		_, _ = fmt.Fprintf(b, "\n%s: and %d more problems", e.File, e.More)
	}
	return b.String()
}

// Unwrap returns ErrFile.
func (e *FileError) Unwrap() error { return ErrFile }

// Sound reports whether no problem was found.
func (r *Reader) Sound() bool { return len(r.problems) == 0 }

// Failed returns the problems that were found, if any.
func (r *Reader) Failed(file string) error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := slices.Compact(r.problems)
	shown := all[:min(len(all), problemsMax)]
	return &FileError{File: file, Problems: shown, More: len(all) - len(shown)}
}

// Load returns the value of a text, or nil if there is a problem.
func (r *Reader) Load(text []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(depthMax))))
	if err != nil {
		r.At(1, 1, "not YAML: %v", err)
		return nil
	}
	root, next := &yaml.Node{}, &yaml.Node{}
	switch err := loader.Load(root); {
	case errors.Is(err, io.EOF):
		r.At(1, 1, "the file is empty: it must have a name and phases")
		return nil
	case err != nil:
		r.syntax(err)
		return nil
	}
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	switch err := loader.Load(next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntax(err)
		return nil
	default:
		r.At(next.Line, max(1, next.Column), "a second document: a file is one workload, write another file")
		return nil
	}
	if !r.plain(root) {
		return nil
	}
	return root
}

// syntax reports a text that the YAML library has refused.
func (r *Reader) syntax(err error) {
	line, column, what := 1, 1, err.Error()
	var le *yaml.LoadError
	if errors.As(err, &le) {
		what = le.Message
		if le.Mark.Line > 0 {
			line, column = le.Mark.Line, max(1, le.Mark.Column)
		} else if le.ContextMark.Line > 0 {
			line, column = le.ContextMark.Line, max(1, le.ContextMark.Column)
		}
	}
	r.At(line, column, "not YAML: %s", strings.ReplaceAll(what, "\n", " "))
}

// plain reports whether no node under n, including n, is an alias or has an anchor or a tag of its own. It stops at the first such node.
func (r *Reader) plain(n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		r.Wrong(n, "an alias: write the value again, files have no aliases")
		return false
	case n.Anchor != "":
		r.Wrong(n, "an anchor: write the value again where it is needed, files have no anchors")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.Wrong(n, "a tag: values have none, their keys say what they are")
		return false
	}
	return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !r.plain(c) })
}
