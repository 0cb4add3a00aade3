package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset"
)

// The lines of scripts, and their arguments.

// scriptLine is a command with its arguments. An argument that no command has asked for fails the script.
type scriptLine struct {
	t     *testing.T
	pos   string
	cmd   string
	args  []datadriven.CmdArg
	input string
}

func (l *scriptLine) fatal(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("%s: %s: %s", l.pos, l.cmd, fmt.Sprintf(format, args...))
}

// done fails unless all of the line was understood.
func (l *scriptLine) done() {
	if len(l.args) > 0 {
		l.fatal("argument %s was not expected", &l.args[0])
	}
	if l.input != "" {
		l.fatal("it takes no lines")
	}
}

// word takes the next argument that has no value, "" if there is none.
func (l *scriptLine) word() string {
	for i, a := range l.args {
		if a.Vals == nil {
			l.args = slices.Delete(slices.Clone(l.args), i, i+1)
			return a.Key
		}
	}
	return ""
}

// need is word for an argument that must be there.
func (l *scriptLine) need(what string) string {
	w := l.word()
	if w == "" {
		l.fatal("%s is missing", what)
	}
	return w
}

// words takes all arguments without a value, with ranges unfolded: k08..k12 is k08 k09 k10 k11 k12, and "" is the empty word.
func (l *scriptLine) words() (all [][]byte) {
	for w := l.word(); w != ""; w = l.word() {
		first, last, isRange := strings.Cut(w, "..")
		head := strings.TrimRight(first, "0123456789")
		from, to, digits := 0, 0, len(first)-len(head)
		switch {
		case w == `""`:
			all = append(all, []byte{})
			continue
		case !isRange:
			all = append(all, []byte(w))
			continue
		}
		if _, err := fmt.Sscan("1"+first[len(head):]+" 1"+strings.TrimPrefix(last, head), &from, &to); err != nil || len(first) != len(last) {
			l.fatal("%s is no range", w)
		}
		for n := from; n <= to; n++ {
			all = append(all, fmt.Appendf(nil, "%s%s", head, fmt.Sprint(n)[1:1+digits]))
		}
	}
	return all
}

// values takes an argument with its values.
func (l *scriptLine) values(key string) (values []string, given bool) {
	for i, a := range l.args {
		if a.Key == key && a.Vals != nil {
			l.args = slices.Delete(slices.Clone(l.args), i, i+1)
			return a.Vals, true
		}
	}
	return nil, false
}

func (l *scriptLine) value(key, otherwise string) string {
	if v, given := l.values(key); given {
		return v[0]
	}
	return otherwise
}

func (l *scriptLine) number(key string, otherwise int) (n int) {
	if v := l.value(key, ""); v == "" {
		return otherwise
	} else if _, err := fmt.Sscan(v, &n); err != nil {
		l.fatal("%s=%s: %v", key, v, err)
	}
	return n
}

// oneOf takes an argument and returns what its value stands for; the zero value stands for none.
func oneOf[T any](l *scriptLine, key string, values map[string]T) (v T) {
	name, given := l.values(key)
	if !given {
		return v
	}
	v, ok := values[name[0]]
	if !ok {
		l.fatal("%s can't be %s", key, name[0])
	}
	return v
}

var scriptDurabilities = map[string]bigset.Durability{"sync": bigset.Sync, "nosync": bigset.NoSync}
