// Package remote asks a replica in another process, and answers such requests in this process.
//
// A Replica is a peer.Replica, peer.SliceReplica and peer.ManySlices over a wire.Caller; Handler serves a local replica to it. They
// exchange frames of package peer, one for each request and one for each answer or part of a stream:
//
//	coord, transfer ──► Replica ──frame──► wire ──frame──► Handler ──► Gate ──► local.Replica ──► engine.Store
//	                       ▲                                                        │
//	                       └──────────── frame of the member that answered, or its error ◄──┘
//
// The law is that of peer.Replica's errors: an error of a change says either that nothing has happened (it wraps peer.ErrUnavailable or
// bigset.ErrBehind, or is peer.Refused), or that the outcome is unknown. So the error for a request that did not leave, or that the other
// side did not look at, is peer.ErrUnavailable. The error for an answer that is lost, cut, foreign or from another member is peer.ErrAnswer
// or the transport's error, and never one that says that nothing has happened. Errors of the other side are carried by peer.Errors.
//
// Everything here may be used by any number of goroutines.
package remote
