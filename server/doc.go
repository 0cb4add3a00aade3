// Package server makes a node out of its parts: a store, the listener for bloomd's protocol, the admin port, and the timers that flush
// filters and take cold ones out of memory. It decides which parts there are and in which order they start and stop; what the
// protocol says is decided in server/bloomd, what is on disk in engine.
//
//	          config: flags over environment over file over defaults
//	             │
//	clients ──► server/door ─► server/bloomd ──► bloomFilters ──► engine.Store ◄── every flush_interval, every cold_interval
//	operator ─► admin port: /metrics /healthz /readyz /backup, with --pprof also /debug/pprof
//	balancer ─► health port: /healthz /readyz
//
// Clients come by doors: a list of protocols, each with its listener, which are started, drained and counted alike (doors.go). All of them
// share one limit on connections.
//
// A node starts in the order addresses, store, clients, and stops the other way round, the health port last: when Stop returns, all that was answered is
// on disk and the folder is closed in order. Addresses come first so that a second server on one port leaves no folder behind.
package server
