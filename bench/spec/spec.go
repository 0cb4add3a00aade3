package spec

import "time"

// Workload is a load described by a file: stores, sets, phases, and assertions.
type Workload struct {
	Name  string // [a-z0-9-]; the name of the rows that it measures
	About string // one line: what it shows

	Seed uint64 // runs with equal seeds do the same operations; 0 means the run's seed

	// Small and Full are the sizes, in elements of all sets together, of a default run and of a full run. The phases run once for each
	// size, in stores of their own, one size after another. Both contain at least one size, mostly exactly one. They ascend.
	Small, Full []int
	// BlobSmall and BlobFull are the largest sizes for the system blob, which uses them instead of larger sizes. At least 1.
	BlobSmall, BlobFull int

	Systems    []System // never empty; bigset comes first if it is included
	Strategies []string // of the system bigset, by their names in package compaction; never empty. "" means the run's

	Sets     Sets
	Elements Elements
	Store    Store
	Phases   []Phase // never empty

	Assertions []Assertion

	Source string // the text of the file
}

// Rows returns the names of the rows that the workload measures, in the order of its phases: a row for each measured phase, and one for
// each of its roles with a name.
func (w *Workload) Rows() (rows []string) {
	for _, p := range w.Phases {
		rows = append(rows, w.PhaseRows(p)...)
	}
	return rows
}

// PhaseRows returns the rows of one phase, that of the phase itself first. A phase that is not measured has none.
func (w *Workload) PhaseRows(p Phase) []string {
	if p.Unmeasured {
		return nil
	}
	row := w.Name
	if p.Name != Main {
		row += "/" + p.Name
	}
	rows := []string{row}
	for _, role := range p.Roles {
		if role.Name != "" {
			rows = append(rows, row+"/"+role.Name)
		}
	}
	return rows
}

// Main is the name of the phase whose row has the workload's name only.
const Main = "main"

// System is a way to store sets that a workload runs on.
type System string

// The systems.
const (
	Bigset System = "bigset" // the engine
	Pebble System = "pebble" // raw Pebble: by hand, with the same keys, options and batches
	Blob   System = "blob"   // a set in one value
)

// Count is a number of items: a share of the size of the run, or absolute. One of the two fields is 0.
type Count struct {
	Of       float64 // of the size: 0.5 means half as many as the set has elements at this size
	Absolute int
}

// At returns the number at a size; it is at least 1 unless the Count is zero.
func (c Count) At(size int) int {
	if c == (Count{}) {
		return 0
	}
	return max(1, c.Absolute, int(c.Of*float64(size)+0.5))
}

// Sets says how many sets exist, and on which of them an operation acts.
type Sets struct {
	Count  Count        // at least 1
	Choose Distribution // of an operation's set; a Role may have another
}

// Elements says what elements look like.
type Elements struct {
	// MinBytes and MaxBytes are the least and greatest length of an element; all lengths between them are equally likely. The length of an
	// element depends only on its number. MinBytes is at least 8.
	MinBytes, MaxBytes int
	// Ascending elements sort by age: each sorts after all those that the same client added before. Other elements sort anywhere.
	Ascending bool
}

// Store says how stores are opened. Zero values mean the run's.
type Store struct {
	MemTableBytes int
	// MemTableAt is the size at which MemTableBytes (or the run's) holds: with fewer elements the memtable shrinks in proportion, so that
	// it fills as often in a small run. 0 means that it does not shrink.
	MemTableAt int
	CacheBytes int64
	// CacheShare sets the size of the block cache to a share of the bytes of the elements, instead of CacheBytes; 0 means unused.
	CacheShare    float64
	SetCacheBytes int64
	Record        string // merge or set; "" means that it follows from the strategy
	Sync          bool   // writes are durable before the next one
	// Warm brings stores to the memtables of a long run before the first phase.
	Warm         bool
	KeepContexts bool // wide contexts are kept unresolved
	// Pebble contains options of the LSM by their names in Options of this package. Systems other than Pebble and the engine ignore them.
	Pebble map[string]int64
}

// Phase is a part of a run. Its first steps are outside its measured time.
type Phase struct {
	Name string // "main" gives its rows the workload's name only; rows of others are "workload/name"

	First []Step // steps before it begins, in order

	// Ops is how many operations all clients of the phase do together; Duration is how long the phase lasts. One of them is set, unless
	// there are no roles. A phase with both ends when either is reached.
	//
	// Ops counts elements for kinds that batch, and calls for the others: an exchange of a batch of 50 removes 50 and adds 50, and counts
	// 100; an exchange of one counts 2. Clients share the operations of a phase evenly, whatever their role; a probe has none of them.
	Ops      Count
	Duration time.Duration
	// DurationFull replaces Duration in a full run; 0 means Duration.
	DurationFull time.Duration

	// Unmeasured phases load or warm up. They have no rows.
	Unmeasured bool

	// Settle adds to the writes the work that they leave: the memtable is flushed and compactions are awaited before the clock stops.
	Settle bool
	// Rest waits, outside the measured time, until the strategy has nothing more to do. Its bytes count.
	Rest bool
	// Compact removes dead keys from the disk as part of the phase, as StepCompact does, after all operations have ended and before Settle.
	Compact bool

	// Reopen makes a phase without roles open the store again, after StepRestart or StepKill. "" means no reopening.
	Reopen Step
	// SpaceBack is the share of space that must be free before the phase ends: with 0.98, the phase waits after Compact until tables take 2
	// % of their bytes at its beginning. A system that compacts only on request is asked first. 0 means no waiting.
	SpaceBack float64

	// Beside names an earlier phase. The figure kept is this phase's speed relative to that one's; "" means none.
	Beside string

	Roles []Role // what the clients do; empty if only steps run
}

// Step is an action on a store between two phases.
type Step string

// The steps.
const (
	StepSettle  Step = "settle"  // flush, and wait until compactions rest
	StepCompact Step = "compact" // remove dead keys from the disk in the system's own way
	StepRestart Step = "restart" // close the store cleanly and open it again
	StepKill    Step = "kill"    // continue with the contents of the disk after a crash of the process with a synced log
	StepVerify  Step = "verify"  // verify the store, and compare the number of its elements
	StepDrop    Step = "drop"    // drop all sets
	// StepBottom moves everything to the bottommost level, as Pebble does it, whatever the strategy.
	StepBottom Step = "bottom"
	// StepEmpty continues with a new store, opened in the same way, without sets. Later operations act on other elements.
	StepEmpty Step = "empty"
	// StepFresh continues with a new store into which the live elements were loaded in batches, and which has settled.
	StepFresh Step = "fresh"
)

// Lasts returns how long the phase lasts in a full run or in a small one; 0 means that it ends by operations.
func (p *Phase) Lasts(full bool) time.Duration {
	if full && p.DurationFull > 0 {
		return p.DurationFull
	}
	return p.Duration
}

// Role is a group of clients with equal behaviour. Each client is a goroutine that owns its part of each set's elements: it adds, removes
// and looks up only those, so that a run does the same in any order of the clients.
type Role struct {
	Name    string // its rows end in "/name"; one role of a phase may have "" and uses the phase's row
	Clients int    // at least 1

	// Rate is how many calls a second all its clients start together; a call is an operation or a batch of them. Latencies count from when a
	// call was due. 0 means a closed loop: each client starts a call when the one before has ended.
	Rate float64
	// RateEnd, if it is not 0, is the rate at the end of the phase; the rate rises or falls evenly. Only with a Duration.
	RateEnd float64

	// Every makes the role a probe: the other roles together have one client, and whenever its operations (as Ops counts them) have grown
	// by Every, the probe does one while the clock of the others is stopped. Zero means no probe. A probe is one client with Rate 0, only
	// reads, and chooses among the elements of the client that it follows.
	Every Count

	Mix []Share // kinds of its operations, never empty
	// Turns spaces the kinds evenly by their weights instead of drawing each at random: weights of 3 and 1 give three of the one, then one
	// of the other, repeatedly. The order of the first operations of the kinds is that of Mix.
	Turns bool

	// Batch is how many elements one operation names, for kinds whose Kind.Batches is true; at least 1. Other kinds name one. Latencies are
	// those of calls.
	Batch Count

	// Replicas is for Receive: how many other replicas each client receives from, in turns; at least 1.
	Replicas int

	// Sets says on which set an operation acts. The zero Distribution means that of the workload.
	Sets Distribution

	Choose Distribution // which elements are removed, replaced and looked up, and where ranges begin
	// Limit is how many elements a read, range, prefix or take requests. Zero means all, which take does not allow.
	Limit Count

	Context Context // of removes, replaces and exchanges; None also applies to adds
	// ByDot makes raw Pebble look up one key with a Get, which requires the dot. Other systems do not change.
	ByDot bool
}

// Share is a kind of operation and its weight in a mix.
type Share struct {
	Kind   Kind
	Weight float64 // above 0
}

// Kind is what an operation does.
type Kind string

// The kinds of operation.
const (
	Add      Kind = "add"      // new elements
	Receive  Kind = "receive"  // new elements that another replica has added; only bigset knows
	Replace  Kind = "replace"  // present elements are added again
	Remove   Kind = "remove"   // present elements are removed
	Exchange Kind = "exchange" // present elements are removed and as many new ones added, in one atomic batch
	Take     Kind = "take"     // the first elements are read and removed
	Drop     Kind = "drop"     // all elements of a set are removed at once
	Hit      Kind = "hit"      // a present element is looked up, with its context
	Miss     Kind = "miss"     // an element that never existed
	Dead     Kind = "dead"     // an element that was removed
	Read     Kind = "read"     // elements in order with contexts, from the first one
	Range    Kind = "range"    // elements in order, from a chosen one on
	Prefix   Kind = "prefix"   // elements with a prefix that about a hundred elements share
	First    Kind = "first"    // the time until the first element of a set arrives
	CountAll Kind = "count"    // how many elements a set has
	Live     Kind = "live"     // how many live dots a set has; only bigset knows
	// Checkpoint copies the store into a folder of its own, while it is in use. The folders are removed after the phase.
	Checkpoint Kind = "checkpoint"
)

// Kinds returns all kinds of operation, in the order of their descriptions.
func Kinds() []Kind {
	return []Kind{Add, Receive, Replace, Remove, Exchange, Take, Drop, Hit, Miss, Dead, Read, Range, Prefix, First, CountAll, Live, Checkpoint}
}

// Batches reports whether one operation of the kind can name several elements.
func (k Kind) Batches() bool {
	return k == Add || k == Receive || k == Replace || k == Remove || k == Exchange
}

// Writes reports whether operations of the kind change a set.
func (k Kind) Writes() bool { return k.Batches() || k == Take || k == Drop }

// Removes reports whether elements are fewer, or others, after an operation of the kind.
func (k Kind) Removes() bool { return k == Remove || k == Exchange || k == Take || k == Drop }

// OnlyBigset reports whether the other systems have no operation of the kind.
func (k Kind) OnlyBigset() bool { return k == Live || k == Receive }

// Context says what removes and replaces know about the elements that they replace.
type Context string

// The contexts.
const (
	Narrow Context = "narrow" // the set's clock at the beginning of the phase
	Wide   Context = "wide"   // the set's clock when the phase began
	// None is nothing: the store looks the element up, under policy coordinator. Raw Pebble and blob get the dot all the same.
	None Context = "none"
)

// Distribution says which items are chosen. Elements are ranked by age among the live ones of a client, sets by number.
type Distribution struct {
	Kind DistributionKind
	// Theta is the skew of zipfian and latest, between 0 and 1 (YCSB's constant is 0.99).
	Theta float64
	// Share is for pareto the share of items that get the rest of the choices: 0.2 of them get 0.8. For young it is the share of the
	// elements, the newest, that get Choices of the choices.
	Share, Choices float64
	// Window is for timeline: how many of the newest items are chosen from, all equally likely.
	Window Count
}

// DistributionKind is the name of a distribution.
type DistributionKind string

// The distributions.
const (
	Uniform  DistributionKind = "uniform"
	Zipfian  DistributionKind = "zipfian"  // the popular ones are anywhere
	Latest   DistributionKind = "latest"   // like zipfian, but the newer, the more popular
	Pareto   DistributionKind = "pareto"   // a few get most
	Young    DistributionKind = "young"    // the newest get most
	Queue    DistributionKind = "queue"    // always the oldest
	Sawtooth DistributionKind = "sawtooth" // one after another from the oldest to the newest, repeatedly
	Timeline DistributionKind = "timeline" // the newest ones, all equally likely
)

// Assertion is a requirement on the result of a run: a figure of a row, or the ratio of two, against a limit.
type Assertion struct {
	Text  string // as in the file
	Means string // the figure in words
	Why   string // known reasons for a miss; shown after one

	Of, To Ref  // To is zero if Of stands alone
	Minus  bool // the difference Of - To is judged, at least 0; otherwise the ratio
	Shown  bool // no limit: nothing is judged
	AtMost bool
	Limit  float64
	Line   int // of the file
}

// Ref names a figure of a row.
type Ref struct {
	Figure   string // as in the JSON of reports: p99_us, or without its unit: p99
	Row      string // as in reports: the workload's name, "workload/phase", "workload/role" (of main) or "workload/phase/role"
	System   System // default: the first of the workload's
	Strategy string // "" means the run's
	Smallest bool   // the row of the least size, instead of the size of the other figure
}
