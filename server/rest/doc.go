// Package rest decides what an HTTP request asks of sets and filters, and what is answered: Riak's paths for sets, further paths that Riak
// does not have, figures of the node, and a console for people.
//
//	net/http ─► Server.serve ─► route ─► request ─► door.Backend, door.Filters
//	               │              │
//	               │              └ table.go: each path with its parameters, as described in openapi.json; a test compares the two in both directions
//	               └ host, page, token, parameters, body: an error there costs the backends nothing
//
// The laws:
//
//   - A request has only parameters that its route names; a handler reads no others.
//   - Every error is one JSON object. For a change it says whether nothing has happened, or the outcome is unknown (outcome).
//   - A body is read before its request takes a place among those being executed. Above 64 KiB it counts among the long requests of all doors of the node.
//   - An answer of one JSON value is complete before its first byte, within a limit. An unlimited answer is a stream, one value a line, and its last line says that it is complete.
//   - Elements are bytes. In JSON they are text, or base64 if the request says so. Bytes that are not UTF-8 are never changed, but refused or marked.
//
// Files: server.go, link.go (connections), table.go (paths), request.go, params.go, body.go (JSON in), answer.go (JSON out), errors.go, riak.go, elements.go, names.go, filters.go, node.go.
package rest
