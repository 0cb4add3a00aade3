// Package lab decides what a developer gets of a run of workload files: it runs them one after the other with package run, samples the stores on
// the way with package sample, and makes a text, a JSON object, a page and tables of it.
//
//	r, err := lab.Run(ctx, workloads, lab.Options{})
//	err = r.WriteText(os.Stdout)
//	err = r.WritePage(file)
//
// Strategies of your own take part by Options.Run.Extra; the folder examples/policy has a program that does so.
//
// Begin reading at lab.go. watch.go is where the runner and the sampler meet, page.go is the report, text.go what is printed.
//
// # Promises
//
// A run that ends early gives what was finished, beside the error: rounds that were, and series so far. Result.Report is in the shape of
// `bigset bench --json`, so that package compare reads it. Sampling reads the store once a second; docs/bench/sampling.txt has what it costs.
//
// One Run at a time may go on in a process, because figures count the CPU time and the heap of the whole process.
package lab
