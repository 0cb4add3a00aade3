// Package view decides how samples look: Live and Lines show ticks during a run, and Sections makes charts of its series for a page.
//
//	live := &view.Live{Screen: terminal}
//	s := sample.Start(sample.Options{Sources: sources, Watch: live.Show})
//	...
//	live.Clear()
//	page.Sections = view.Sections([]*sample.Series{s.Stop()})
//
// Package sample decides the names and units of columns; a figure that a run does not have is left out. Names from outside can't move the
// cursor: package screen makes all text safe. Only one goroutine at a time may use a Live or Lines; Sections changes nothing.
package view
