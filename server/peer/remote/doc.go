// Package remote decides how a replica in another process is asked, and how this process answers when it is asked.
//
// A Replica is a peer.Replica, peer.SliceReplica and peer.ManySlices over a wire.Caller; Handler serves a local one to it. Between them go the
// frames of package peer, one for each request and one for each answer or part of a stream:
//
//	coord, transfer ──► Replica ──frame──► wire ──frame──► Handler ──► Gate ──► local.Replica ──► engine.Store
//	                       ▲                                                        │
//	                       └──────────── frame of the member that answered, or its error ◄──┘
//
// Its law is that of the errors of peer.Replica: an error of a change says that nothing has happened (it wraps peer.ErrUnavailable or
// bigset.ErrBehind, or is peer.Refused), or nobody knows. So a request that did not leave, or that the other side did not look at, is
// peer.ErrUnavailable; an answer that is lost, cut, foreign or from another member is peer.ErrAnswer or the transport's error, and never one
// that says that nothing has happened; and what the other side says of an error, peer.Errors carries.
//
// What is here may be used by any number of goroutines.
package remote
