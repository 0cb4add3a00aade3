// Package peer decides where a replica is, and what is said to it.
//
// A Replica is one copy of a range of sets: package local has the one in this process, over an engine.Store. This package knows no
// store: its values are those of package bigset. What goes between replicas
// are values (a delta, facts, a chunk, a state), each of which stands for itself: it may be lost, come late, twice, or
// in any order. Between processes each value is a frame, which says who sent it; Append and Decode are each other's inverse.
//
//	           Write, Drop                          Apply, Learn
//	client ──► coordinator ──► Replica A ── Delta ──► Replica B      a delta kills its contexts and brings its keys
//	                               │                     │
//	                               └─ Facts: keys with their dots, ◄─┘   checked by the receiver's state; no clock is
//	                                  and deaths                          ever joined
//
// Its laws are those of Replica's methods. A value from outside is checked when it is decoded; what it says of a set is checked
// by the engine when it is applied; either way it is refused as a whole and changes nothing.
//
// Functions here are safe for concurrent use. Decoded values own their memory.
package peer
