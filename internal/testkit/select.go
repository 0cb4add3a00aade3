package testkit

import (
	"bytes"
	"slices"

	"bigset"
	"bigset/fold"
)

// Select returns, from elements in ascending order, those that a read with these options must show, in the order of the read.
func Select(all []fold.Element, o bigset.ReadOptions) []fold.Element {
	var out []fold.Element
	for _, e := range all {
		if o.From != nil && bytes.Compare(e.Name, o.From) < 0 || o.To != nil && bytes.Compare(e.Name, o.To) >= 0 ||
			!bytes.HasPrefix(e.Name, o.Prefix) || o.After != nil && !Beyond(e.Name, o.After, o.Reverse) {
			continue
		}
		out = append(out, e)
	}
	if o.Reverse {
		slices.Reverse(out)
	}
	if o.Limit > 0 && len(out) > o.Limit {
		out = out[:o.Limit]
	}
	return out
}

// Beyond reports whether a read in that direction reaches name after bound.
func Beyond(name, bound []byte, reverse bool) bool {
	if reverse {
		return bytes.Compare(name, bound) < 0
	}
	return bytes.Compare(name, bound) > 0
}
