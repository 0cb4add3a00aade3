// Package client asks running nodes of Bigset about sets and bloom filters. The nodes are one node without a cluster, or any nodes of one
// cluster, which all give the same answers. A node serves this package at the port of `bigset serve --listen HOST:PORT`, a member of a
// cluster at its port of --peers.
//
//	c, err := client.Open(client.Options{Addrs: []string{"10.0.0.1:8690", "10.0.0.2:8690"}, TLS: config})
//	_, err = c.Set("friends").Add(ctx, "paul")
//	for name, err := range c.Set("friends").Elements(ctx) { ... }
//
// # Which node is asked
//
// A call goes to the node that answered last; the first call goes to the first address. If nothing has happened there, because the node
// can't be reached or can't do the request now, the call goes to the next address, and so on. If no node could do it and some node has
// answered before, the client asks all of them again after a pause, for as long as the call has time. A client that has never reached a
// node returns the error at once.
//
// # Changes are done once
//
// Every write has an id. The client draws one if the caller gives none. After a lost connection it is unknown whether the write was done.
// The client then sends the write to the next node, with the same id and marked as a retry, and the nodes do it once. If the time ends
// before an answer arrives, the error is an *UnknownError with that id. To settle it, send a Write with the same content, Request set to
// the id and Retry set. Any process may do this, within the time that nodes remember ids (10 minutes by default).
//
//	error wraps       means
//	ErrUnknown        it is unknown whether the change was done
//	ErrUnavailable    nothing has happened; the same call may succeed later
//	anything else     nothing has happened, and the same call would fail again
//
// # Contexts
//
// Contexts are tokens, which nodes make. They come with answers that show elements, and say what the caller has seen. A change with a
// context acts on what was seen and on nothing newer. Tokens are opaque bytes: Token.Text turns them into text, and bigset.ParseToken reads
// it.
//
// # Reads
//
// Read and Elements stream a set of any size in little memory. They switch to another node only before the first part. If the node fails
// later, the stream ends with an error, and a read with From set to the last element continues it. A node ends a stream in the same way if
// the caller takes more than ten minutes for a part. Page returns some elements and the token at which the next page begins; any node of the
// cluster accepts that token.
//
// # Filters
//
//	f := c.Filter([]byte("seen"))
//	created, err := f.Create(ctx, client.FilterCreate{})
//	added, err := f.Mark(ctx, []byte("paul"))
//	present, err := f.Check(ctx, []byte("paul"), []byte("yoko"))
//
// Every request about a filter may be repeated, and the client repeats one whose answer was lost. An *UnknownError about a filter has no
// id: repeat the call to settle it.
//
// The package links no storage engine. A Client may be used by any number of goroutines.
package client
