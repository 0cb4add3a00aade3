// Package server assembles a node: a store, the listener for bloomd's protocol, the admin port, and the timers that flush filters and
// remove cold ones from memory. It decides which parts exist and in which order they start and stop. Package server/bloomd decides what the
// protocol says, package engine what is on disk.
//
//	          config: flags over environment over file over defaults
//	             │
//	clients ──► server/door ─► server/bloomd ──► bloomFilters ──► engine.Store ◄── every flush_interval, every cold_interval
//	operator ─► admin port: /metrics /healthz /readyz /backup, with --pprof also /debug/pprof
//	balancer ─► health port: /healthz /readyz
//
// Clients come through doors: a list of protocols, each with its listener. All doors are started, drained and counted in the same way
// (doors.go), and share one limit on connections.
//
// A node starts in the order addresses, store, clients. It stops in the opposite order, the health port last. When Stop returns, everything
// acknowledged is on disk and the folder is closed cleanly. Addresses come first so that a second server on one port leaves no folder.
package server
