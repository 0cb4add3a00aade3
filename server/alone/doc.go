// Package alone is the backend of a node without a cluster: one store, which is the only replica of everything.
//
//	server/api ─► door.Backend ─► alone.Backend: opens and seals tokens ─► engine.Store
//
// The largest quorum is 1: a request that wants more is refused with door.ErrQuorum. All methods may be called by any number of goroutines.
package alone
