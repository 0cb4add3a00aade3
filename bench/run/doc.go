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
// In each round the systems run one after another, each on a store of its own, in an order that changes from round to round. Package load
// contains the clients and checks their answers. After a round the stores are verified. A wrong answer ends the run with ErrWrong.
//
// # Same operations
//
// What clients do depends only on the file, the seed and the size. Row.StreamHash shows that: it is a hash of all operations up to the end
// of the row's phase, equal for all systems and rounds, including rounds of an earlier run that is continued. Run checks this. A phase that
// ends by time has no such hash, nor have the phases after it.
//
// # Time
//
// Phases that settle include in their time the work that writes leave. Probes act while the clock of the others is stopped.
//
// Begin reading at run.go, then stage.go (a store) and phase.go. An Observer lets a sampler observe a run. Only one goroutine of a process
// may call Run at a time, because it reads the CPU time of the whole process.
package run
