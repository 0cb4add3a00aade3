// Package sim runs generated schedules over replicas, to find what breaks the promises they make to clients.
//
// There are four kinds of replicas, each of them the project's own code on top of something simulated:
//
//	rules     clock, fold, readcore and peer frames over a store in memory      the convergence kit drives them
//	engine    engine.Store on file systems in memory that lose power and fail   the convergence kit drives them
//	cluster   whole clusters driven by server/coord: quorums, hints, read repair   a scheduler of its own drives them
//	members   whole members of server/cluster: epochs, the gate, joining           the same scheduler
//
// A schedule is a function of its seed: one goroutine runs at a time, and time, randomness, the network, crashes and background
// work come from the schedule. An engine has goroutines of its own, so a crash in progress does not hit the same byte each time.
package sim
