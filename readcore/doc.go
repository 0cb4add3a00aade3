// Package readcore decides what R partial answers about a set mean together.
//
// Its law, for a quorum read: a dot of an element survives when some stream has it live, and every other stream has it live
// or has not seen it, by the clock of its own read, which is no newer than that read's keys. An element is present when a dot
// survives. R streams of chunks in one order are merged up to the least of their bounds (least-last, section 6.6.2.6 of the
// bigset document), all R at once. What lies behind is kept until the streams have come as far.
//
//	stream 0   a{1} c{3}         d{4}    complete up to d       Seen {1 3 4}
//	stream 1   a{1} b{2} c{3}            complete up to c       Seen {1 2 3 4}
//	least-last                  │c
//	merged     a{1} b{2} c{3}            b: stream 0 has not seen 2, it is missing there
//	                                     d: waits, stream 1 may show it, or may have removed it
//
// Streams in agreement are compared and passed on: no clock is looked at, nothing is copied.
//
// # Contexts
//
// The clock to act on the whole set with, the wide context, is the union of the first clocks of the streams: of each dot in
// it some stream had shown the key or known it dead. It is known before the first element. When a stream fails, another one
// is put in its place and goes on behind the merged bound. The first context claims for what lies behind it what only the
// failed stream had seen; so a second context, of the first clocks of the streams that go on, takes its place from that bound
// on. It in turn claims nothing that holds before the bound. An operation on the whole set takes what is in both.
//
//	elements    a … f          │ g … z
//	context     {streams 0, 1} │ {streams 0, 2}          the whole set: {0, 1} ∩ {0, 2}
//	                           └ merged bound when stream 2 took the place of stream 1
//
// # Repair
//
// What a merge finds missing or not yet removed at a stream comes with the result, so that it can be sent there. That a stream
// does not show a dot that it has seen is no proof that the dot is dead: its Dead is asked first.
//
// # Memory and concurrency
//
// A Merge holds one chunk for each stream at most, and of each stream its first clock, its last clock, and a bound. It refuses a
// chunk for a stream whose last one is not merged yet: Merge.Wants says which streams are to deliver. It belongs to one
// goroutine, keeps what it is given without copying it, and its results share that memory: nobody may change it, but for chunks
// that Merge.Scrap has returned.
package readcore
