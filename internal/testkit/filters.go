package testkit

import (
	"fmt"

	"bigset"
	"bigset/bloomslice"
)

// SmallFilter is a filter of eight pages with hardly any false positives.
func SmallFilter() bigset.FilterOptions {
	o := bigset.FilterOptions{Options: bloomslice.DefaultOptions()}
	o.Capacity, o.Probability = 10_001, 1e-5
	return o
}

// TaggedKeys returns keys that differ from those of any other tag.
func TaggedKeys(tag string, from, to int) (keys [][]byte) {
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Appendf(nil, "%s-%d", tag, i))
	}
	return keys
}
