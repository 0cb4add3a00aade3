// Package ring decides which members hold a slot: the map of a cluster, where its buckets are placed, and what a member may answer.
//
// It is pure: it has no goroutine, clock, file or socket. Callers pass values and get values.
//
// # The law
//
// The hash space is 2^32 slots. A Bucket is a mask of a hash's low bits and a key; a slot is the hash with its bits reversed, so each
// bucket is one range of slots. An Assignment says who holds a bucket:
//
//	stable    Owners == Next   a read asks R of Owners, a write needs W of Owners
//	copying   Next joins       a read asks R of Owners, a write needs W of Owners and W of Next
//	settling  Owners leave     a read asks R of Next,   a write needs W of Owners and W of Next
//
// Each change of an assignment has a higher epoch. Members follow it by these rules. The tests drive all rules together through
// schedules of faults, and break each rule to check that the schedules detect it:
//
//	R1  Every request carries an epoch. A member refuses a lower one than its own, and adopts a higher one durably before it
//	    serves. The check and the effect of a request are one step. (Judge, View)
//	R2  Reads and writes need the quorums above. (Tally)
//	R3  A bucket goes from copying to settling when each joiner has copied from the one member that it replaces, or from
//	    len-W+1 owners, each copy taken after its source adopted the epoch of the copying. (Assignment.Whole)
//	R4  It goes from settling to stable when len-R+1 of the old owners have adopted the settling epoch. (Assignment.Settled)
//	R5  A member drops a range only when its own view says that it is in neither list. (View.Holds)
//	R6  Members are (node, incarnation). A disk that may have lost acknowledged data is another member. (Judge)
//	R7  A change of the map names the version and the term that it was planned from. (Map.Apply)
//	R8  A split or a merge changes no owner. A split keeps the epoch; a merge takes the highest and adds one. (Split, Merge)
//
// # Where to begin
//
// Bucket and Map are the parts; Map.Check lists the invariants M1 to M8. Static places buckets on given nodes. A Strategy decides
// where copies go: Quota is the default. Map.Replace gives a member's place to its next incarnation. Decide is one turn of a
// cluster's manager. Array is the table of a client that knows only masks.
//
// # What is not here
//
// Some parts of a map for very many nodes are left out, because a cluster of fixed members needs none of them: an option that bounds
// the number of nodes with which a node shares buckets, pages for maps of 10^6 buckets and more (a page's name is one byte), and an event
// for a zone that has more copies than its share because no other place exists (M7 allows that).
//
// MoveRules and Frozen are rules for a manager that moves ranges under load. Decide does not apply them: the manager has sizes, times and
// complete copies, which a map does not have, and leaves out the moves that they forbid.
//
// Maps, assignments and tallies that are shared are never changed. A View and a Tally belong to one goroutine at a time.
package ring
