package convergence

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
)

// ErrScript says that a file is not a script that this version of the kit can replay.
var ErrScript = errors.New("convergence: bad script")

const (
	scriptHead  = "convergence script 1" // first line of the file; the number is the format's version
	replicasMax = 8
	lineMax     = 1 << 20
	stepsMax    = 1 << 18
	fillMax     = 1 << 14 // elements
)

// Script is a schedule as explicit steps. Messages, contexts, questions, backups and reads are named by the step that made them. A
// step that can't be done, or that refers to a removed step, is skipped, so a script stays valid without any of its steps.
//
// The text form has one step per line: its number, its kind and its arguments.
//
//	convergence script 1
//	system orset
//	seed 42
//	replicas 3
//	shape mixed
//	1 do A add x
//	2 deliver 1.0 B
//	3 do B remove x ctx=2
//	4 exchange messages
//
// Blank lines and comments that start with # are ignored. docs/convergence.md has a table of all kinds of steps. In scripts with
// odd seeds, messages are lost for good (loss-for-good), so another seed can change what a script shows.
type Script struct {
	System   string
	Seed     uint64 // together with a step's number, of what replicas draw in that step
	Replicas int
	Base     uint64 // Env.Base of all replicas
	Shape    string // which shape generated it; "" when made by hand
	Steps    []Step

	took bitset // the actions from which it was made
}

// Step is one step of a script. Which fields count depends on Kind; docs/convergence.md lists the kinds.
type Step struct {
	N      int // its number: ascending, and kept when steps before it are removed
	Kind   string
	A, B   int    // replicas
	Ref    int    // the number of an earlier step
	Sub    int    // which message of that step
	Arg    int    // a number
	Word   string // a mode or an element
	Set    uint32 // replicas, as bits
	Ops    []ScriptOp
	Unread bool   // no replica is read before it or after it; a ~ after the kind
	pretty string // what it did, for the printed script
}

// ScriptOp is an operation of a step.
type ScriptOp struct {
	Op  Op  // without its context
	Ctx int // the step whose view gives the context; 0 is none
}

// kinds lists the arguments of each kind of step: A and B are replicas, # is a step, m a message (step.number), n a number, w a
// word, S a set of replicas, o operations.
var kinds = map[string]string{
	"do":        "Ao",  // operations at a replica, more than one as a batch
	"both":      "Ao",  // two operations at a replica, by two clients at once
	"dies":      "Ano", // operations at a replica that loses power before anything leaves it; n quarters of what was not synced survive
	"fill":      "An",  // an operation on each of n elements at a replica, one by one
	"strip":     "An",  // the same with another kind of operation: the one that the Spec proposes second most often
	"churn":     "Anw", // n operations on one element at a replica, in turns of these two kinds
	"bulk":      "An",  // an operation on each of n elements at a replica, in one batch
	"spread":    "#B",  // deliver all messages of a step to a replica
	"gone":      "A",   // the replica leaves for good
	"join":      "A",   // the replica is opened now: before, it did not exist
	"retry":     "A#",  // the operations of a step again, under the same ids
	"read":      "A",   // read a replica
	"deliver":   "mB",  // deliver a message to a replica
	"sync":      "A",   // make durable what was done
	"crash":     "An",  // power cut; n quarters of what was not synced survive
	"restart":   "A",   // clean stop and start
	"wipe":      "A",   // power cut, the disk is lost
	"leave":     "A",   // give up the data, to be filled again
	"backup":    "A",   //
	"restore":   "A#",  // power cut, then start with the backup of a step
	"maintain":  "An",  // background work
	"damage":    "Aw",  // lose an element silently
	"fault":     "Aw",  // the disk fails from now on; "ok" ends it
	"ask":       "A",   // anti-entropy: the question
	"answer":    "#B",  // and its answer
	"copy":      "AB",  // the next step of the copy from A to B
	"cut":       "AB",  // that copy's connection breaks
	"quorum":    "S",   // read replicas together, to the end
	"open":      "S",   // begin a streaming read
	"chunk":     "#n",  // the next chunk of its n-th stream
	"replace":   "#nB", // its n-th replica fails, B takes its place
	"finish":    "#",   // all remaining chunks
	"partition": "S",   // these on one side, the others on the other
	"heal":      "",    //
	"skew":      "An",  // the replica's clock jumps
	"exchange":  "w",   // exchange everything by messages, repair or copies; then all must be equal
}

// WriteTo writes the script in its text form, with what each step did as a comment if that is known.
func (s *Script) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, s.String())
	return int64(n), err
}

// String returns the text form.
func (s *Script) String() string {
	var b strings.Builder
	b.WriteString(scriptHead + "\n")
	if s.System != "" {
		fmt.Fprintf(&b, "system %s\n", s.System)
	}
	fmt.Fprintf(&b, "seed %d\nreplicas %d\n", s.Seed, s.Replicas)
	if s.Base > 0 {
		fmt.Fprintf(&b, "base %d\n", s.Base)
	}
	if s.Shape != "" {
		fmt.Fprintf(&b, "shape %s\n", s.Shape)
	}
	for i := range s.Steps {
		line := s.Steps[i].String()
		if note := s.Steps[i].pretty; note != "" {
			line = fmt.Sprintf("%-34s # %s", line, note)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// String returns the step's line.
func (s Step) String() string {
	b := fmt.Appendf(nil, "%d %s", s.N, s.Kind)
	if s.Unread {
		b = append(b, '~')
	}
	for _, c := range kinds[s.Kind] {
		b = append(b, ' ')
		switch c {
		case 'A':
			b = append(b, letter(s.A))
		case 'B':
			b = append(b, letter(s.B))
		case '#':
			b = strconv.AppendInt(b, int64(s.Ref), 10)
		case 'm':
			b = fmt.Appendf(b, "%d.%d", s.Ref, s.Sub)
		case 'n':
			b = strconv.AppendInt(b, int64(s.Arg), 10)
		case 'w':
			b = append(b, word(s.Word)...)
		case 'S':
			b = append(b, letters(s.Set)...)
		case 'o':
			for i, op := range s.Ops {
				if i > 0 {
					b = append(b, "; "...)
				}
				b = op.append(b)
			}
		}
	}
	return string(b)
}

func letter(replica int) byte { return byte('A' + replica) }

func letters(set uint32) (s string) {
	for ; set != 0; set &= set - 1 {
		s += string(letter(bits.TrailingZeros32(set)))
	}
	return s
}

// plain encodes a word so that it has no space, semicolon or comment sign, and can be the name of a file.
func plain(s string) string { return orHex(s, "-_.") }

// word does the same for scripts and views, in which more marks are allowed.
func word(s string) string {
	if strings.HasPrefix(s, hexMark) {
		return orHex(s, "")
	}
	return orHex(s, "-_./:%@+,")
}

const hexMark = "hex:"

// orHex returns a word of letters, digits and marks unchanged, and any other word in hexadecimal digits.
func orHex(s, marks string) string {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(marks, c)) {
			return hexMark + hex.EncodeToString([]byte(s))
		}
	}
	if s == "" {
		return hexMark
	}
	return s
}

func (o ScriptOp) append(b []byte) []byte {
	b = append(b, word(o.Op.Kind)...)
	if o.Op.Elem != "" {
		b = append(append(b, ' '), word(o.Op.Elem)...)
	}
	if text := word(string(o.Op.Arg)); len(o.Op.Arg) > 0 && text == string(o.Op.Arg) {
		b = append(append(b, " value="...), text...)
	} else if o.Op.Arg != nil {
		b = fmt.Appendf(b, " arg=%x", o.Op.Arg)
	}
	if o.Ctx > 0 {
		b = fmt.Appendf(b, " ctx=%d", o.Ctx)
	}
	return b
}

// ReadScript reads the text form. If it can't read a line, its error wraps ErrScript and names the line.
func ReadScript(r io.Reader) (*Script, error) {
	p := &parser{s: &Script{}, in: bufio.NewScanner(r)}
	p.in.Buffer(nil, lineMax)
	for p.in.Scan() {
		p.line++
		text, _, _ := strings.Cut(p.in.Text(), "#")
		if f := strings.Fields(text); len(f) > 0 {
			if err := p.take(f); err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", ErrScript, p.line, err)
			}
		}
	}
	if err := p.in.Err(); err != nil {
		return nil, fmt.Errorf("%w: after line %d: %w", ErrScript, p.line, err)
	}
	if p.s.Replicas == 0 {
		return nil, fmt.Errorf("%w: it ends without the number of replicas", ErrScript)
	}
	return p.s, nil
}

type parser struct {
	s    *Script
	in   *bufio.Scanner
	line int
	head bool
}

func (p *parser) take(f []string) (err error) {
	switch {
	case !p.head:
		if strings.Join(f, " ") != scriptHead {
			return fmt.Errorf("want %q, have %q", scriptHead, strings.Join(f, " "))
		}
		p.head = true
	case f[0][0] >= '0' && f[0][0] <= '9':
		return p.step(f)
	case len(f) != 2:
		return fmt.Errorf("want a name and a value, have %q", strings.Join(f, " "))
	case f[0] == "system":
		p.s.System = f[1]
	case f[0] == "shape":
		p.s.Shape = f[1]
	case f[0] == "seed":
		if p.s.Seed, err = strconv.ParseUint(f[1], 10, 64); err != nil {
			return fmt.Errorf("want a seed, have %q", f[1])
		}
	case f[0] == "base":
		if p.s.Base, err = strconv.ParseUint(f[1], 10, 64); err != nil {
			return fmt.Errorf("want a number, have %q", f[1])
		}
	case f[0] == "replicas":
		if p.s.Replicas, err = number(f[1], 1, replicasMax); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown heading %q", f[0])
	}
	return nil
}

func (p *parser) step(f []string) (err error) {
	if p.s.Replicas == 0 {
		return errors.New("a step before the number of replicas")
	}
	if len(p.s.Steps) == stepsMax {
		return fmt.Errorf("more than %d steps", stepsMax)
	}
	s := Step{}
	last := 0
	if n := len(p.s.Steps); n > 0 {
		last = p.s.Steps[n-1].N
	}
	if s.N, err = number(f[0], last+1, 1<<30); err != nil {
		return fmt.Errorf("step number: %w", err)
	}
	if len(f) < 2 {
		return errors.New("a step without a kind")
	}
	s.Kind, s.Unread = strings.CutSuffix(f[1], "~")
	args, ok := kinds[s.Kind]
	if !ok {
		return fmt.Errorf("unknown kind of step %q", s.Kind)
	}
	f = f[2:]
	for _, c := range args {
		if len(f) == 0 {
			return fmt.Errorf("%s: an argument is missing", s.Kind)
		}
		if c == 'o' {
			if s.Ops, err = parseOps(f); err != nil {
				return fmt.Errorf("%s: %w", s.Kind, err)
			}
			f = nil
			break
		}
		if err = p.arg(&s, c, f[0]); err != nil {
			return fmt.Errorf("%s: %w", s.Kind, err)
		}
		f = f[1:]
	}
	if len(f) > 0 {
		return fmt.Errorf("%s: unexpected argument %q", s.Kind, strings.Join(f, " "))
	}
	p.s.Steps = append(p.s.Steps, s)
	return nil
}

func (p *parser) arg(s *Step, c rune, text string) (err error) {
	switch c {
	case 'A':
		s.A, err = p.replica(text)
	case 'B':
		s.B, err = p.replica(text)
	case '#':
		s.Ref, err = number(text, 1, s.N-1)
	case 'm':
		ref, sub, _ := strings.Cut(text, ".")
		if s.Ref, err = number(ref, 1, s.N-1); err == nil {
			s.Sub, err = number(sub, 0, 1<<20)
		}
	case 'n':
		low, high := -1<<30, 1<<30
		switch s.Kind {
		case "crash", "dies": // quarters
			low, high = 0, 4
		case "fill", "strip", "churn", "bulk":
			low, high = 0, fillMax
		}
		s.Arg, err = number(text, low, high)
	case 'w':
		s.Word, err = parseWord(text)
	case 'S':
		for i := range len(text) {
			n, err := p.replica(text[i : i+1])
			if err != nil {
				return err
			}
			s.Set |= 1 << n
		}
	}
	return err
}

func (p *parser) replica(text string) (int, error) {
	if len(text) != 1 || text[0] < 'A' || int(text[0]-'A') >= p.s.Replicas {
		return 0, fmt.Errorf("want a replica from A to %c, have %q", letter(p.s.Replicas-1), text)
	}
	return int(text[0] - 'A'), nil
}

func number(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("want a number from %d to %d, have %q", low, high, text)
	}
	return n, nil
}

func parseWord(text string) (string, error) {
	if h, ok := strings.CutPrefix(text, hexMark); ok {
		b, err := hex.DecodeString(h)
		if err != nil {
			return "", fmt.Errorf("want hexadecimal digits, have %q", h)
		}
		return string(b), nil
	}
	return text, nil
}

func parseOps(f []string) (ops []ScriptOp, err error) {
	for _, part := range strings.Split(strings.Join(f, " "), ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			return nil, errors.New("an operation is missing")
		}
		var o ScriptOp
		if o.Op.Kind, err = parseWord(words[0]); err != nil {
			return nil, err
		}
		for i, w := range words[1:] {
			if err := o.parse(w, i == 0); err != nil {
				return nil, err
			}
		}
		ops = append(ops, o)
	}
	return ops, nil
}

func (o *ScriptOp) parse(w string, first bool) (err error) {
	key, value, ok := strings.Cut(w, "=")
	switch {
	case !ok && first:
		o.Op.Elem, err = parseWord(w)
	case ok && key == "ctx":
		o.Ctx, err = number(value, 1, 1<<30)
	case ok && key == "value" && value != "":
		o.Op.Arg = []byte(value)
	case ok && key == "arg":
		if o.Op.Arg, err = hex.DecodeString(value); err != nil {
			err = fmt.Errorf("want hexadecimal digits, have %q", value)
		}
	default:
		err = fmt.Errorf("want an element, arg= or ctx=, have %q", w)
	}
	return err
}
