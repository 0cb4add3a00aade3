package peer

import (
	"context"
	"iter"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// SliceReplica is one copy of a range of slices of bloom filters: here (package local), or behind a wire. What was said of Replica holds of it,
// too: of goroutines, of values, of the members that answers come with, and of two that are equal by ==.
//
// A copy of a slice is a lattice. A later generation takes the place of an earlier one; of one generation, dropped takes the place of
// there; else layers join by union, counts by the larger, pages by OR. So what is sent may be lost, come late, twice, or in any order.
// Every request says of which generation it is, and what the filter was made with: a replica makes the slice when something is to be
// stored in it. One of an earlier generation than the replica has, or of one that it knows to be dropped, is bigset.ErrNoFilter. Where the
// slice is being taken away with its range, so that nothing can be said of it or put into it now, the error is ErrUnavailable, and wraps
// bigset.ErrSliceAway.
//
// What the filter's durability promises holds of each replica: a nil error of Mark or ApplyMarks acknowledges so much, for keys that
// were there before as for those that were not.
//
// Errors of Mark, ApplyMarks, DropGeneration, MergePages and FlushSlice say what has happened. Nothing, when they wrap ErrUnavailable
// (another replica may be asked), or when they are Refused (so would others). With any other nobody knows, and so with a context that
// ends while the call is under way. All but Mark may simply be done again; and Mark, too, with nothing worse than that a key counts as
// one that was there.
type SliceReplica interface {
	// Member says who this is, as last known. It does no I/O.
	Member() Member

	// Mark marks keys of a slice, by their hashes, at most bigset.MarksMax, in layers that this replica owns: it alone fills them, counts
	// their keys and decides that they are full. Keys that are here already, in anybody's layer, are left where they are. The marks, those
	// of such keys too, are for the other replicas; the second result says which keys were new, and is as long as the hashes. One that is
	// Joining answers ErrJoining: it may not know what its layers hold.
	//
	//	here layer 0 of A: x, 1 key;  Mark(x, y) at A = Marks{layer 0 of A, 2 keys: x y}, {false, true}
	Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, Member, error)

	// ApplyMarks does what another replica has decided: it sets the bits of each key in the layer that the mark names, whatever is here of
	// the key, and raises the counts of the layers. The result, as long as the marks, says which keys were not here before. Joining
	// replicas do it, too.
	//
	//	here nothing;  ApplyMarks({layer 0 of A, 2 keys: x y})  =>  {true, true}; here layer 0 of A, 2 keys
	//	the same again                                          =>  {false, false}; the same
	ApplyMarks(ctx context.Context, m bigset.Marks) ([]bool, Member, error)

	// Check reports which keys are in a slice, by their hashes, at most bigset.MarksMax. No key is in a slice of which this replica has
	// nothing. One that is Joining answers ErrJoining.
	//
	//	here layer 0 of A: x;  Check(x, y) = {true, false}
	Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, Member, error)

	// DropGeneration takes a filter away, all of its slices, in the generation and in those before, for good: what comes of them later,
	// from whomever, is bigset.ErrNoFilter. A nil error says that it is on disk. A replica that has never heard of the filter remembers
	// the drop as well. Joining replicas do it, too.
	//
	//	here generation 5;  DropGeneration(6) =>  nothing is here; ApplyMarks of 5 or 6: bigset.ErrNoFilter, of 7: a new filter
	//	here generation 7;  DropGeneration(6) =>  the same
	DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (Member, error)

	// SliceDigests lists the slices in a range of slots, both ends included, with a hash of what is here of each, and those that were
	// dropped, by slot, then by name. Equal ones mean equal layers, counts and bits. Joining replicas answer, too.
	SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error]

	// PageSums hashes the stored pages of a slice behind a place, nil is the start: so many at most, 0 is bigset.PageSumsMax. Two replicas
	// whose sums of a page are equal have the same bits there. What was marked before the call is in the sums. A slice
	// that is not here has no pages and no layers, and no error. Joining replicas answer, too.
	//
	//	here pages 0 1 7 of layer 0;  PageSums(nil, 2) = {0: 5f1d..., 1: 90c2...};  PageSums(1, 2) = {7: 1b44...}, done
	PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, Member, error)

	// Pages returns pages of a slice, at most bigset.PagesMax, whose places are given in order, and all layers with their counts. Pages
	// that are not stored do not come. The errors are those of PageSums. Joining replicas answer, too.
	Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, Member, error)

	// MergePages joins what another replica has of a slice: pages by OR, counts by the larger, layers by union. With no pages it joins the
	// layers. It is durable when FlushSlice was done behind it. Joining replicas do it, too.
	//
	//	here layer 0 of A: 3 keys, page 0: 1000;  MergePages({layer 0 of A: 2 keys, page 0: 0001})  =>  3 keys, page 0: 1001
	MergePages(ctx context.Context, p bigset.SlicePages) (Member, error)

	// FlushSlice puts on disk all that has come to a slice before the call, whatever the filter's durability. A slice that is not here
	// is nothing. Joining replicas do it, too.
	FlushSlice(ctx context.Context, spec bigset.SliceSpec) (Member, error)
}
