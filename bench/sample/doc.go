// Package sample decides what is known of a run over time: a value a second of every sampled figure, in bounded memory. It knows no engine
// and no workload.
//
//	Latencies   what clients do, and how long it takes         ┐
//	Process, Machine, Disk                                     ├─ Source ── Sampler ──┬── Series    JSON; package view makes charts of it
//	enginesource, a package of its own: the engine, Pebble     ┘                      └── Tick      view.Live, view.Lines, which people watch
//
// For each run of a system, a runner makes a Latencies for each of its roles and a source for its store, and starts a Sampler. When a phase
// begins, Begin returns a Recorder for each client. At each phase the runner calls Phase with a function that returns the progress. Stop
// returns the Series. The Sampler asks and the runner answers: nothing here knows the runner, and a run without a sampler records in the
// same way. To draw, pass the Show of a view.Live or view.Lines as Options.Watch.
//
//	clients, store := sample.NewLatencies(""), enginesource.New()
//	s := sample.Start(sample.Options{
//		Name:    "bigset",
//		Sources: []sample.Source{clients, store, sample.NewProcess(), sample.NewMachine(), sample.NewDisk(folder)},
//		Ratios:  sample.Amplification(""),
//		Watch:   live.Show,
//	})
//	s.Phase("main", func() (done, of float64) { ops, _ := clients.Ops(); return float64(ops), planned })
//	...
//	series := s.Stop()
//
// If a source is slow, only its own columns are unknown for that tick, and the series says how often.
//
// Begin reading at series.go. columns.go contains the names of all figures.
package sample
