// Package tokens decides what clients may do: it keeps a node's list of tokens, and judges secrets.
//
//	secret ─► Guard.Authenticate ─► Grant ─► Grant.May(verb, name) ─► a door executes, or refuses
//	               │                  │
//	               └────── List ──────┘        what one member adds or removes, all others learn by Merge
//
// A token permits verbs on all names that begin with its prefix. Names are those of sets and of filters, as a backend has them. The list holds the SHA-256 of a
// secret, which has 256 random bits, and never the secret.
//
// The laws:
//
//   - A list only grows: a token is made once, and removed once, for good. So lists that are merged in any order, however often, come to be the same.
//   - While a list has never had a token, everything is permitted, unless the Guard says otherwise. Once it has had one, only what some token permits:
//     that the last token was removed opens nothing.
//   - A Grant is judged again at each call: what was removed permits nothing from then on, also on a connection that is open.
//   - A node that may lack what others have acknowledged permits nothing (ErrUnlearned).
//   - What is taken is on disk before it counts.
//
// A door keeps a Grant for each connection, Guard.Anonymous at first, and asks it before each request, for each name that the request has. Before it lists names it asks for each of
// them. A long answer that goes on for minutes is asked about again from time to time.
//
// All methods may be called by any number of goroutines. Files: entry.go (tokens and secrets), codec.go (bytes), list.go, guard.go (doors).
package tokens
