package coord

import (
	"errors"

	"bigset/server/peer"
)

// ListSlices is List for the slices of filters.
func ListSlices(f func(filter []byte, slice uint32) []peer.SliceReplica) func(filter []byte, slice uint32) Placement[peer.SliceReplica] {
	return func(filter []byte, slice uint32) Placement[peer.SliceReplica] {
		return Placement[peer.SliceReplica]{Read: f(filter, slice)}
	}
}

// Pending returns the number of hints for a node, and their size in bytes.
func (h *Hints) Pending(node string) (count int, bytes int64) {
	b := h.Backlog(node)
	return b.Count, b.Bytes
}

// ErrorsOf returns the errors that the error of a request on many slices would contain.
func ErrorsOf(all ...error) error {
	var some someErrors
	for _, err := range all {
		some.add(err)
	}
	return errors.Join(some...)
}
