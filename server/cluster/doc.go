// Package cluster decides which members a cluster has, and makes several processes one store.
//
// The members are fixed: a list of peers that is the same on every node. The list determines which member holds which range
// (internal/ring), so nothing has to be looked up. The members agree on one record for each epoch: which disk is which member, and which
// member has lost something.
//
//	client ──► Backend, Filters ──► coord.Coordinator ──┬─ gated: the replica here, under an epoch
//	                                                    └─ remote.Replica ══ wire ══► gate ─► the replica there
//
//	Membership   asks the others for their state; births, joins, commits (ledger: one record an epoch)
//	Filters      which filters exist (catalogue: a lattice, the same on all members), decisions by the first member, figures from all
//	tokens       what clients may do: lists that members exchange and that become equal
//	Member       connects it all: links to the others, the gate, the coordinator, hints, anti-entropy
//
// # Laws
//
//   - An epoch has one record. It is committed when every member has agreed to it durably.
//   - A request names the epoch by which it was routed and is refused under another one: nothing has happened.
//   - A change of the epoch waits for the writes inside the gate, so that a copy made under the new epoch contains them.
//   - A disk that may lack acknowledged writes becomes a member under a new epoch, in state joining: it takes writes, but answers no reads until it was filled
//     from enough others that every acknowledged write was at one of them.
//   - An acknowledged creation, clearing or drop of a filter is on every member's disk. A dropped filter stays dropped, whichever disk comes back.
//   - A removed token stays removed. A member whose disk may lack removals serves no client until it has learned them from a member that is whole.
//   - At birth one member may hold data. Until the others have copied the data, only that member answers reads, and every write needs it.
//
// # Where data is stored
//
// The store's own metadata contains the record, the epoch under which this member was filled, the catalogue of filters and the tokens.
// Hints are in the folder hints below that of the store. Keys and certificates are elsewhere, in the folder of --tls. A copy of the folder
// is another disk and joins as one.
package cluster
