package model

import "bigset/convergence"

// Bug is a switch that breaks one rule.
type Bug string

// Variants are the correct systems; each has a design that some of the bugs break.
var Variants = []Options{
	{},
	{KeepContexts: true},
	{Reserve: true},
	{Copy: Claim},
	{Copy: Track},
	{Scrub: true},
	{IDs: true},
}

// Broken lists the bugs with what each does. The options are those of the correct twin.
var Broken = []struct {
	Bug  Bug
	What string
	Of   Options
}{
	{"seen-delta-ignored", "a delta whose dot is seen is skipped with its context", Options{}},
	{"remove-without-context", "a remove kills all that its replica has, also what its client had not seen", Options{}},
	{"remove-forgets-unseen", "a remove's context dots that have not arrived are not remembered", Options{}},
	{"add-does-not-replace", "an add's context is not applied", Options{}},
	{"context-of-coordinator", "the coordinator's own dots are killed although the client gave a context", Options{}},
	{"context-crosses-elements", "a wide context kills other elements' dots", Options{}},
	{"wide-joins-seen", "a wide context enters the clock", Options{}},
	{"wide-forgotten-early", "a wide remove is dropped before its context is seen", Options{KeepContexts: true}},
	{"wide-dropped-when-dead", "a wide add's key goes with its dot, and its kills with it", Options{KeepContexts: true}},
	{"batch-torn", "a part of a batch is written before the rest", Options{}},
	{"batch-reversed", "operations of one batch take effect backwards", Options{}},
	{"one-dot-per-batch", "several elements share a dot", Options{}},
	{"concurrent-add-lost", "of two concurrent adds of one element the lower dot is overwritten", Options{}},
	{"last-writer-wins", "a concurrent add and remove are settled by time", Options{}},
	{"no-op-mints", "a remove of nothing takes a counter and sends no delta", Options{}},

	{"counter-reused", "the same actor goes on after it lost unsynced writes", Options{}},
	{"counter-from-base", "the next counter comes from the clock's base: own dots beyond a gap are ignored", Options{Reserve: true}},
	{"actor-shared", "two replicas mint as one actor", Options{}},
	{"restored-backup-keeps-actor", "a restored backup goes on with its old actor and counter", Options{}},
	{"ack-before-sync", "what is not synced is acknowledged", Options{}},
	{"duplicate-acked-early", "a duplicate is acknowledged before its first copy is durable", Options{}},
	{"clock-before-key", "the clock is written before the key, in a batch of its own", Options{}},
	{"key-before-clock", "the key is written before the clock, whose last counter goes on after a crash", Options{}},
	{"max-clock", "a version vector without gaps: a later dot hides an earlier one that is missing", Options{}},

	{"tombstone-forgotten", "Dead shrinks once the key is gone", Options{}},
	{"clock-forgotten", "the clock of an emptied set is dropped", Options{}},
	{"drop-by-undurable-dead", "compaction drops a key by a tombstone that a crash takes back", Options{}},
	{"drop-superseded-chain", "a superseded key is dropped with its context, and what it had superseded comes back", Options{KeepContexts: true}},
	{"rewriter-misses-write", "what is written between reading a span and swapping it is lost", Options{}},
	{"clear-takes-all", "a whole-set delete removes concurrent adds", Options{}},
	{"clear-forgets", "a whole-set delete deletes keys and remembers nothing", Options{}},

	{"copy-clock-first", "the source's clock is joined before its keys have come", Options{}},
	{"copy-last-clock", "the clock of the copy's end claims what was written after its cursor", Options{Copy: Claim}},
	{"copy-first-tombstone", "only the tombstone of the first chunk is taken", Options{Copy: Claim}},
	{"copy-resume-new-clock", "a copy is resumed with a newer clock", Options{Copy: Claim}},
	{"copy-resume-other-incarnation", "a copy is resumed after its source lost writes", Options{Copy: Claim}},
	{"copy-unfiltered", "the source sends keys that its Dead covers", Options{Copy: Track}},
	{"copy-tracker-kept", "a copy that starts again counts what the aborted one had sent", Options{Copy: Track}},
	{"copy-cut-is-complete", "a copy that was cut is closed as if all had come", Options{Copy: Track}},
	{"range-half-dropped", "elements are given up, the clock is kept, and a later copy skips them as seen", Options{}},
	{"ae-clock-first", "anti-entropy joins the clock, and fetches the keys later", Options{}},
	{"ae-seen-only", "equal clocks are taken for equal states", Options{}},
	{"ae-missing-is-dead", "no key in an answer is taken for a removal", Options{Scrub: true}},
	{"repair-joins-clock", "read repair joins the merged clock", Options{}},
	{"repair-stale", "read repair is judged by the reader's clock, not by the receiver's state", Options{}},
	{"repair-absent-is-dead", "a lost key is spread as a removal", Options{Scrub: true}},

	{"read-union", "streams are merged without clocks", Options{}},
	{"read-pairs", "three streams are merged in pairs, the pair's clock is not joined", Options{}},
	{"read-clock-newer", "a stream's clock is read after its keys", Options{}},
	{"read-torn-iterator", "keys of one moment are judged by the tombstone of a later one", Options{}},
	{"read-past-least-last", "an element that was not yet received is taken for absent", Options{}},
	{"failover-keeps-clock", "a stream that failed still has a say by its clock", Options{}},
	{"failover-repeats", "a read starts again when a replica is replaced", Options{}},
	{"failover-skips", "a replacement begins after what the failed stream had sent, not after what was merged", Options{}},
	{"context-covers-unshown", "one context of the first clocks also serves after a replacement", Options{}},
	{"page-cuts-element", "an element's dots on two pages are two elements", Options{}},
	{"empty-answer-counts", "a replica that lost its disk answers that there is nothing", Options{}},

	{"retry-mints-again", "an operation that comes again takes a new dot", Options{IDs: true}},
	{"id-not-replicated", "only the coordinator of an operation keeps its id", Options{IDs: true}},
	{"id-forgotten-in-crash", "ids are kept in memory only", Options{IDs: true}},
	{"retry-acked-early", "a retry is acknowledged before the first try is durable", Options{IDs: true}},
}

// Options says which of the possible designs the replicas have, and what is broken.
type Options struct {
	KeepContexts bool     // wide contexts are kept unresolved until they are seen; otherwise the coordinator resolves them
	Reserve      bool     // counters are reserved durably, and the actor outlives a crash
	Copy         Protocol // how a copy is closed
	Scrub        bool     // the disk may lose keys, and anti-entropy fetches them again
	IDs          bool     // operations are known by their clients' ids
	Bug          Bug
}

// Protocol is how a copy is closed.
type Protocol int

const (
	Facts Protocol = iota // only keys and deaths count; the source's first clock is a check
	Claim                 // the source's first clock and its Dead are joined
	Track                 // what the first clock covers and did not come is dead
)

// System returns replicas with these options.
func System(o Options) convergence.System {
	name := "model"
	for _, f := range []struct {
		on   bool
		name string
	}{{o.KeepContexts, "-open"}, {o.Reserve, "-reserve"}, {o.Copy == Claim, "-claim"}, {o.Copy == Track, "-track"}, {o.Scrub, "-scrub"}, {o.IDs, "-ids"}} {
		if f.on {
			name += f.name
		}
	}
	if o.Bug != "" {
		name += "+" + string(o.Bug)
	}
	return convergence.System{
		Name:  name,
		Open:  func(env convergence.Env) (convergence.Replica, error) { return open(env, o) },
		Merge: merge, Retries: o.IDs,
		Spec: convergence.AddWins{Replace: true, Clear: true},
	}
}
