// Package keyscheme decides every byte of every key, value and token that a store keeps or hands out.
//
// Its law: Decode inverts Append, and accepts nothing that Append would not have written. Keys in the order of package comparator
// lie as the drawing shows, so that everything of a set, of an element or of a slot is one contiguous range.
//
//	key    = slot · set · rest            what a store keeps, in this order
//
//	         +------+-----+-----------------------------------------------------+
//	         | 0..3 bytes | store metadata, in no slot                          |
//	         +------+-----+---+-------------------------------------------------+
//	         | slot | len | s | c                                               |  clock
//	         | slot | len | s | d                                               |  set-tombstone
//	         | slot | len | s | d | len | actor | page                          |  one page of a large one
//	         | slot | len | s | e | len | element | len | actor | counter | op  |  one insert or remove
//	         | slot | len | s | z                                               |  end, a bound, never stored
//	         | slot | FFFFFFFF | b or m | ...                                   |  what belongs to a slot and to no set
//	         +------+----------+--------+---------------------------------------+
//	           4 BE    4 LE                4 LE           4 LE            8 LE  1
//
// A [Prefix] is the slot, the length and the name: callers keep one per set and append the rest to it. Sizes are in bytes
// everywhere. docs/format.md draws all of it; the vectors in testdata pin it.
//
// All functions are pure and may be called concurrently. Append functions return dst, grown; what Decode returns aliases its
// argument, unless the doc comment of a function says otherwise.
package keyscheme
