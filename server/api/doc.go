// Package api is the protocol between clients and nodes for sets and filters: verbs, codecs of bodies, errors, and the handler that serves
// the verbs from a door.Backend and door.Filters.
//
//	package client ─► Append… ─► wire ─► Handler: Decode… ─► door.Backend ─► Append… ─► wire ─► Decode… ─► package client
//
// A body is a version byte and fields: numbers as shortest uvarints, bytes as a length and the bytes, booleans as 0 or 1. Each value has
// one encoding and bytes left over are an error, so Append inverts Decode. A decoder allocates in proportion to its input. Decoded bytes
// point into the input.
package api
