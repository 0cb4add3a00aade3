// Package run decides how a workload file is run: it is the one runner of package spec.
//
//	rows, err := run.Run(ctx, workload, run.Options{})
//	for _, v := range run.Judge(workload, rows, "") {
//		fmt.Println(v)
//	}
//
// # From a Workload to rows
//
//	Run ── size ── round ── system, strategy (stage: a store) ── phase ── load.Clients
//	        └── result.Row: medians of the rounds ── Judge: verdicts of the assertions
//
// In each round the systems run one after the other, each on a store of its own, in an order that changes from round to round. Package load
// has the clients, and checks their answers. After a round the stores are verified. A wrong answer ends the run with ErrWrong.
//
// # Same operations
//
// What clients do depends on the file, the seed and the size alone. Row.StreamHash says so: it is a hash of all operations up to the end of the
// row's phase, equal for all systems and rounds, also those that a run goes on from, which Run checks. A phase that ends by time has no such
// hash, nor have those after it.
//
// # Time
//
// What writes leave to do is in the time of phases that settle. Probes act while the clock of the others stands still.
//
// Begin reading at run.go, then stage.go (a store) and phase.go. Observer lets a sampler watch. Run may be called by one goroutine at a time in a
// process, because it reads the CPU time of the whole process.
package run
