// Package bloomd implements bloomd's text protocol: a Server for the filters of a node, and a Client for tests, tools and load generators.
//
//	request    command SP name SP key … [CR] LF        check set multi bulk (c s m b)  create list drop close clear info flush
//	answer     one line, or START LF row LF … END LF
//
// The laws:
//
//   - Every line has exactly one answer, in the order of the lines of its connection, even if it is malformed. Answers are bloomd's byte for
//     byte: clients match answers to requests by counting.
//   - Requests may be pipelined without limit and split anywhere. Requests that arrive together are executed together and answered by one write.
//     Adjacent requests that check, or set, keys of one filter are one call to the node. Only the timing differs.
//   - The answer to a request is sent when the node has done it: a set is then as durable as the filter promises.
//   - multi and bulk find their filter once. If the filter is dropped during the request, one error replaces all words; it never stands among them.
//   - A connection holds the keys of one call and a line, and a bounded part of the answers, including those to list.
//
// Connections, their limits and their end are those of server/door, and its laws hold too.
//
// Checks and sets allocate nothing.
package bloomd
