// Package local decides how a store answers as a replica: which of its answers a member may give in its state, and what an error
// of the store says about whether a change has happened.
//
// A Replica is a peer.Replica and a peer.SliceReplica over an engine.Store of this process. It is the one package between the two:
// package peer and all that only speaks to replicas know no store, and package engine knows no member.
//
//	coord, transfer ──► peer.Replica ◄── local.Replica ──► engine.Store
//
// Its laws are those of the methods of peer.Replica and peer.SliceReplica. A Replica may be used by any number of goroutines. It does
// not own its store: whoever opened that closes it.
package local
