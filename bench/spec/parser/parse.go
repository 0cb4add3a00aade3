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

// FileError contains all problems of a file, in the order of the text. errors.Is finds ErrFile in it.
type FileError = source.FileError

// Problem is something wrong at a place in a file.
type Problem = source.Problem

// Known contains the names from outside this package that a file may use.
type Known struct {
	// Strategies are those of the engine; nil accepts any name.
	Strategies []Strategy
}

// Strategy is a compaction strategy: its name, and the kinds of record that it works on, merge or set or both.
type Strategy struct {
	Name    string
	Records []string
}

// Whole returns the number that a text stands for, as files and flags write it: 1000, 120k, 10M or 1_000_000. It must be at least 1.
func Whole(text string) (int, error) { return source.Whole(text) }

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

// field is a key of an object and the function that reads its value.
type field = source.Field

// place is the position of an object: its node, the values of its keys, and the positions of the objects in it.
type place struct {
	node *yaml.Node
	keys map[string]*yaml.Node
	in   []place // roles of a phase, phases of a workload
}

// of returns the value of a key or, if it is absent, the object.
func (p place) of(key string) *yaml.Node {
	if n := p.keys[key]; n != nil {
		return n
	}
	return p.node
}

// count reads a number of items: absolute, or a share of the size in percent.
func (r *reader) count(n *yaml.Node, what string, most int) spec.Count {
	of, absolute := r.Amount(n, what, most, shareMax)
	return spec.Count{Of: of, Absolute: absolute}
}
