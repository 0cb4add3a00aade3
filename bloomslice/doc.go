// Package bloomslice decides which bits a key has in a bloom filter, and how a filter grows. The filters are scalable bloom filters
// (Almeida, Baquero, Preguiça and Hutchison, 2007) with the hash functions, the sizes and the growth of bloomd, so that the same
// keys have the same bits at the same places, and the same false positives.
//
// A filter is cut into slices, by default one. A Slice is a stack of layers:
//
//	layer 0   capacity C      probability (1-r)P        r: Reduction
//	layer 1   capacity C·s    probability (1-r)P·r      s: Scale
//	layer 2   capacity C·s²   probability (1-r)P·r²     their sum stays below P
//
// The bits of a layer are divided into K runs, one for each hash function, and independently of those into pages of PageBytes.
// Pages come from a Source when they are first needed, and may be removed from memory after they have been stored.
//
// The laws:
//
//   - A slice only grows: bits are set, counts rise, layers are added. Pages join by OR, counts by maximum, layers by union. So
//     replicas that have each other's pages, counts and layers are equal, in whatever order and however often those came.
//   - No key that was added is denied, whatever is stored, taken out of memory and read again at the same time.
//   - A layer belongs to its owner, which alone fills it, counts its keys and decides that it is full. If two owners fill a filter,
//     it costs one more layer; the OR of two layers that were filled separately would have far more false positives than allowed.
//     An owner is not a replica but a seat: a replica that takes another's place takes over its seat. So a filter never has more
//     owners than it is made for.
//   - A page that can't be read, or is damaged, is an error and never "no".
//
// To begin: New makes a Slice, Sum hashes a key, Admit and Commit add it, Check asks for it; Take returns what has to be stored.
//
// Nothing here does I/O or starts a goroutine. Any number of goroutines may call Check on a Slice, concurrently with one that calls
// the other methods.
package bloomslice
