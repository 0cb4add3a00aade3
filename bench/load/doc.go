// Package load decides what clients do to the sets of a store, and what the store should then hold.
//
//	model, groups := load.NewModel(workload, spec.Bigset, size, seed), load.Groups(workload)
//	for i := range workload.Phases {
//		clients, err := load.NewClients(model, sys, groups, i, ops)
//		err = clients.Run(ctx, time.Now(), duration)
//	}
//	err := model.Verify(sys, 0)
//
// # Invariants
//
// What a client does depends on the workload, the seed, the size and its own number, never on time or on other clients: it owns part of the
// elements of each set, and draws from random numbers of its own. Clients.Note writes it down.
//
// The model holds what the store should hold after each operation that succeeded. Every answer is compared with it: a look-up finds what lives and
// nothing else, a read is complete where nobody writes beside it. A wrong answer ends the run with system.ErrWrong.
//
// A client without a rate starts an operation when the one before has ended. With a rate, an operation is due at a moment that is known before;
// one that begins late counts from when it was due, and that a sleep ended up to a millisecond late is no latency. Probes act while the clock of
// the others stands still.
//
// Begin reading at model.go and clients.go, then client.go and ops.go. names.go and population.go are pure, as is package choose. One
// goroutine uses a Model and its Clients; any number may read their Roles.
package load
