// Package lab decides what a developer gets from a run of workload files: it runs them one after another with package run, samples the
// stores with package sample, and makes a text, a JSON object, a page and tables of the results.
//
//	r, err := lab.Run(ctx, workloads, lab.Options{})
//	err = r.WriteText(os.Stdout)
//	err = r.WritePage(file)
//
// Strategies of your own take part through Options.Run.Extra; the folder examples/policy contains a program that does so.
//
// Begin reading at lab.go. watch.go connects the runner and the sampler, page.go is the report, text.go what is printed.
//
// # Promises
//
// A run that ends early returns what was finished, beside the error: complete rounds, and series so far. Result.Report has the form of
// `bigset bench --json`, so that package compare reads it. Sampling reads the store once a second; docs/bench/sampling.txt says what it
// costs.
//
// Only one Run at a time may be active in a process, because figures count the CPU time and the heap of the whole process.
package lab
