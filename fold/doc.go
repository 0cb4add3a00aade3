// Package fold decides what a run of a set's element keys means: which elements are present, and by which dots.
//
// Its law: keys come in the order of package comparator (or all of them in its reverse), the keys of an element consecutively. An
// element is present when a dot of one of its add keys is live: not in Dead, and in no context of an unresolved key of the element.
// (An unresolved key is one whose wide context is not resolved yet; the context counts whatever has become of the key's own dot.)
// Elements are independent of each other, so any contiguous run of whole elements may be folded by itself (section 6.6.2 of the
// bigset document: the element accumulator, then the set accumulator). Resolve resolves unresolved keys (section 6.7, whose rules 2
// and 3 would drop too early).
//
//	key  a/dot1  a/dot2  b/dot3  d/dot4        Dead = {dot1, dot3}
//	     └─ element a ┘  └ b ┘   └ d ┘
//	     present {dot2}  absent  present {dot4}     Chunk{a{dot2} d{dot4}}, complete up to d
//
// A chunk is full after a number of elements or of keys looked at, whichever comes first: a run of a million dead keys still makes
// progress.
//
// A Folder belongs to one goroutine. This is the one place where bytes are copied: the chunk owns its memory, and nothing of a key
// that was given to Step is kept. When no goroutine needs a chunk any more, its memory may be used again.
package fold
