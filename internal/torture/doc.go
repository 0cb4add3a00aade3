// Package torture runs a cluster of real processes, hurts it, and proves from what its clients were shown that nothing was lost.
//
//	clients ──► node a   node b   node c        each a process, with a folder of its own
//	                └─ netfault ─┘               what they say to each other passes a proxy: cuts, delays, low rates, one-way cuts
//	nemesis     kill -9 of one and of all, SIGSTOP, lost folders and older ones put back, full disks, restarts in order, another version
//	history     who asked what, when, and was answered what: no acknowledged element is missing from a later read, no removed one comes back
//
// In the end every fault is healed, every member has to be whole, every read complete, and every member's store must hold the same elements.
package torture
