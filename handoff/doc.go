// Package handoff decides what a copy of a range has brought, and what it still lacks.
//
// A copy is one receiver's, from one sender in one incarnation. It goes set by set in the order of the store, and through a set in
// chunks of whole elements. Keys come with their dots, as facts; they are checked by the receiver. No clock is ever joined: the
// sender's is a question and a check.
//
//	sets    done, done, done, [ set at hand ................ ], not begun
//	                            │ chunk │ chunk │ After          Check: the sender's clock of the first chunk
//
// When a set's last chunk has come, its Check must be in the receiver's Seen. What is not in there is asked for by dot; until it has
// come, or its death has, the set is owed: it is not complete, and the copy goes on with others.
//
// The law of deaths. The sender's Dead of a moment is taken only when every key that was live at that moment is here (Due is empty): then
// whatever has replaced a dead dot comes no later than the death. Else an element would vanish between the two.
//
// All is values: no I/O, no goroutines. A Progress is used by one goroutine. It keeps the clocks that it is given, read only.
package handoff
