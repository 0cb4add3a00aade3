// Package lsm decides whether a store is whole, and whether it still takes writes. A DB is one Pebble store in a folder. It knows
// the order of keys and what the merger may leave out, but nothing of sets or filters: what it needs from its owner is in Hooks.
//
// What always holds:
//
//   - It opens only if nothing is missing or damaged. It checks its own files, the MANIFEST and the logs before Pebble reads or
//     removes a file; Pebble detects missing tables. A store that is refused as damaged has all its data unchanged.
//   - A counter is never issued twice: the store takes a new incarnation unless it was closed cleanly, in this very folder
//     (identity.go).
//   - After a write of the log failed, nothing more is acknowledged (DB.Fail). Reads continue.
//   - On a full disk writes return errors, and nothing is taken back. An existing store opens on one, for reading (holdfs.go).
//   - An iterator of OpenSet shows a set as it was before a swap or as it is after it, never in between.
//     No swap takes effect between what OpenSetAfter calls and the opening of its iterator.
//
// From the open to the close:
//
//	Open    lock ─ format ─ Fits ─ marker, CLOSED, IDENTITY ─ MANIFEST ─ logs ─ leftovers ─ Pebble ─ identity ─ Ready
//	        └──────── refuses: nothing has changed ────────────────────────┘        └ a full disk: in memory (holdfs)
//	Commit  Writable ─ Stalled ─ Mark (the first) ─ Apply ─ wait: on disk
//	Swap    an old iterator for readers ─ read both ends ─ IngestAndExcise
//	Close   no call in progress ─ the owner's last writes ─ mark off ─ Pebble ─ CLOSED
//
// All methods of a DB may be called by any number of goroutines. Slices passed in are not kept; returned slices belong to the
// caller, except those of View. The DB itself runs the goroutine of the scheduler, one for each swap, one that closes, and
// Pebble's.
//
// The files, in reading order:
//
//	db.go          enter and leave, guard and fail, sync, close; open.go the open, flush.go flushes
//	errors.go      what an open refuses, what a disk does; where damage is
//	files.go       which names belong to a store
//	identity.go    format file, actor and incarnation, the mark of the first write, keys that seal tokens; place_linux.go and
//	               place_other.go distinguish a folder from a copy; upgrade.go raises the format
//	salts.go       actors of sets in ranges that were dropped
//	standing.go    the identity of a disk, and which acknowledgements a crash may have taken back
//	manifest.go    Pebble's MANIFEST read before Pebble does; the note of the last close
//	wal.go         the same for Pebble's logs
//	commit.go      batches, ingests, single values
//	unflushed.go   which elements memtables may hold: all others are looked up only in tables; spare.go the iterator for that
//	swapgate.go    replacing or excising a span while others read
//	disk.go        free space, ballast, slow disks: what is refused when
//	holdfs.go      an open on a full disk: heldfile.go its files, settle.go its end
//	retry.go       delays before failed flushes and compactions are tried again
//	scheduler.go   compactions rest after an open
//	pebble.go      Pebble's options, and the merger; tuning.go the options that a program may set; unreserved.go a file system for
//	               stores in memory; assert_race.go and assert_norace.go what Pebble asserts under the race detector
//	keycount.go    how many keys of each set a table holds; tables.go and rangetables.go read it
//	dotranges.go   which dots a block of a table may have
//	tablefs.go     tables that Pebble would panic on
//	spanfiles.go   new tables, before they are part of the store
//	copy.go        a copy of a store that is in use
//	restore.go     a store from a copy; unfinished.go recognizes an unfinished one
//	damages.go     the sets and filters in which damage was found, for the next process
//	events.go      events, counters, Pebble's log; timing.go counts latencies
package lsm
