// Package engine decides when a set's events are on disk. It and the packages below it are the only ones that store
// anything in Pebble: internal/lsm opens, guards and closes one Pebble store, and filters keeps the bloom filters of
// the same store.
//
// A Store keeps sets. A set is an ORSWOT (observed-remove, add wins) decomposed into one sorted key for each insert.
// A write reads at most the keys of the elements that it changes. It mints a dot and writes one key, the clock and,
// if it kills something, the growth of the tombstone, in one atomic batch. Dead keys are removed later, when Pebble
// rewrites tables anyway (the drop filter), or when the rewriter swaps a span; no delete is written.
//
// What does what:
//
//	Store            a set: Add, Remove, Write, WriteAll, Contains, Look, Subset, Elements, Read, Moment, Count, Live, Seen, Drop;
//	                 all sets: Sets, CountSets, EachSetStats;
//	                 the folder: Open, Close, Sync, Flush, Compact, Checkpoint, Verify, Upgrade, Stats, Damage
//	Store.Set        Set: the usual calls on one set, by strings and with the defaults
//	Store.Tokens     bigset.Tokens: contexts as sealed tokens for clients of a server
//	Store.Filters    filters.Filters: the bloom filters of the store
//	Store.Replica    Replica: deltas, facts, clocks, digests, copies and repair between stores; identity, promises and
//	                 records of a server. Package server/peer/local and servers call it; a program with one store does not
//	pebbletool       the files of a store, for Pebble's own tools and for baselines
//
// How requests reach the disk, and what they wait for:
//
//	Add, Remove, Write ─┐
//	ApplyDelta, Drop ───┤ queue of the set ── leader: one batch, one clock key, one sync ── Pebble
//	                    └ then Seen and Dead in memory; Dead, once durable and older than every reader, to the drop filter
//	Contains, Subset ──── version of Dead, iterator, dots; again if a writer came between
//	Read, Count ───────── view of Seen and Dead, then an iterator: fold, chunk by chunk
//	Moment ────────────── views of several sets under the locks of all, then their iterators
//	Filters ───────────── bloom filters: package filters, which shares Store.passes and Store.swapping with the sets
//
// A Store always guarantees:
//
//   - R0: a dot enters Seen only in the same batch that stores its key or puts it into Dead.
//   - A counter is never issued twice: internal/lsm/identity.go.
//   - An element key is written once, as the store's kind of record. In a store of merge records no delete and no second merge
//     ever names it, by key or by range: only the drop filter or a swap removes it. (Pebble issue 6168.)
//   - A key is dropped only if a durable Dead covers its dot and the key is resolved.
//   - The context of an unresolved key counts, in every fold of its element, until the fold pass has put what it covers into Dead.
//   - What readers take as Seen and Dead is never newer than the keys that they read with it.
//   - A reader seeks over keys only where none is live for it: deadruns.go.
//   - After a write of the log has failed, nothing more is acknowledged.
//
// A Store may be used by any number of goroutines. Slices passed in are not kept. Slices returned belong to the
// caller, except those of a Delta, which refers to the elements of the operation that made it.
//
// Locks are taken in one order. Package lockorder defines it, and builds for the race detector check it.
// docs/architecture.md describes what each lock protects, what its holder may wait for, and which goroutines run by
// themselves.
//
//	one set or many      Store.passes ─ set.passes ─ set.loadOnce ─ set.lead (writers' queue, Store.holding) ─ rangeGate
//	a read               ─ reader.mu ─ set.viewing ─ Store.swapping (iterators over many sets) ─ Store.deleting ─ swapGate.one
//	bloom filters        ─ Filters.life ─ Filters.trimming ─ filterSlice.flushing ─ filterSlice.mu ─ marklog.Log ─ Damages ─ Filters.mu
//	tombstones, cache    ─ publisher.rounds ─ publisher.mu ─ setCache.mu ─ set.queueMu ─ Store.moments ─ set.mu ─ deadRuns.mu
//	the store's own      ─ notes.mu ─ identity.mu ─ DB.syncMu ─ swapGate.mu
//	Pebble               ─ its own, and in its callbacks ─ scheduler.mu ─ holdFS.mu ─ holdFS.names ─ retry.mu ─ Unflushed.mu
//	hot elements         ─ hotShard.mu
//
// The files, in reading order; packages lsm and filters list their own:
//
//	store.go options.go lsm.go errors.go restore.go checkpoint.go   a store, from open to close, and copies of it
//	set.go sets.go setcount.go cache.go records.go notes.go dotbag.go    a set in memory, and its clock and tombstone on disk
//	named.go                                                 one set by strings, over the calls of Store
//	write.go lead.go gather.go builder.go keyorder.go        a write: operations, the queue of a set, when a group closes, its batch
//	delta.go facts.go drop.go requests.go keeprequests.go    other work in that queue; requests that repeat
//	lookup.go hotdots.go read.go reader.go moment.go await.go readers.go skip.go deadruns.go    a read
//	publish.go                                               Dead, once durable, goes to the drop filter of compactions
//	runner.go setpicker.go sampler.go                        the rewriter: when, which set, which span of it
//	rewrite.go copied.go compact.go                          a pass over a span, what replaces it, passes over everything
//	sweep.go sweeppicker.go rangegate.go                     many small sets in one pass
//	foldpass.go                                              wide contexts are resolved
//	heal.go holes.go                                         lost keys are restored
//	replica.go locate.go recent.go                           Replica, and what replicas ask of each other: dots and keys
//	digests.go elementdigests.go countparts.go               what replicas compare: sums of sets, of keys, of elements
//	standing.go                                              what a server asks of its store: identity, actors, marks of a crash, records
//	removed.go                                               names of elements that were removed last
//	portion.go ingest.go droprange.go                        copies of ranges, and their end
//	verify.go verifydamage.go damage.go                      damage: looked for, and remembered
//	events.go stats.go setstats.go rangestats.go metrics.go  what a store reports: counters, figures, events
package engine
