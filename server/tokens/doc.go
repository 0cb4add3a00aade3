// Package tokens decides what clients may do: it keeps a node's list of tokens and checks secrets.
//
//	secret ─► Guard.Authenticate ─► Grant ─► Grant.May(verb, name) ─► a door executes, or refuses
//	               │                  │
//	               └────── List ──────┘        what one member adds or removes, all others learn by Merge
//
// A token permits verbs on all names that begin with its prefix. Names are those of sets and of filters, as a backend uses them. The list
// contains the SHA-256 of a secret, which has 256 random bits, but never the secret.
//
// The laws:
//
//   - A list only grows: a token is made once, and removed once, for good. So lists that are merged in any order, however often, become equal.
//   - While a list has never contained a token, everything is permitted, unless the Guard says otherwise. After that, only what some token permits is
//     permitted: removing the last token opens nothing.
//   - A Grant is checked again at each call: a removed token permits nothing from then on, even on an open connection.
//   - A node that may not know all that others have acknowledged permits nothing (ErrUnlearned).
//   - A change is on disk before it takes effect.
//
// A door keeps a Grant for each connection, at first Guard.Anonymous. It checks the Grant before each request, for each name in the
// request. Before it lists names, it checks each of them. It checks again from time to time during an answer that takes minutes.
//
// All methods may be called by any number of goroutines. Files: entry.go (tokens and secrets), codec.go (bytes), list.go, guard.go (doors).
package tokens
