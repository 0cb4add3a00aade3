// Package bench decides how loads are made and counted: it is the library of `bigset bench`.
//
// A workload is a load with a question, such as "what does an insert cost beside the same bytes written to Pebble by hand?". Most are files
// of package spec, which package run runs. This package contains those that need several replicas, another process, or bloom filters. A
// workload runs in rounds. In each round the systems that it compares run one after the other, each on a fresh store in a temporary folder,
// in an order that changes from round to round, so that changes of the machine affect all of them. Ratios are of the medians over the
// rounds, with the least and the greatest ratio of one round as their spread.
//
//	Run ── step (workload, elements) ── round ── system ── phase (meter) ── Figures of one round
//	        └────────────── Row: medians of its rounds ── Report: table, JSON, Go benchmark lines
//
// The systems:
//
//   - bigset is the engine with a strategy.
//   - pebble is Pebble by hand, with the engine's options (order, table format, bloom filters, kind of record), writing the
//     same bytes in the same batches: the physical limit.
//   - blob is a set serialised into one value, which is read, changed and rewritten on each operation. It runs at sizes
//     where that is bearable; a row states its size.
//
// A measurement includes the work that it leaves: writes are flushed and compactions awaited inside the measured time. After it, stores
// that were written are counted and verified.
//
// Begin reading at run.go, then measure.go and package system, then any workload: program.go is the plainest. goals.yaml contains the goals
// of workloads without a file, and goals.go judges them. Only one goroutine of a process may call Run at a time, because it reads the CPU
// time of the whole process.
package bench
