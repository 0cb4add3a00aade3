// Package view decides how samples look: Live and Lines show ticks while a run goes on, and Sections makes charts of its series for a page.
//
//	live := &view.Live{Screen: terminal}
//	s := sample.Start(sample.Options{Sources: sources, Watch: live.Show})
//	...
//	live.Clear()
//	page.Sections = view.Sections([]*sample.Series{s.Stop()})
//
// What a column is called and in which unit it is are sample's; a figure that a run does not have is left out. Names from outside can't move the
// cursor: all text is made safe by package screen. One goroutine at a time uses a Live or Lines; Sections changes nothing.
package view
