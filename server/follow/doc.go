// Package follow decides what a follower of a set is given: what was added and what was removed since a token.
//
// A follower keeps elements with their dots. A Position is what it was given: Seen, and Dead within it. What R replicas know now is a State. A dot names one add
// of one element for ever, so the difference of the two is the whole answer, whatever has happened in between:
//
//	                   Seen of the state
//	┌───────────────────────┬──────────────────────┐
//	│ Seen of the position  │ not given            │
//	├──────────┬────────────┼───────────┬──────────┤
//	│ dead in  │ dead since │ live      │ dead     │        live, not given    ─► Added, by Locate or by a listing
//	│ position │            │           │          │        dead since, given  ─► Removed where a name is known, else Dead
//	└──────────┴────────────┴───────────┴──────────┘        dead, not given    ─► nothing
//
// Laws, each of which a planted bug breaks:
//
//   - Every dot that a follower may hold is in Seen of its position. So each dot enters with its element.
//   - All of the state enters the position only after each dot that is live in it was given, or has died.
//   - What is added is given before what is removed: an element whose dot was replaced is never missing in between.
//   - A position never goes backwards: replicas that know less than the position take nothing from it.
//   - A position that goes beyond what all replicas know is void. That is so after a restore, or after a crash that took events which no disk had.
//
// A long position stays at the node, and the token has its number (Kept). Another node asks for it. One that no node keeps any more is void, too: the follower gets a reset, and everything.
//
//	door ─► alone.Backend, cluster.Backend ─► Changes ─► Source: State, Locate, Read, Names
//
// Changes and Kept may be used by any number of goroutines; a Source belongs to one answer.
package follow
