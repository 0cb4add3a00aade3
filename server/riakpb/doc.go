// Package riakpb decides what a message of Riak's protocol buffers asks of sets, and encodes the answer.
//
// A message is a length of four bytes (big endian), a byte for its kind, and the body, which is protobuf. Each request has one answer.
// Requests of a connection are answered in their order.
//
//	request                 answer
//	RpbPingReq              RpbPingResp
//	RpbGetServerInfoReq     RpbGetServerInfoResp
//	RpbStartTls             RpbStartTls, then the connection continues with TLS
//	RpbAuthReq              RpbAuthResp
//	DtFetchReq              DtFetchResp: the set and its context
//	DtUpdateReq             DtUpdateResp: adds and removes, as one atomic batch
//	RpbDelReq               RpbDelResp: the set is dropped
//	everything else         RpbErrorResp, which says why it is not served
//
// Package setname maps a type, a bucket and a key to the name of a set: (sets, default, K) is the plain set K. Contexts are tokens of a
// whole set. They are opaque to the client, as in Riak.
//
// The laws:
//
//   - A malformed request is answered with an error and changes nothing. The connection stays open, unless the length itself is invalid.
//   - Lengths come first in this protocol, so a set is collected before it is answered. A set larger than Options.AnswerBytesMax is answered with an error before the first byte.
//   - A token is checked before a request reaches the backend.
//
// Files: server.go, conn.go (messages in and out), sets.go (what they do), quorum.go (numbers of replicas), message.go (bodies), errors.go.
// The messages are those of Riak's riak.proto, riak_kv.proto and riak_dt.proto, revision 2.2.
package riakpb
