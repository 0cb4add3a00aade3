// Package enginesource decides what is sampled of a store: it makes a sample.Source from the engine's Stats, or from the metrics of raw
// Pebble.
//
//	src := enginesource.New()
//	s := sample.Start(sample.Options{Sources: []sample.Source{src, clients}})
//	err := src.Engine(ctx, store)   // after each open; Pebble for raw Pebble
//	...
//	src.Detach()                    // before each close
//	series := s.Stop()
//
// A read costs a call of Stats: some microseconds for each table of the store, with Pebble's lock held for microseconds. Keys that are not
// in tables yet count as live, so keys_dead may be too low by at most their number.
package enginesource
