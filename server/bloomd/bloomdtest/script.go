package bloomdtest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Script is a conversation, one per file in server/bloomd/testdata:
//
//	# a remark
//	> set f a\r         a request. Bytes may be written as in Go's strings; so is a space at the end (\x20)
//	< Yes               each line of its answer
//	! why               bloomd answers the next request wrongly: "-" is its answer, "<" the correct one
//	wait                bloomd needs some seconds for what follows; others don't
//
// It begins at a server without filters.
type Script []Step

// Step is a request, or a remark, or a wait.
type Step struct {
	Remark string // with its "#"; an empty line has one, too
	Wait   bool
	Bug    string // why bloomd's answer is not the one that is right
	Line   []byte // the request, without its line feed
	Theirs []byte // what bloomd answers, where that is a bug
	Answer []byte // what is right
}

func (s *Step) isRequest() bool { return s.Line != nil }

// Parse reads a script.
func Parse(text []byte) (Script, error) {
	var s Script
	bug := ""
	for n, row := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if row == "wait" {
			s = append(s, Step{Wait: true})
			continue
		}
		if row == "" || row[0] == '#' {
			s = append(s, Step{Remark: row})
			continue
		}
		sign, rest, _ := strings.Cut(row, " ")
		if sign == "!" {
			bug = rest
			continue
		}
		data, err := strconv.Unquote(`"` + strings.ReplaceAll(rest, `"`, `\"`) + `"`)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", n+1, row, err)
		}
		if sign == ">" {
			s = append(s, Step{Line: []byte(data), Bug: bug})
			bug = ""
			continue
		}
		if len(s) == 0 || !s[len(s)-1].isRequest() || sign != "<" && sign != "-" {
			return nil, fmt.Errorf("line %d: %q belongs to no request", n+1, row)
		}
		last := &s[len(s)-1]
		at := &last.Answer
		if sign == "-" {
			at = &last.Theirs
		}
		*at = append(append(*at, data...), '\n')
	}
	return s, nil
}

// String writes a script as Parse reads it.
func (s Script) String() string {
	var b strings.Builder
	for _, step := range s {
		switch {
		case step.Wait:
			b.WriteString("wait\n")
		case !step.isRequest():
			b.WriteString(step.Remark + "\n")
		default:
			if step.Bug != "" {
				b.WriteString("! " + step.Bug + "\n")
			}
			b.WriteString("> " + quote(step.Line) + "\n")
			writeRows(&b, "- ", step.Theirs)
			writeRows(&b, "< ", step.Answer)
		}
	}
	return b.String()
}

func writeRows(b *strings.Builder, sign string, answer []byte) {
	for row := range bytes.Lines(answer) {
		b.WriteString(sign + quote(bytes.TrimSuffix(row, []byte("\n"))) + "\n")
	}
}

func quote(data []byte) string {
	q := strconv.QuoteToASCII(string(data))
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	if strings.HasSuffix(q, " ") {
		q = q[:len(q)-1] + `\x20`
	}
	return q
}

// Replay sends the requests and compares the answers. It returns an error for each that differs.
func (s Script) Replay(do func(line []byte) ([]byte, error)) error {
	var wrong []error
	for _, step := range s {
		if !step.isRequest() {
			continue
		}
		got, err := do(step.Line)
		if err != nil {
			return errors.Join(append(wrong, fmt.Errorf("%s: %w", quote(step.Line), err))...)
		}
		if !bytes.Equal(got, step.Answer) {
			wrong = append(wrong, fmt.Errorf("> %s: got %q, want %q", quote(step.Line), got, step.Answer))
		}
	}
	return errors.Join(wrong...)
}

// sentinel is a request whose answer does not come from any bug of bloomd.
const sentinel, sentinelAnswer = "flush a b", "Client Error: Unexpected arguments\n"

// Record asks a real bloomd, and takes its answers as correct, except those that the script marks as a bug, which are only recorded. A bug
// may have any number of answers, including none.
func (s Script) Record(do func(line []byte) ([]byte, error), more func() ([]byte, error), wait func()) error {
	for i := range s {
		step := &s[i]
		if step.Wait {
			wait()
		}
		if !step.isRequest() {
			continue
		}
		var err error
		if step.Bug == "" {
			var got []byte
			got, err = do(step.Line)
			step.Answer = bytes.Clone(got)
		} else {
			step.Theirs, err = askBug(step.Line, do, more)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quote(step.Line), err)
		}
	}
	return nil
}

func askBug(line []byte, do func(line []byte) ([]byte, error), more func() ([]byte, error)) ([]byte, error) {
	got, err := do([]byte(string(line) + "\n" + sentinel))
	var all []byte
	for ; err == nil && string(got) != sentinelAnswer; got, err = more() {
		all = append(all, got...)
	}
	return all, err
}
