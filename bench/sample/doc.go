// Package sample decides what is known of a run over time: a value a second of whatever is sampled, in bounded memory. It knows no engine and
// no workload.
//
//	Latencies   what clients do, and how long it takes         ┐
//	Process, Machine, Disk                                     ├─ Source ── Sampler ──┬── Series    JSON; package view makes charts of it
//	enginesource, a package of its own: the engine, Pebble     ┘                      └── Tick      view.Live, view.Lines: what people watch
//
// How a runner meets it: for each run of a system it makes a Latencies for each of its roles, a source of its store, and Starts a Sampler;
// when a phase begins, Begin gives each client a Recorder of its own; at each phase the runner calls Phase with a function that says how
// far it is; Stop gives the Series. The Sampler asks and the runner answers: nothing here knows the runner, and a run without a sampler
// records all the same. Who draws gives the Show of a view.Live or view.Lines as Options.Watch.
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
// A source that is slow makes only its own columns unknown for that tick, and the series says how often.
//
// Begin reading at series.go. columns.go has the names of all figures.
package sample
