package spec

import "time"

// Workload is a load that a file describes: stores, sets, phases, and what must come of it.
type Workload struct {
	Name  string // [a-z0-9-]; the name of the rows that it measures
	About string // one line: what it shows

	Seed uint64 // runs with equal seeds do the same operations; 0 is the run's

	// Small and Full are the sizes, in elements of all sets together, of a default run and of a full one. The phases run once for each, in
	// stores of their own, one after the other. Both have at least one; most have one. They ascend.
	Small, Full []int
	// BlobSmall and BlobFull are the greatest sizes for the system blob, which runs a size above them at them. At least 1.
	BlobSmall, BlobFull int

	Systems    []System // never empty; bigset comes first if it is there
	Strategies []string // of the system bigset, by their names in package compaction; never empty. "" is the run's

	Sets     Sets
	Elements Elements
	Store    Store
	Phases   []Phase // never empty

	Assertions []Assertion

	Source string // the text of the file, as it was read
}

// Rows returns the names of the rows that the workload measures, in the order of its phases: a row for each phase that is measured, and one
// for each of its roles that has a name.
func (w *Workload) Rows() (rows []string) {
	for _, p := range w.Phases {
		rows = append(rows, w.PhaseRows(p)...)
	}
	return rows
}

// PhaseRows returns those of one phase: that of the phase first, and none if it is not measured.
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

// Main is the name of the phase whose row has the workload's name alone.
const Main = "main"

// System is a way to keep sets that a workload runs on.
type System string

// The systems.
const (
	Bigset System = "bigset" // the engine
	Pebble System = "pebble" // raw Pebble: by hand, with the same keys, options and batches
	Blob   System = "blob"   // a set in one value
)

// Count is a number of things: a share of the size of the run, or absolute. One of the two fields is 0.
type Count struct {
	Of       float64 // of the size: 0.5 is half as many as the set has elements at this size
	Absolute int
}

// At returns the number at a size, at least 1 where the Count is not zero.
func (c Count) At(size int) int {
	if c == (Count{}) {
		return 0
	}
	return max(1, c.Absolute, int(c.Of*float64(size)+0.5))
}

// Sets says how many sets there are, and which of them an operation is on.
type Sets struct {
	Count  Count        // at least 1
	Choose Distribution // of an operation's set
}

// Elements says what elements look like.
type Elements struct {
	// MinBytes and MaxBytes are the least and greatest length of an element; each length between them is as likely as any. An element's
	// length depends on its number alone. MinBytes is at least 8.
	MinBytes, MaxBytes int
	// Ascending elements sort by their age: each sorts after all that were added before by the same client. Others sort anywhere.
	Ascending bool
}

// Store says how stores are opened. Zero values are the run's.
type Store struct {
	MemTableBytes int
	// MemTableAt is the size at which MemTableBytes (or the run's) holds: with fewer elements the memtable shrinks in proportion, so that
	// it fills as often in a small run. 0 is never.
	MemTableAt int
	CacheBytes int64
	// CacheShare makes the block cache that share of the bytes that the elements of the size take, in place of CacheBytes; 0 is not.
	CacheShare    float64
	SetCacheBytes int64
	Record        string // merge or set; "" follows from the strategy
	Sync          bool   // writes are durable before the next one
	// Warm brings stores to the memtables of a long run before the first phase.
	Warm         bool
	KeepContexts bool // wide contexts are kept unresolved
	// Pebble are options of the LSM by their names in Options of this package. A system that is not Pebble or the engine ignores them.
	Pebble map[string]int64
}

// Phase is a stretch of a run. What it does first is outside its measured time.
type Phase struct {
	Name string // "main" gives its rows the workload's name alone; others are rows "workload/name"

	First []Step // what is done before it begins, in order

	// Ops is how many operations the phase has, of all its clients together; Duration is how long it goes on. One of them is set, unless
	// there are no roles. A phase with both ends with what comes first.
	//
	// Ops counts elements of kinds that batch, and calls of the others: an exchange of a batch of 50 removes 50 and adds 50, and counts 100;
	// an exchange of one counts 2. Clients share the operations of a phase evenly, whatever their role; a probe has none of
	// them.
	Ops      Count
	Duration time.Duration
	// DurationFull takes the place of Duration in a full run; 0 is Duration.
	DurationFull time.Duration

	// Unmeasured phases load or warm up: they have no rows.
	Unmeasured bool

	// Settle counts what writes leave to do as theirs: the memtable is flushed and compactions are awaited before the clock stops.
	Settle bool
	// Rest waits, outside the measured time, until the strategy wants nothing more. Its bytes count.
	Rest bool
	// Compact takes what is dead off the disk as the phase's own, as StepCompact does, when all operations have ended and before Settle.
	Compact bool

	// Reopen makes opening the store again what a phase without roles does: after StepRestart or StepKill. "" is not.
	Reopen Step
	// SpaceBack is the share of space that must be free before the phase ends: with 0.98, the phase waits after Compact until tables take 2 % of
	// the bytes that they took when it began. A system that compacts only when asked is asked first. 0 does not wait.
	SpaceBack float64

	// Beside names a phase before this one. The figure kept is this phase's speed beside that one's; "" is none.
	Beside string

	Roles []Role // what the clients do; empty if only steps are done
}

// Step is something that is done to a store between two phases.
type Step string

// The steps.
const (
	StepSettle  Step = "settle"  // flush, and wait until compactions rest
	StepCompact Step = "compact" // take what is dead off the disk, the way the system does it
	StepRestart Step = "restart" // close the store in order and open it again
	StepKill    Step = "kill"    // go on with what the disk would hold after a crash of the process, once the log was synced
	StepVerify  Step = "verify"  // prove the store right, and compare the number of its elements
	StepDrop    Step = "drop"    // drop all sets
	// StepBottom brings all that is there to the bottommost level, the way Pebble does it, whatever the strategy.
	StepBottom Step = "bottom"
	// StepEmpty goes on with a new store, opened alike, without sets. The operations after it are on other elements.
	StepEmpty Step = "empty"
	// StepFresh goes on with a new store into which the elements that live were loaded in batches, and settled.
	StepFresh Step = "fresh"
)

// Role is a group of clients that do alike. Each client is a goroutine that owns its part of each set's elements: it adds, removes and looks
// up those alone, so that a run does the same whatever the order of the clients.
type Role struct {
	Name    string // its rows end in "/name"; one role of a phase may have "", and then has the phase's row
	Clients int    // at least 1

	// Rate is how many operations a second all of its clients start together. Latencies count from when an operation was due. 0 is a
	// closed loop: each client starts an operation when the one before has ended.
	Rate float64
	// RateEnd, if it is not 0, is the rate at the end of the phase; the rate rises or falls evenly. Only with a Duration.
	RateEnd float64

	// Every makes the role a probe: the other roles have one client together, and each time that its operations (as Ops counts them) have
	// grown by Every the probe does one, while the clock of the others stands still. Zero is not. A probe is one client with Rate 0,
	// only reads, and chooses among the elements of the client that it follows.
	Every Count

	Mix []Share // what operations are, never empty
	// Turns spaces the kinds evenly by their weights, in place of drawing each by chance: weights of 3 and 1 give three of the one, then
	// one of the other, again and again. The order of the first operations of the kinds is that of Mix.
	Turns bool

	// Batch is how many elements one operation names, of the kinds of which Kind.Batches is true; at least 1. The other kinds name one.
	// Latencies are those of calls.
	Batch Count

	// Replicas is, of Receive, how many other replicas each client receives from, in turns; at least 1.
	Replicas int

	Choose Distribution // which elements are removed, replaced and looked up, and where ranges begin
	// Limit is how many elements a read, range, prefix or take asks for; zero is all, and does not occur with take.
	Limit Count

	Context Context // of removes, replaces and exchanges; None also of adds
	// ByDot makes raw Pebble look up one key, with a Get, for which one has to know the dot. Other systems do not change.
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
	Miss     Kind = "miss"     // an element that never was
	Dead     Kind = "dead"     // an element that was removed
	Read     Kind = "read"     // elements in order with contexts, from the first one
	Range    Kind = "range"    // elements in order, from a chosen one on
	Prefix   Kind = "prefix"   // elements with a prefix that about a hundred have
	First    Kind = "first"    // the time until the first element of a set is at hand
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

// Context says what removes and replaces know of what they replace.
type Context string

// The contexts.
const (
	Narrow Context = "narrow" // the element's dot
	Wide   Context = "wide"   // the set's clock when the phase began
	// None is nothing: the store looks the element up, under policy coordinator. Raw Pebble and blob are told what is there.
	None Context = "none"
)

// Distribution says which of some things is chosen. Elements are ranked by age among the live ones of a client, sets by number.
type Distribution struct {
	Kind DistributionKind
	// Theta is the skew of zipfian and latest, between 0 and 1 (YCSB's constant is 0.99).
	Theta float64
	// Share is, of pareto, the share of things that get the rest of the choices: 0.2 of them get 0.8. Of young, it is the share of the
	// elements, the newest, that get Choices of the choices.
	Share, Choices float64
	// Window is, of timeline, how many of the newest are chosen from, each as likely as any.
	Window Count
}

// DistributionKind is the name of a distribution.
type DistributionKind string

// The distributions.
const (
	Uniform  DistributionKind = "uniform"
	Zipfian  DistributionKind = "zipfian"  // popular ones are anywhere
	Latest   DistributionKind = "latest"   // the newer, the more popular, as zipfian
	Pareto   DistributionKind = "pareto"   // some few get most
	Young    DistributionKind = "young"    // the newest get most
	Queue    DistributionKind = "queue"    // always the oldest
	Sawtooth DistributionKind = "sawtooth" // one after the other from the oldest to the newest, again and again
	Timeline DistributionKind = "timeline" // the newest ones, each alike
)

// Assertion is what must come of a run: a figure of a row, or the ratio of two, against a limit.
type Assertion struct {
	Text  string // as the file has it
	Means string // the figure in words
	Why   string // what is known of why it may be missed; shown where it is

	Of, To Ref  // To is zero if Of stands alone
	Minus  bool // the difference Of - To is judged, at least 0; else the ratio
	Shown  bool // there is no limit: nothing is judged
	AtMost bool
	Limit  float64
	Line   int // of the file
}

// Ref names a figure of a row.
type Ref struct {
	Figure   string // as in the JSON of reports: p99_us, or without its unit: p99
	Row      string // as in reports: the workload's name, "workload/phase", "workload/role" (of main) or "workload/phase/role"
	System   System // the first of the workload's, where the text names none
	Strategy string // "" is the run's
	Smallest bool   // the row of the least size, in place of the size of the other figure
}
