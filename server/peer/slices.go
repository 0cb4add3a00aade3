package peer

import (
	"context"
	"iter"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// SliceReplica is one copy of a range of slices of bloom filters: local (package local), or remote (package remote). The rules of Replica
// apply here, too: about goroutines, values, the members that answers come with, and equality by ==.
//
// A copy of a slice is a lattice. A later generation replaces an earlier one. In one generation, a dropped slice replaces a present one;
// otherwise layers join by union, counts by maximum, pages by OR. So what is sent may be lost, come late, twice, or in any order. Every
// request names its generation and the filter's options: a replica creates the slice when something is to be stored in it. The error for a
// generation earlier than the replica's, or known to be dropped, is bigset.ErrNoFilter. While the slice is being removed with its range, so
// that it can neither be read nor written, the error is ErrUnavailable, and wraps bigset.ErrSliceAway.
//
// The filter's durability applies to each replica: a nil error of Mark or ApplyMarks acknowledges that much, for keys that were present
// before and for new ones.
//
// Errors of Mark, ApplyMarks, DropGeneration, MergePages and FlushSlice say what has happened. Nothing has if they wrap ErrUnavailable
// (another replica may be asked), or if they are Refused (other replicas would refuse, too). After any other error the outcome is unknown,
// and so it is after a context that ends during the call. All but Mark may simply be repeated. So may Mark; at worst, a key then counts as
// one that was present.
type SliceReplica interface {
	// Member returns the member, as last known. It does no I/O.
	Member() Member

	// Mark marks keys of a slice, by their hashes, at most bigset.MarksMax, in layers that this replica owns: it alone fills them, counts
	// their keys and decides when they are full. Keys that are here already, in a layer of any owner, stay where they are. The marks,
	// including those of such keys, are for the other replicas. The second result says which keys were new, and is as long as hashes. A
	// Joining replica returns ErrJoining: it may not know the contents of its layers.
	//
	//	here layer 0 of A: x, 1 key;  Mark(x, y) at A = Marks{layer 0 of A, 2 keys: x y}, {false, true}
	Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, Member, error)

	// ApplyMarks applies another replica's decision: it sets the bits of each key in the layer that the mark names, whatever is here of the
	// key, and raises the counts of the layers. The result, as long as the marks, says which keys were not here before. Joining replicas
	// apply marks, too.
	//
	//	here nothing;  ApplyMarks({layer 0 of A, 2 keys: x y})  =>  {true, true}; here layer 0 of A, 2 keys
	//	the same again                                          =>  {false, false}; the same
	ApplyMarks(ctx context.Context, m bigset.Marks) ([]bool, Member, error)

	// Check reports which keys are in a slice, by their hashes, at most bigset.MarksMax. If this replica has nothing of the slice, no key
	// is in it. A Joining replica returns ErrJoining.
	//
	//	here layer 0 of A: x;  Check(x, y) = {true, false}
	Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, Member, error)

	// DropGeneration drops a filter for good, with all of its slices, in this generation and all earlier ones: anything that arrives of
	// them later, from any sender, fails with bigset.ErrNoFilter. A nil error says that the drop is on disk. A replica that does
	// not know the filter remembers the drop as well. Joining replicas drop, too.
	//
	//	here generation 5;  DropGeneration(6) =>  nothing is here; ApplyMarks of 5 or 6: bigset.ErrNoFilter, of 7: a new filter
	//	here generation 7;  DropGeneration(6) =>  the same
	DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (Member, error)

	// SliceDigests lists the slices in a range of slots, both ends included, with a hash of what is here of each, and the slices that were
	// dropped, by slot, then by name. Equal hashes mean equal layers, counts and bits. Joining replicas answer, too.
	SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error]

	// PageSums hashes the stored pages of a slice after a place (nil means the start), at most most of them (0 means bigset.PageSumsMax).
	// Two replicas whose sums of a page are equal have the same bits there. The sums include everything marked before the call. A slice
	// that is not here has no pages and no layers, and is not an error. Joining replicas answer, too.
	//
	//	here pages 0 1 7 of layer 0;  PageSums(nil, 2) = {0: 5f1d..., 1: 90c2...};  PageSums(1, 2) = {7: 1b44...}, done
	PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, Member, error)

	// Pages returns the pages of a slice at the given places, which are in order, at most bigset.PagesMax, and all layers with their
	// counts. Pages that are not stored are left out. The errors are those of PageSums. Joining replicas answer, too.
	Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, Member, error)

	// MergePages joins what another replica has of a slice: pages by OR, counts by maximum, layers by union. Without pages it joins the
	// layers. The result is durable after a later FlushSlice. Joining replicas merge, too.
	//
	//	here layer 0 of A: 3 keys, page 0: 1000;  MergePages({layer 0 of A: 2 keys, page 0: 0001})  =>  3 keys, page 0: 1001
	MergePages(ctx context.Context, p bigset.SlicePages) (Member, error)

	// FlushSlice syncs to disk everything that has come to a slice before the call, whatever the filter's durability. For a slice that is
	// not here, it does nothing. Joining replicas flush, too.
	FlushSlice(ctx context.Context, spec bigset.SliceSpec) (Member, error)
}
