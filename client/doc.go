// Package client asks running nodes of Bigset about sets: a node alone, or any node of a cluster, which are the same to it.
//
//	c, err := client.Open(client.Options{Addrs: []string{"10.0.0.1:8690", "10.0.0.2:8690"}, TLS: config})
//	_, err = c.Add(ctx, "friends", "paul")
//	for part, err := range c.Read(ctx, client.Read{Set: []byte("friends")}) { ... }
//
// A call goes to the first address that answers. What a node could not begin is asked of the next one. A change has an id, drawn here unless
// the caller gives one: where nobody knows whether it was done it is sent again with the same id, and done once. When the context ends before that
// is settled the error is *UnknownError, which has the id: the same change with the same id may be sent again later.
//
// Contexts are tokens, made by the nodes. They come with every answer that shows elements, and say what the caller has seen: an operation
// with one acts on that and on nothing newer.
//
// The package links no storage engine. A Client may be used by any number of goroutines.
package client
