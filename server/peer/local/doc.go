// Package local makes a store answer as a replica: it decides which answers a member may give in its state, and whether a change may have
// happened when the store returns an error.
//
// A Replica is a peer.Replica and a peer.SliceReplica over an engine.Store of this process. It is the only package between the two: package
// peer and all packages that use replicas do not know the store, and package engine does not know members.
//
//	coord, transfer ──► peer.Replica ◄── local.Replica ──► engine.Store
//
// The laws are stated at the methods of peer.Replica and peer.SliceReplica. A Replica may be used by any number of goroutines. It does not
// own its store, which its caller closes.
package local
