package parser

import (
	"go.yaml.in/yaml/v4"

	"bigset/bench/spec"
	"bigset/bench/spec/source"
)

// ErrFile is in the chain of all errors about the text of a file.
var ErrFile = source.ErrFile

// TextBytesMax is the length of the longest file, in bytes.
const TextBytesMax = source.TextBytesMax

// FileError has all that is wrong with a file, in the order of the text. errors.Is finds ErrFile in it.
type FileError = source.FileError

// Problem is something wrong at a place in a file.
type Problem = source.Problem

// Known says which names from outside of this package a file may use.
type Known struct {
	// Strategies are those of the engine; nil accepts any name.
	Strategies []Strategy
}

// Strategy is a compaction strategy, by its name, with the kinds of record that it works on, merge or set or both.
type Strategy struct {
	Name    string
	Records []string
}

// Parse reads a workload file. The name of the file is only for errors. An error is a *FileError.
func Parse(file string, text []byte, known Known) (*spec.Workload, error) {
	r := &reader{known: known}
	w := r.parse(text)
	if err := r.Failed(file); err != nil {
		return nil, err
	}
	w.Source = string(text)
	return w, nil
}

func (r *reader) parse(text []byte) *spec.Workload {
	root := r.Load(text)
	if root == nil {
		return nil
	}
	w := r.workload(root)
	if r.Sound() {
		r.check(w)
	}
	return w
}

// reader reads workloads.
type reader struct {
	source.Reader
	known Known
	top   place        // the workload, with its phases
	texts []*yaml.Node // of the assertions
}

// field is a key of an object and what reads its value.
type field = source.Field

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

// count reads a number of things: absolute, or a share of the size in percents.
func (r *reader) count(n *yaml.Node, what string, most int) spec.Count {
	of, absolute := r.Amount(n, what, most, shareMax)
	return spec.Count{Of: of, Absolute: absolute}
}
