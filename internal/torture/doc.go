// Package torture runs a cluster of real processes, injects faults, and checks from what its clients were shown that nothing was
// lost.
//
//	clients ──► node a   node b   node c        each a process, with a folder of its own
//	                └─ netfault ─┘               their traffic passes a proxy: cuts, delays, low rates, one-way cuts
//	nemesis     kill -9 of one and of all, SIGSTOP, lost folders and older ones put back, full disks, orderly restarts, another version
//	history     the requests of each client with their times and answers: no acknowledged element is missing from a later read, no
//	            removed one comes back, and a request that is sent again by its id has one effect
//
// In the end every fault is healed. Then every member has to be whole and every read complete, and every unknown outcome becomes known by a
// repetition. After what killed processes have left at some nodes only was repaired by reads of all replicas, the stores of all owners of a set
// must hold the same, W owners of each acknowledged key must have it, and the other nodes must have nothing of either.
package torture
