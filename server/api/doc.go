// Package api is what a client asks a node about sets and filters, and what the node answers: verbs, codecs of bodies, errors, and the handler that
// serves them from a door.Backend and door.Filters.
//
//	package client ─► Append… ─► wire ─► Handler: Decode… ─► door.Backend ─► Append… ─► wire ─► Decode… ─► package client
//
// A body is a version byte and fields: numbers as shortest uvarints, bytes as a length and that many, truth as 0 or 1. Each value has one
// encoding, and what is left over is an error, so that Append inverts Decode. A decoder allocates in proportion to its input. Decoded bytes
// are those of the input.
package api
