// Package cluster decides which members a cluster has, and makes several processes one store.
//
// The members are fixed: a list of peers that is the same everywhere. Who holds which range follows from it (internal/ring), so that nothing has to
// be looked up. What the members agree on is one record for each epoch: which disk is which member, and which of them has lost something.
//
//	client ──► Backend, Filters ──► coord.Coordinator ──┬─ gated: the replica here, under an epoch
//	                                                    └─ remote.Replica ══ wire ══► gate ─► the replica there
//
//	Membership   asks the others for their state; births, joins, commits (ledger: one record an epoch)
//	Filters      which filters there are (catalogue: a lattice, the same at all members), decisions by the first member, figures from all
//	tokens       what clients may do: lists that members exchange, and that come to be the same
//	Member       puts it together: links to the others, the gate, the coordinator, hints, anti-entropy
//
// # Laws
//
//   - An epoch has one record. It is committed when every member has agreed to it, durably.
//   - A request names the epoch by which it was routed, and is refused under another one: nothing has happened.
//   - A change of the epoch waits for the writes that are inside, so that a copy that is taken under the new one has them.
//   - A disk that may lack what it has acknowledged is a member of a new epoch, joining: it takes writes, and answers no reads until it was filled
//     by so many others that every acknowledged write was at one of them.
//   - An acknowledged creation, clearing or drop of a filter is known to every member, on disk. What was dropped stays so, whichever disk comes back.
//   - A token that was removed stays so. A member whose disk may lack removals takes no client before it has learned of them from one that is whole.
//   - At birth one member may hold data. Until the others have copied it, it alone answers reads, and every write needs it.
//
// # Where things lie
//
// The record, under which epoch this member was filled, the catalogue of filters and the tokens are in the store's own metadata. Hints are in the folder hints below that of the store. Keys
// and certificates are elsewhere, where --tls says. A copy of the folder is another disk, and joins as one.
package cluster
