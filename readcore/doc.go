// Package readcore decides what R partial answers about a set mean together.
//
// Its law, for a quorum read: a dot of an element survives when it is live in some stream, and every other stream has it live or
// has not seen it, by the clock of its own read, which is no newer than that read's keys. An element is present when a dot
// survives. R streams of chunks in one order are merged up to the least of their bounds (least-last, section 6.6.2.6 of the bigset
// document), all R at once. What lies after that bound is kept until all streams have reached it.
//
//	stream 0   a{1} c{3}         d{4}    complete up to d       Seen {1 3 4}
//	stream 1   a{1} b{2} c{3}            complete up to c       Seen {1 2 3 4}
//	least-last                  │c
//	merged     a{1} b{2} c{3}            b: stream 0 has not seen 2, it is missing there
//	                                     d: waits, stream 1 may show it, or may have removed it
//
// Streams that agree are compared and passed on: no clock is consulted and nothing is copied.
//
// # Contexts
//
// The wide context is the clock with which to act on the whole set. It is the union of the first clocks of the streams: each dot in
// it was shown by some stream, or known dead by one. It is known before the first element. When a stream fails, another replaces it
// and continues after the merged bound. For elements after the bound, the first context claims events that only the failed stream had
// seen. So a second context, made from the first clocks of the streams that continue, replaces it from that bound on. The second
// context claims nothing about elements before the bound. An operation on the whole set uses the intersection of both.
//
//	elements    a … f          │ g … z
//	context     {streams 0, 1} │ {streams 0, 2}          the whole set: {0, 1} ∩ {0, 2}
//	                           └ merged bound when stream 2 took the place of stream 1
//
// # Repair
//
// What a merge finds missing or not yet removed at a stream is returned with the result, so that it can be sent there. If a stream
// does not show a dot that it has seen, that is no proof that the dot is dead: its Dead is asked first.
//
// # Memory and concurrency
//
// A Merge holds at most one chunk for each stream, and for each stream its first clock, its last clock, and a bound. It refuses a
// chunk for a stream whose last one is not merged yet; Merge.Wants says which streams are to deliver. It belongs to one goroutine.
// It keeps what it is given without copying it, and its results share that memory, which must not be changed, except for chunks
// that Merge.Scrap has returned.
package readcore
