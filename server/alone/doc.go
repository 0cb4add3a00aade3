// Package alone is the backend of a node without a cluster: one store, which is the only replica of everything.
//
//	server/api ─► door.Backend ─► alone.Backend: opens and seals tokens ─► engine.Store
//
// A quorum of 1 is all there is: a request that wants more is refused with door.ErrQuorum. All methods may be called by any number of
// goroutines.
package alone
