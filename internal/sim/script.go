package sim

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bigset/convergence"
)

// script is the schedule of a cluster as explicit steps. A step that can't be done, or that refers to a removed step, is skipped,
// so a script stays valid without any of its steps. The text form has one step per line:
//
//	cluster script 1
//	seed 42
//	replicas 3
//	1 client0 read via=0 r=2 batch=1
//	2 client1 write wait=300 via=1 w=2 dw=0 id=1 add=a remove=b@1
//	3 nemesis wipe at=2 seconds=12
//
// A line "members 3 2" says that the replicas are members of package server/cluster, each of them a coordinator, that 3 of them
// hold the set, and that 2 have what is acknowledged. The processes that steps name are then all members.
//
// add=a@1 is an add of a with the context that step 1 showed for a, add=a@1* with its context of the whole set. Comments start with
// #.
type script struct {
	seed     uint64 // determines the order of turns, and what replicas draw
	replicas int
	n, w     int // copies of the set, and how many have what is acknowledged, if members are those of package server/cluster; otherwise 0
	steps    []step
}

// step is one step of a script. Which arguments it has depends on its kind, see stepKinds.
type step struct {
	n    int // its number: ascending, kept when steps before it are removed
	lane int // the steps of a lane are done in order
	kind string
	args map[string]int // all kinds have "wait" and "apart": milliseconds before the step begins, and 1 if the lane does not wait for its end
	ops  []stepOp
	note string // what it did
}

// stepOp is an operation of a step: of a write, or an element that is looked up.
type stepOp struct {
	verb    string
	element string
	from    int  // the step that has shown the context; 0 is none
	whole   bool // the context is that of the whole set
}

const (
	scriptHead  = "cluster script 1" // first line of the file; the number is the format's version
	scriptSteps = 1 << 12            // at most
	scriptLeast = 2                  // replicas
	laneNemesis = clients
)

// lanes are the names of the lanes.
var lanes = []string{"client0", "client1", "client2", "nemesis"}

// stepKinds lists the arguments of each kind of step.
var stepKinds = map[string][]string{
	"write":  {"via", "w", "dw", "id"}, // and operations; with id 1 the request has an id, and with 2 its first retry is sent by two coordinators
	"read":   {"via", "r", "batch"},
	"lookup": {"via", "r"}, // and elements
	"drop":   {"via", "w", "dw"},
	"mark":   {"via", "w"}, // and keys of the filter, if members are those of package server/cluster
	"check":  {"via", "r"},
	// If members are those of package server/cluster, the filter is created, or brought back with what it had; it is dropped,
	// cleared, and flushed.
	"create-filter": {"via"},
	"drop-filter":   {"via"},
	"clear-filter":  {"via"},
	"flush-filter":  {"via"},
	"exchange":      {"via", "at", "with"}, // two replicas exchange what they have

	// The next call of a process to a replica is refused, is lost, loses its answer, comes late, is answered late, or comes twice.
	// With power, the power is cut at the given write to the disk, and the given percentage of what was not synced survives.
	"refuse":    {"via", "at"},
	"loss":      {"via", "at"},
	"mute":      {"via", "at"},
	"delay":     {"via", "at", "seconds"},
	"late":      {"via", "at", "seconds"},
	"duplicate": {"via", "at", "seconds"},
	"power":     {"via", "at", "writes", "keep", "seconds"},

	"crash":     {"at", "keep", "seconds"},   // a power cut; back after seconds
	"outage":    {"keep", "seconds"},         // a power cut at all replicas at once, if members are those of package server/cluster
	"wipe":      {"at", "seconds"},           // a power cut, and the disk is lost
	"backup":    {"at"},                      // copies of its disks are kept
	"put-back":  {"at", "seconds"},           // a power cut, after which its disks are those copies
	"restart":   {"via", "keep"},             // a power cut at a coordinator, which is back at once
	"partition": {"via", "cut"},              // from a process to the replicas whose bits are set
	"maintain":  {"at", "work"},              // the log can't be written after that many writes, for seconds
	"io-error":  {"at", "writes", "seconds"}, // the log can't be written after that many writes, for seconds
	"disk-full": {"at", "writes", "seconds"},
	"deaf":      {"at", "seconds"},  // a member that has agreed to an epoch does not hear for seconds that it is committed
	"copy":      {"at", "with"},     // the range is copied to a replica from another one
	"skew":      {"via", "seconds"}, // the clock of a process jumps
}

// argRange says which values an argument may have.
func argRange(name string, replicas int) (low, high int) {
	switch name {
	case "via": // a coordinator, or, from that number on, a replica that copies from others
		return 0, coordinators + replicas - 1
	case "at", "with":
		return 0, replicas - 1
	case "r", "w":
		return 1, replicas
	case "dw": // 0 does not wait for a disk
		return 0, replicas
	case "cut":
		return 0, 1<<replicas - 1
	case "keep":
		return 0, 100
	case "apart":
		return 0, 1
	case "seconds":
		return -1 << 20, 1 << 20
	}
	return 0, 1 << 20
}

// shape names the kind of cluster, as reports count them.
func (s *script) shape() string {
	if s.epochs() {
		return fmt.Sprintf("members %d %d of %d", s.n, s.w, s.replicas)
	}
	return fmt.Sprintf("cluster %d", s.replicas)
}

// String returns the text form, with what each step did if that is known.
func (s *script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nseed %d\nreplicas %d\n", scriptHead, s.seed, s.replicas)
	if s.epochs() {
		fmt.Fprintf(&b, "members %d %d\n", s.n, s.w)
	}
	for i := range s.steps {
		line := s.steps[i].String()
		if note := s.steps[i].note; note != "" {
			line = fmt.Sprintf("%-50s # %s", line, strings.ReplaceAll(note, "\n", "; "))
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// String returns the step's line.
func (t step) String() string {
	b := fmt.Appendf(nil, "%d %s %s", t.n, lanes[t.lane], t.kind)
	if t.args["wait"] > 0 {
		b = fmt.Appendf(b, " wait=%d", t.args["wait"])
	}
	if t.args["apart"] > 0 {
		b = append(b, " apart=1"...)
	}
	for _, a := range stepKinds[t.kind] {
		b = fmt.Appendf(b, " %s=%d", a, t.args[a])
	}
	for _, o := range t.ops {
		b = fmt.Appendf(b, " %s=%s", o.verb, o.element)
		if o.from > 0 {
			b = fmt.Appendf(b, "@%d", o.from)
		}
		if o.whole {
			b = append(b, '*')
		}
	}
	return string(b)
}

// filter returns a copy with the steps for which keep is true. keep receives the copy of a step, which it may change.
func (s *script) filter(keep func(i int, t *step) bool) *script {
	c := &script{seed: s.seed, replicas: s.replicas, n: s.n, w: s.w}
	for i := range s.steps {
		t := s.steps[i]
		t.args, t.ops, t.note = maps.Clone(t.args), slices.Clone(t.ops), ""
		if keep(i, &t) { // it may change the step
			c.steps = append(c.steps, t)
		}
	}
	return c
}

// readScript reads the text form. If it can't read a line, its error wraps convergence.ErrScript and names the line.
func readScript(r io.Reader) (*script, error) {
	s, in := &script{}, bufio.NewScanner(r)
	line := 0
	for in.Scan() {
		text, _, _ := strings.Cut(in.Text(), "#")
		line++
		if err := s.take(line, strings.Fields(text)); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", convergence.ErrScript, line, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%w: after line %d: %w", convergence.ErrScript, line, err)
	}
	if s.replicas == 0 {
		return nil, fmt.Errorf("%w: it ends without the number of replicas", convergence.ErrScript)
	}
	return s, nil
}

func (s *script) take(line int, f []string) (err error) {
	switch {
	case line == 1:
		if strings.Join(f, " ") != scriptHead {
			return fmt.Errorf("want %q, have %q", scriptHead, strings.Join(f, " "))
		}
	case len(f) == 0:
	case len(f) == 2 && f[0] == "seed":
		s.seed, err = strconv.ParseUint(f[1], 10, 64)
	case len(f) == 2 && f[0] == "replicas":
		s.replicas, err = intIn(f[1], scriptLeast, replicasMost)
	case len(f) == 3 && f[0] == "members" && s.replicas > 0:
		if s.n, err = intIn(f[1], 2, replicasMost); err == nil {
			s.w, err = intIn(f[2], s.n/2+1, s.n)
		}
	case s.replicas == 0 || len(f) < 3 || len(s.steps) == scriptSteps:
		return fmt.Errorf("want the number of replicas, and then at most %d steps, have %q", scriptSteps, strings.Join(f, " "))
	default:
		return s.step(f)
	}
	return err
}

func intIn(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("want a number from %d to %d, have %q", low, high, text)
	}
	return n, nil
}

func (s *script) step(f []string) (err error) {
	t := step{lane: slices.Index(lanes, f[1]), kind: f[2], args: map[string]int{}}
	least := 1
	if n := len(s.steps); n > 0 {
		least = s.steps[n-1].n + 1
	}
	if t.n, err = intIn(f[0], least, 1<<20); err != nil {
		return fmt.Errorf("step number: %w", err)
	}
	names, ok := stepKinds[t.kind]
	if !ok || t.lane < 0 {
		return fmt.Errorf("there is no step %q of %q", t.kind, f[1])
	}
	for _, word := range f[3:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "wait" || name == "apart" || slices.Contains(names, name):
			low, high := argRange(name, s.replicas)
			if t.args[name], err = intIn(value, low, high); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case t.kind == "write" && (name == "add" || name == "remove") || (t.kind == "lookup" || t.kind == "check") && name == "ask" || t.kind == "mark" && name == "mark":
			o := stepOp{verb: name}
			if err := o.parse(value, t.n); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			t.ops = append(t.ops, o)
		default:
			return fmt.Errorf("%s: what is %q?", t.kind, word)
		}
	}
	for _, name := range names {
		if _, has := t.args[name]; !has {
			return fmt.Errorf("%s: %s is missing", t.kind, name)
		}
	}
	s.steps = append(s.steps, t)
	return nil
}

func (o *stepOp) parse(value string, n int) (err error) {
	element, from, shown := strings.Cut(value, "@")
	if o.element = element; element == "" {
		return fmt.Errorf("want an element, have %q", value)
	}
	if shown {
		from, o.whole = strings.CutSuffix(from, "*")
		o.from, err = intIn(from, 1, n-1)
	}
	return err
}
