// Package run decides how a workload file is run: it is the one runner of package spec.
//
//	rows, err := run.Run(ctx, workload, run.Options{})
//	for _, v := range run.Judge(workload, rows, "") {
//		fmt.Println(v)
//	}
//
// # From a Workload to rows
//
//	Run ── size ── round ── system, strategy (stage: a store) ── phase ── clients ── operations
//	        └── result.Row: medians of the rounds ── Judge: verdicts of the assertions
//
// In each round the systems run one after the other, each on a store of its own, in an order that changes from round to round. Answers are
// checked: a look-up finds what lives and nothing else, a read is complete where nobody writes beside it, and after a round the stores are
// verified. A wrong answer ends the run with ErrWrong.
//
// # Same operations
//
// A client owns part of the elements of each set, and draws from random numbers of its own: what it does depends on the file, the seed and the
// size, never on time or on other clients. Row.StreamHash says so: it is a hash of all operations up to the end of the row's phase, equal for all
// systems and rounds, which Run checks. A phase that ends by time has no such hash, nor have those after it.
//
// # Time
//
// Clients without a rate start an operation when the one before has ended. With a rate, an operation is due at a moment that is known before;
// one that begins late counts from when it was due, and that a sleep ended up to a millisecond late is no latency. What writes leave to do is in the time of phases
// that settle. Probes act while the clock of the others stands still.
//
// Begin reading at run.go, then stage.go (a store and its elements), phase.go, client.go and ops.go. population.go, choose.go and names.go are
// pure. Observer lets a sampler watch. Run may be called by one goroutine at a time in a process, because it reads the CPU time of the whole
// process.
package run
