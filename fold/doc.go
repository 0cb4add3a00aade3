// Package fold decides what a run of a set's element keys means: which elements are present, and by which dots.
//
// Its law: keys come in the order of package comparator (or all of them in its reverse), every key of an element one after
// the other; an element is present when a dot of one of its add keys is live: not in Dead, and in no context of an unresolved key
// of the element (one whose wide context is not resolved yet; it counts whatever has become of its own dot). Elements are
// independent of each other, so any contiguous run of whole elements may be folded by itself (section 6.6.2 of the bigset
// document: the element accumulator, then the set accumulator). Resolve resolves unresolved keys (section 6.7, whose rules 2 and 3
// would drop too early).
//
//	key  a/dot1  a/dot2  b/dot3  d/dot4        Dead = {dot1, dot3}
//	     └─ element a ┘  └ b ┘   └ d ┘
//	     present {dot2}  absent  present {dot4}     Chunk{a{dot2} d{dot4}}, complete up to d
//
// A chunk is full by elements or by keys looked at, whichever is first: a run of a million dead keys still makes progress.
//
// A Folder belongs to one goroutine. This is the place where bytes are copied, once: the chunk owns its memory, and
// nothing of a key that was given to Step is kept. Whoever knows a chunk that nobody needs any more may have its memory used again.
package fold
