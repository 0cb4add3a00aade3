// Package rest decides what a request by HTTP asks of sets and filters, and what is answered: Riak's paths for sets, and what Riak does not have; figures of the
// node, and a console for people.
//
//	net/http ─► Server.serve ─► route ─► request ─► door.Backend, door.Filters
//	               │              │
//	               │              └ table.go: each path with its parameters, which openapi.json describes; a test compares the two in both directions
//	               └ host, page, token, parameters, body: what is wrong there costs the backends nothing
//
// The laws:
//
//   - A request has only parameters that its route names; a handler reads no others.
//   - Every error is one JSON object. For a change it says whether nothing happened, or nobody knows (outcome).
//   - A body is read before a request takes its place among those that are executed, and above 64 KiB counts among the long requests of all doors of the node.
//   - An answer that is one JSON value is whole before its first byte, within a limit. What has none is a stream, a value a line, and its last line says that it is whole.
//   - Elements are bytes. In JSON they are text, or base64 where the request says so; bytes that are no UTF-8 are never changed, but refused or marked.
//
// Files: server.go, link.go (connections), table.go (paths), request.go, params.go, body.go (JSON in), answer.go (JSON out), errors.go, riak.go, elements.go, names.go, filters.go, node.go,
// timing.go.
package rest
