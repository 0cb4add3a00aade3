// Package source reads values from a YAML text and records what is wrong with them, and where. It knows no workload: the caller says which
// keys an object has, which words a value may be, and how large a number may be.
//
//	r := &source.Reader{}
//	root := r.Load(text)
//	r.Object(root, "store", []source.Field{{Key: "sync", Read: func(n *yaml.Node) { sync = r.Flag(n, "sync") }}})
//	err := r.Failed("store.yaml")
//
// A text is one document without anchors, aliases and tags. All problems are reported together, in the order of the text, each with what is
// allowed. A method that reports a problem returns a zero value. Begin reading at source.go. A Reader is for one goroutine.
package source
