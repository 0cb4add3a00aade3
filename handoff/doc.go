// Package handoff decides what a copy of a range has brought, and what is still missing.
//
// A copy has one receiver and one sender, in one incarnation of the sender. It goes set by set in the order of the store, and
// through a set in chunks of whole elements. Keys come with their dots, as facts, and the receiver decides what to apply. No clock
// is ever joined: the sender's clock only says what to ask for and what to check.
//
//	sets    done, done, done, [ current set ................ ], not begun
//	                            │ chunk │ chunk │ After          Check: the sender's clock of the first chunk
//
// When a set's last chunk has come, its Check must be in the receiver's Seen. Dots of the Check that are not are asked for one by
// one. Until they, or their deaths, have come, the set is owed: it is not complete, and the copy continues with others.
//
// The law of deaths. The sender's Dead of a moment is applied only when every key that was live at that moment is here (Due is
// empty). Then the key that replaced a dead dot comes no later than the death. Otherwise an element would vanish between the two.
//
// Everything is a value: no I/O, no goroutines. A Progress is used by one goroutine. It keeps the clocks that it is given, and only
// reads them.
package handoff
