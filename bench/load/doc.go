// Package load decides what clients do to the sets of a store, and what the store should contain afterwards.
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
// elements of each set, and draws from its own random numbers. Clients.Note records it.
//
// The model contains what the store should contain after each operation that succeeded. Every answer is compared with it: a look-up finds
// live elements and nothing else, and a read is complete if no client writes at the same time. A wrong answer ends the run with
// system.ErrWrong.
//
// A client without a rate starts an operation when the one before has ended. With a rate, each operation is due at a moment known in
// advance; the latency of a late one counts from when it was due, but a sleep that ended up to a millisecond late does not count. Probes
// act while the clock of the others is stopped.
//
// Begin reading at model.go and clients.go, then client.go and ops.go. names.go and population.go are pure, as is package choose. Only one
// goroutine may use a Model and its Clients; any number may read their Roles.
package load
