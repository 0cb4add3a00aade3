// Package bloomd speaks bloomd's text protocol: a Server in front of the filters of a node, and a Client for tests, tools and loads.
//
//	request    command SP name SP key … [CR] LF        check set multi bulk (c s m b)  create list drop close clear info flush
//	answer     one line, or START LF row LF … END LF
//
// The laws:
//
//   - Every line has exactly one answer, in the order of the lines of its connection, whatever is wrong with it. Strings are bloomd's to
//     the byte: clients pair answers with requests by counting.
//   - Requests may be pipelined without limit and split anywhere. What came together is executed together and answered by one write;
//     neighbouring requests that check, or set, keys of one filter are one call to the node. Nobody can tell but by the clock.
//   - The answer of a request is sent when the node has done it: a set is then as durable as the filter promises.
//   - multi and bulk find their filter once; a filter that is dropped meanwhile gives one error in place of the words, never in their midst.
//   - A connection holds the keys of one call beside a line, and a bounded part of the answers, of list too.
//
// Connections, their limits and their end are those of server/door, and so are its laws.
//
// Checks and sets allocate nothing.
package bloomd
