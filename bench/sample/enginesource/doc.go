// Package enginesource decides what is sampled of a store: it makes a sample.Source of the engine's Stats, or of the metrics of raw Pebble.
//
//	src := enginesource.New()
//	s := sample.Start(sample.Options{Sources: []sample.Source{src, clients}})
//	err := src.Engine(ctx, store)   // after each open; Pebble for raw Pebble
//	...
//	src.Detach()                    // before each close
//	series := s.Stop()
//
// A read costs Stats: some microseconds for each table of the store, and Pebble's lock for microseconds. Keys that are not in tables yet are
// live, and count as such: keys_dead is at most too low by them.
package enginesource
