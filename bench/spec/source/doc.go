// Package source reads values out of a YAML text and remembers what is wrong with them, and where. It knows no workload: the caller says
// which keys an object has, which words a value may be, and how large a number.
//
//	r := &source.Reader{}
//	root := r.Load(text)
//	r.Object(root, "store", []source.Field{{Key: "sync", Read: func(n *yaml.Node) { sync = r.Flag(n, "sync") }}})
//	err := r.Failed("store.yaml")
//
// A text is one document without anchors, aliases and tags. All problems are reported together, in the order of the text, each with what is
// allowed; a method that reports one returns a zero value. Begin reading at source.go. A Reader is for one goroutine.
package source
