// Package peer defines the replica and the messages to it.
//
// A Replica is one copy of a range of sets; package local has the one in this process, over an engine.Store. This package does not know the
// store: its values are those of package bigset. Replicas exchange values (a delta, facts, a chunk, a state), each of which is
// self-contained: it may be lost, come late, twice, or in any order. Between processes each value is a frame, which names its sender;
// Append and Decode are inverses.
//
//	           Write, Drop                          Apply, Learn
//	client ──► coordinator ──► Replica A ── Delta ──► Replica B      a delta kills its contexts and brings its keys
//	                               │                     │
//	                               └─ Facts: keys with their dots, ◄─┘   checked by the receiver's state; no clock is
//	                                  and deaths                          ever joined
//
// The laws are stated at Replica's methods. A value from outside is checked when it is decoded, and its statements about a set are checked
// by the engine when it is applied. In both cases it is refused as a whole and changes nothing.
//
// Functions here are safe for concurrent use. Decoded values own their memory.
package peer
