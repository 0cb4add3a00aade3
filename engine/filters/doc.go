// Package filters keeps bloom filters in a store: bits in memory as far as they are needed, pages on disk, and a directory that
// lists what exists. A filter consists of slices, each of which grows by layers (package bloomslice). On a node alone a store has
// all slices of a filter; between replicas it has some of them, and their marks and pages also come from others.
//
//	mark ── slice in memory ──┬─ log of marks (FilterLog, FilterSync) ── replayed after a crash
//	                          └─ dirty pages ── flush: a batch, or a table that is ingested ── keys under the slot of the slice
//	check ── page in memory? ── otherwise read from disk ── pages leave when the cache is full (trim)
//	drop ── directory says "left" ── exciser excises the keys ── directory forgets
//
// Laws:
//
//   - A key whose mark was acknowledged is never denied: not after a crash (as far as the filter's durability promises), not while
//     pages are read, written or taken out of memory, and not because of damage, which is an error and never "no".
//   - A generation of a filter that was dropped never comes back, and a name that is created again starts empty.
//   - For a filter that the directory lists, no page is on disk without its layer, and no slice has a head without its entry.
//   - A check whose pages are in memory takes no lock. Marks of one slice wait for each other; those of different slices don't.
//   - Memory returns to Options.CacheBytes. From a quarter above that on, marks and checks wait until it does. Filters that are
//     only in memory, which Limits bound, and pages that can't be written are not included.
//
// The package builds on engine/internal/lsm and knows nothing of sets. The store that owns it uses an Owner; programs get Filters
// from the store. docs/architecture.md lists the locks, and the order in which they are taken.
//
// Files, in the order to read them:
//
//	filters.go     Filters: the list, making a filter; owner.go what the store calls; directory.go which filters exist
//	filter.go      Filter: check, mark, flush, close; now.go marking without waiting
//	slice.go       one slice, open or closed; stored.go its head, layers and pages on disk; idle.go slices with nothing in memory
//	counts.go      what a filter counts
//	flush.go       pages to disk, closing, trimming; ring.go the slices that a trim visits
//	replay.go      the log of marks after a crash; the log itself is package engine/internal/marklog
//	drop.go        dropping and clearing; excise.go excises the keys in the background
//	limits.go      what a filter may take
//	adopt.go       turning a filter that was made alone into one of several replicas
//	export.go      reading a whole filter; import.go making one from pages from elsewhere
//	slices.go      slices between replicas: marks, drops, generations; making.go making them; slicepages.go digests and pages of them;
//	               pagesums.go hashes of pages that are kept; check.go checks; stamp.go whether anything has changed
//	verify.go      looking for damage
package filters
