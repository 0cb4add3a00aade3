// Package follow decides what a follower of a set is told: what was added and what was removed since a token.
//
// A follower keeps elements with their dots. A Position is what it was told: Seen, and Dead within it. What R replicas know now is a State. A dot names one add
// of one element for ever, so the difference of the two is all that there is to say, whatever has happened in between:
//
//	                   Seen of the state
//	┌───────────────────────┬──────────────────────┐
//	│ Seen of the position  │ not told             │
//	├──────────┬────────────┼───────────┬──────────┤
//	│ dead in  │ dead since │ live      │ dead     │        live, not told     ─► Added, by Locate or by a listing
//	│ position │            │           │          │        dead since, told   ─► Removed where a name is known, else Dead
//	└──────────┴────────────┴───────────┴──────────┘        dead, not told     ─► nothing
//
// Laws, each of which a planted bug breaks:
//
//   - Every dot that a follower may hold is in Seen of its position. So a dot enters with the element that is told.
//   - All of the state enters the position only after each dot that is live in it was told, or has died.
//   - What is added is told before what is removed: an element whose dot was replaced is never missing in between.
//   - A position never goes backwards: replicas that know less than the position take nothing from it.
//   - A position that goes beyond what all replicas know is void. That is so after a restore, or after a crash that took events which no disk had.
//
// A long position stays at the node, and the token has its number (Kept). One that the node does not keep any more is void, too: the follower is told so, and gets everything.
//
//	door ─► alone.Backend, cluster.Backend ─► Changes ─► Source: State, Locate, Read, Names
//
// Changes and Kept may be used by any number of goroutines; a Source belongs to one answer.
package follow
