// Package bloomslice decides which bits a key has in a bloom filter, and how a filter grows: scalable bloom filters (Almeida, Baquero,
// Preguiça and Hutchison, 2007) with the hash functions, the sizes and the growth of bloomd, so that the same keys have the same bits at
// the same places, and the same false positives.
//
// A filter is cut into slices, by default one. A Slice is a stack of layers:
//
//	layer 0   capacity C      probability (1-r)P        r: Reduction
//	layer 1   capacity C·s    probability (1-r)P·r      s: Scale
//	layer 2   capacity C·s²   probability (1-r)P·r²     their sum stays below P
//
// A layer is cut into K runs of bits, one a hash function, and over that into pages of PageBytes, which come from a Source when they are
// first needed and may leave again when they have been stored.
//
// The laws:
//
//   - A slice grows only: bits are set, counts rise, layers are added. Pages join by OR, counts by maximum, layers by union, so replicas
//     that have each other's pages, counts and layers are equal, whatever came in which order and how often.
//   - No key that was added is denied, whatever is stored, taken out of memory and read again beside the question.
//   - A layer belongs to its owner, who alone fills it, counts its keys and decides that it is full. Where two owners fill a filter, it
//     costs a layer more; the OR of two layers that were filled apart would have far more false positives than it may. An owner is a
//     seat that replicas hand on, so there are no more of them than the filter is made for.
//   - What can't be read, or is damaged, is an error and never "no".
//
// Nothing here does I/O or has a goroutine. Of a Slice any number of goroutines may call Check, beside one that calls the rest.
package bloomslice
