package engine_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
)

// TestScripts runs the stories in testdata/script. Each runs by itself, on stores whose disks are in memory and in which nothing happens
// unless a command says so: no background work, no compaction of Pebble's own. With -rewrite their output is written again.
//
// A command is a line, what it does to the store "a" unless at=NAME names another one. scriptCommands lists them all. What they print:
//
//	a1, a2 …       the dots of store a; after a crash it mints a'1, a'2 …, after the next one a''1 …
//	{a1-3 b7}      a clock: runs of dots
//	x{a1 b1}       an element, with the dots by which it is present
//	[x{a1}] of {…} a chunk of a read: its elements, and its clock
//	s e x a1 add   an element key of set s; s c is its clock and s d its tombstone. The key's dot is live or dead, and unresolved {…} if its context
//	               is not resolved yet. It is hidden when the drop filter hides it from readers. It is in memory, or in a level, as which record
//
// Elements may be ranges, k01..k20. What is kept under a name (as=NAME) can be given later: a context as seen=NAME, a delta to apply, a
// power cut to crash. seen=(a1,a2) spells a narrow context out; seen=() is that of a client that saw the element absent.
//
// Commands that write take lines, which are run while they do it, each when its moment comes for the first time:
//
//	syncing: power-cut cut1    what a write appends to the log has been written, and is about to be synced
//	copying: add s late        the first table of a copy is begun, and writers go on
//	swapping: power-cut cut2   writers are held, and the copy is about to take the place of the span
//	swapped: power-cut cut3    it has taken its place
//
// A write that was acknowledged without a sync is in a buffer: a script can't rely on where it is before something syncs the log. What a
// power cut takes of it, or leaves in part, is seen by cuts while it is synced.
//
// At its end a script closes its stores. Those that have not failed must prove themselves right before.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/script/*")
	must(t, err, "list the scripts")
	if len(paths) < 15 {
		t.Fatalf("%d scripts", len(paths))
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			sc := newScript(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				return sc.run(&scriptLine{t: t, pos: d.Pos, cmd: d.Cmd, args: d.CmdArgs, input: d.Input})
			})
			sc.end()
		})
	}
}

// scriptCommand is a command and its help, which a script that uses an unknown one fails with.
type scriptCommand struct {
	name, args, doc string
	run             func(*scriptStore, *scriptLine) string
}

// scriptCommands are all commands.
func scriptCommands() []scriptCommand {
	return []scriptCommand{
		{"open", "[strategy=filter …] [records=set] [contexts=open] [durability=nosync] [span=BYTES] [requests=N] [pages=small]" +
			" [of=STORE folder=FOLDER]", "make a store, or open it; of and folder open a checkpoint", (*scriptStore).openCmd},
		{"close", "", "close it in order", (*scriptStore).closeCmd},
		{"reopen", "", "close it in order, and open it", (*scriptStore).reopenCmd},
		{"power-cut", "NAME [keep=nothing|all]",
			"keep the disk as a power cut at this moment would leave it: without what was not synced, or with it", (*scriptStore).powerCutCmd},
		{"crash", "[NAME] [keep=nothing|all] [torn=BYTES] [flipped=BYTES] [disk=full]", "go on with what a power cut leaves, now or at the one of" +
			" that name; torn cuts bytes off the end of the log, flipped changes the byte that is so far from its end", (*scriptStore).crashCmd},
		{"checkpoint", "FOLDER", "copy the store, while it is open, to a folder on its disk", (*scriptStore).checkpointCmd},
		{"fail", "on=log|marks|table|copy|manifest|any [with=EIO|ENOSPC] [after=N] [times=once]",
			"make the next operations on such files fail", (*scriptStore).failCmd},
		{"mend", "", "end fail", (*scriptStore).mendCmd},
		{"disk", "free=PERCENT", "say how much room the disk has", (*scriptStore).diskCmd},
		{"clock", "+DURATION", "let time go by, for requests", (*scriptStore).clockCmd},

		{"add", "SET ELEMENT… [seen=CONTEXT] [policy=empty] [durability=nosync] [request=ID] [as=NAME]",
			"add elements; as keeps the delta", (*scriptStore).addCmd},
		{"remove", "SET ELEMENT… [as add]", "remove elements", (*scriptStore).removeCmd},
		{"drop", "SET [seen=CONTEXT] [durability=nosync] [as=NAME]", "drop a set; as keeps the delta", (*scriptStore).dropCmd},
		{"drop-range", "[SET]", "drop the slot of a set, or all slots", (*scriptStore).dropRangeCmd},
		{"apply", "DELTA [durability=nosync]", "apply the delta of another store", (*scriptStore).applyCmd},
		{"learn", "SET from=STORE", "ask another store what is missing here of a set, and take it", (*scriptStore).learnCmd},
		{"copy", "SET from=STORE", "take a set from another store as tables", (*scriptStore).copyCmd},
		{"lose", "SET ELEMENT", "take an element's keys away without the store", (*scriptStore).loseCmd},
		{"heal", "SET from=STORE", "put lost keys back, as another store tells them", (*scriptStore).healCmd},

		{"contains", "SET ELEMENT… [as=NAME]", "look elements up; as keeps the context", (*scriptStore).containsCmd},
		{"read", "SET [batch=N] [limit=N] [prefix=P] [order=reverse] [as=NAME]",
			"read a set, a line for each chunk; as keeps the whole context", (*scriptStore).readCmd},
		{"count", "SET", "count elements", (*scriptStore).countCmd},
		{"context", "SET [as=NAME]", "the clock of a set; as keeps it as a wide context", (*scriptStore).contextCmd},
		{"sets", "[all=yes]", "list sets; all lists those that are empty, too", (*scriptStore).setsCmd},
		{"reader", "NAME SET [batch=N]", "begin to read a set, and take one chunk", (*scriptStore).readerCmd},
		{"next", "NAME", "take the next chunk of a reader", (*scriptStore).nextCmd},
		{"stop", "NAME", "end a reader", (*scriptStore).stopCmd},
		{"knows", "SET ID", "whether a request is kept", (*scriptStore).knowsCmd},

		{"publish", "", "one round of the publisher: tombstones to the drop filter", (*scriptStore).publishCmd},
		{"flush", "", "memtables to tables", (*scriptStore).flushCmd},
		{"settle", "", "compact all tables to the bottommost level, through the drop filter", (*scriptStore).settleCmd},
		{"rewrite", "SET", "the rewriter, over all spans of a set that have something dead", (*scriptStore).rewriteCmd},
		{"sweep", "", "the rewriter, over ranges of small sets", (*scriptStore).sweepCmd},
		{"compact", "[SET]", "what a user's compaction does, of a set or all", (*scriptStore).compactCmd},
		{"written", "SET when=long-ago|now",
			"say when a set was last written, which decides when the background works on it", (*scriptStore).writtenCmd},
		{"tick", "", "what the background finds to do now", (*scriptStore).tickCmd},

		{"ls", "[SET] [own=yes]",
			"the keys on disk or on their way to it, and where they are; own lists those of the store itself, too", (*scriptStore).lsCmd},
		{"dump", "SET", "Seen, Dead, flags, and what the drop filter knows", (*scriptStore).dumpCmd},
		{"tables", "", "how many records of which kind each level has", (*scriptStore).tablesCmd},
		{"stats", "FIGURE…", "figures of the store", (*scriptStore).statsCmd},
		{"events", "", "what the store has reported since the last such command", (*scriptStore).eventsCmd},
		{"verify", "", "let the store prove itself right", (*scriptStore).verifyCmd},
		{"failed", "", "whether the store has failed for good", (*scriptStore).failedCmd},

		{"filter", "NAME [durability=log|sync|interval] [memory=only]", "make a bloom filter", (*scriptStore).filterCmd},
		{"mark", "FILTER KEY…", "mark keys", (*scriptStore).markCmd},
		{"check", "FILTER KEY…", "check keys", (*scriptStore).checkCmd},
		{"flush-filters", "", "store the pages of all filters", (*scriptStore).flushFiltersCmd},
		{"drop-filter", "FILTER", "drop a filter", (*scriptStore).dropFilterCmd},
		{"excise-filters", "[stop=yes]",
			"wait until dropped filters are excised, or leave them to the next open", (*scriptStore).exciseFiltersCmd},
		{"marks", "", "the log of marks", (*scriptStore).marksCmd},
	}
}

// script is the state of one script.
type script struct {
	t       *testing.T
	stores  map[string]*scriptStore
	seen    map[string]bigset.Context // by the names that the script gave
	deltas  map[string]bigset.Delta
	actors  map[clock.Actor]string     // their names
	byName  map[string]clock.Actor     // inverts actors
	marked  map[bloomslice.Hash]string // keys of filters
	filters map[uint64]string          // names with a number, by generation
	time    atomic.Int64               // in nanoseconds, for requests
}

// scriptStore is a store of a script.
type scriptStore struct {
	*engine.Store // nil when it is not open
	sc            *script
	name          string
	actorsHad     int // for their names
	disk          *testkit.Disk
	folder        string
	small         bool // clocks and tombstones are split into pages early
	opt           engine.Options
	cuts          map[string]*testkit.Disk // what power cuts have left
	readers       map[string]*scriptReader
	fired         *atomic.Bool // whether an operation has failed as planned

	mu     sync.Mutex
	events []string
}

// scriptReader is a reader that stays open.
type scriptReader struct {
	next func() (*fold.Chunk, error, bool)
	stop func()
}

func newScript(t *testing.T) *script {
	sc := &script{t: t, stores: map[string]*scriptStore{}, seen: map[string]bigset.Context{}, deltas: map[string]bigset.Delta{},
		actors: map[clock.Actor]string{}, byName: map[string]clock.Actor{}, marked: map[bloomslice.Hash]string{}, filters: map[uint64]string{}}
	sc.time.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return sc
}

// run runs a command.
func (sc *script) run(l *scriptLine) string {
	all := scriptCommands()
	i := slices.IndexFunc(all, func(c scriptCommand) bool { return c.name == l.cmd })
	if i < 0 {
		help := ""
		for _, c := range all {
			help += fmt.Sprintf("  %s %s\n      %s\n", c.name, c.args, c.doc)
		}
		l.fatal("unknown command. The commands are\n%s", help)
	}
	name := l.value("at", "a")
	p := sc.stores[name]
	if p == nil {
		p = &scriptStore{sc: sc, name: name, disk: testkit.NewDisk(), folder: "store", cuts: map[string]*testkit.Disk{}, readers: map[string]*scriptReader{}}
		sc.stores[name] = p
	}
	if p.Store == nil && l.cmd != "open" && l.cmd != "fail" && l.cmd != "mend" && l.cmd != "disk" && l.cmd != "crash" {
		l.fatal("store %s is not open", name)
	}
	out := all[i].run(p, l)
	if !strings.HasPrefix(out, "error: ") { // which may come before the last argument is taken
		l.done()
	}
	return out
}

// end closes what is open. A store that has not failed must be right.
func (sc *script) end() {
	for _, p := range sc.stores {
		if p.Store == nil {
			continue
		}
		p.disk.Heal()
		p.stopReaders()
		if p.Failed() != nil {
			_ = p.Close()
			continue
		}
		rep, err := p.Verify(bg, engine.VerifyOptions{})
		if must(sc.t, err, "verify "+p.name); !rep.OK() {
			sc.t.Errorf("store %s, at the end of the script: %+v", p.name, rep)
		}
		must(sc.t, p.Close(), "close "+p.name)
	}
}

// scriptMoment returns the moment at which an operation of the disk comes, "" if it is none.
func scriptMoment(op errorfs.Op) string {
	if onLog(op) && !onMarks(op) && op.Kind != errorfs.OpFileWrite && op.Kind != errorfs.OpFileFlush {
		return "syncing"
	}
	if !strings.Contains(op.Path, "span-") {
		return ""
	}
	return map[errorfs.OpKind]string{errorfs.OpCreate: "copying", errorfs.OpLink: "swapping", errorfs.OpRemove: "swapped"}[op.Kind]
}

// during runs do, and the line's input at the moments that it names. It returns what was printed, the input's first.
func (p *scriptStore) during(l *scriptLine, do func() string) string {
	due := map[string][]*scriptLine{}
	for text := range strings.Lines(l.input) {
		moment, line, ok := strings.Cut(strings.TrimSpace(text), ": ")
		cmd, args, err := datadriven.ParseLine(line)
		if !ok || err != nil || !slices.Contains([]string{"syncing", "copying", "swapping", "swapped"}, moment) {
			l.fatal("no moment and command: %s", text)
		}
		due[moment] = append(due[moment], &scriptLine{t: l.t, pos: l.pos, cmd: cmd, args: args})
	}
	if len(due) == 0 { // it may be one of those lines itself
		return do()
	}
	l.input = ""
	var mu sync.Mutex
	var out strings.Builder
	p.disk.SetHook("moments", func(op errorfs.Op) error {
		moment := scriptMoment(op)
		mu.Lock()
		lines := due[moment]
		delete(due, moment) // before they run: they use the disk themselves
		mu.Unlock()
		for _, line := range lines {
			text := ""
			testkit.Beside(func() { text = strings.ReplaceAll(strings.TrimSuffix(p.sc.run(line), "\n"), "\n", "\n  ") })
			mu.Lock()
			fmt.Fprintf(&out, "%s: %s\n", moment, text)
			mu.Unlock()
		}
		return nil
	})
	last := do()
	p.disk.SetHook("moments", nil)
	mu.Lock()
	defer mu.Unlock()
	for _, moment := range slices.Sorted(maps.Keys(due)) {
		fmt.Fprintf(&out, "%s: that moment did not come\n", moment)
	}
	return out.String() + last
}
