// Package riakpb decides what a message of Riak's protocol buffers asks of sets, and the bytes of the answer.
//
// A message is a length of four bytes, big endian, a byte that says its kind, and the body, which is protobuf. Each request has one answer; requests of a
// connection are answered in their order.
//
//	request                 answer
//	RpbPingReq              RpbPingResp
//	RpbGetServerInfoReq     RpbGetServerInfoResp
//	RpbStartTls             RpbStartTls, then the connection goes on with TLS
//	RpbAuthReq              RpbAuthResp
//	DtFetchReq              DtFetchResp: the set and its context
//	DtUpdateReq             DtUpdateResp: adds and removes, as one atomic batch
//	RpbDelReq               RpbDelResp: the set is dropped
//	everything else         RpbErrorResp, which says why it is not served
//
// A type, a bucket and a key name a set as package setname has it: (sets, default, K) is the plain set K. Contexts are tokens of a whole set. They are
// opaque to the client, as Riak's are.
//
// The laws:
//
//   - A request that is malformed is answered by an error and changes nothing; the connection goes on, unless the length itself can't be right.
//   - Lengths come first in this protocol, so a set is gathered before it is answered. One above Options.AnswerBytesMax is an error before the first byte.
//   - A token is checked before a request reaches the backend.
//
// Files: server.go, conn.go (messages in and out), sets.go (what they do), quorum.go (numbers of replicas), message.go (bodies), errors.go. The messages are those of Riak's riak.proto,
// riak_kv.proto and riak_dt.proto, revision 2.2.
package riakpb
