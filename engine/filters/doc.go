// Package filters keeps bloom filters in a store: bits in memory as far as they are needed, pages on disk, a directory that names what
// exists. A filter is made of slices, each of which grows by layers (package bloomslice); on a node alone a store has all slices of a
// filter, and between replicas it has some, whose marks and pages come from others too.
//
//	mark ── slice in memory ──┬─ log of marks (FilterLog, FilterSync) ── replayed after a crash
//	                          └─ dirty pages ── flush: a batch, or a table that is ingested ── keys under the slot of the slice
//	check ── page in memory? ── otherwise read from disk ── pages leave when the cache is full (trim)
//	drop ── directory says "left" ── exciser excises the keys ── directory forgets
//
// Laws:
//
//   - A key whose mark was acknowledged is never denied: not after a crash (as far as the filter's durability promises), not while pages
//     are read, written or taken out of memory, not by damage, which is an error and never "no".
//   - A generation of a filter that was dropped never comes back, and a name that is created again starts empty.
//   - Of a filter that the directory lists no page is on disk without its layer, and no slice has a head without its entry.
//   - A check whose pages are in memory takes no lock. Marks of one slice wait for one another, and those of others don't.
//   - What is in memory comes back to Options.CacheBytes, and from a quarter more on marks and checks wait for that. Filters that are in
//     memory only, which Limits bound, and pages that can't be written come on top.
//
// The package stands on engine/internal/lsm and knows nothing of sets. The store that owns it calls an Owner; programs get Filters from
// the store. The locks, and the order in which they are taken, are in docs/architecture.md.
//
// Files, in the order to read them:
//
//	filters.go     Filters: the list, making a filter; owner.go what the store calls; directory.go which filters there are
//	filter.go      Filter: check, mark, flush, close; now.go marking without waiting
//	slice.go       one slice, open or closed: its head, layers and pages; idle.go those of which nothing is in memory
//	counts.go      what a filter counts
//	flush.go       pages to disk, closing, trimming; ring.go the slices that a trim goes round
//	replay.go      the log of marks after a crash; the log itself is package engine/internal/marklog
//	drop.go        dropping and clearing; excise.go excises the keys in the background
//	limits.go      what a filter may take
//	adopt.go       a filter that was made alone goes to several replicas
//	export.go      reading a filter whole; import.go making one of pages from elsewhere
//	slices.go      slices between replicas: marks, drops, generations; making.go making them; slicepages.go digests and pages of them;
//	               pagesums.go hashes of pages that are kept
//	verify.go      damage is looked for
package filters
