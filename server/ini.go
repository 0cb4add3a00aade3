package server

import (
	"fmt"
	"strings"
)

// iniValue is the value of a key, and the line that it is on.
type iniValue struct {
	text string
	line int
}

// iniFile is the section [bloomd] of a file: keys in lower case, each with the last of its values.
type iniFile struct {
	values  map[string]iniValue
	ignored []int // lines of the section that are neither a key nor a comment
}

// readINI reads a file as bloomd does: names of sections and keys in any case, = or : after a key, comments after ; or # at the start of a
// line and after " ;" in a value. Other sections are skipped. In one case it differs: bloomd takes a line that begins with white space for
// the rest of the value before it, which turns an indented key into garbage of another one; here this is an error.
func readINI(text string) (f iniFile, err error) {
	f.values = map[string]iniValue{}
	inside, key := false, ""
	n := 0
	for raw := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line := strings.TrimSpace(raw)
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
		case inside && key != "" && (raw[0] == ' ' || raw[0] == '\t'):
			return f, fmt.Errorf("line %d begins with white space, so bloomd takes %q for the rest of %s: write it at the start of the line",
				n, line, key)
		case line[0] == '[':
			name, _, ok := strings.Cut(line[1:], "]")
			if !ok {
				return f, fmt.Errorf("line %d: a section's name ends in ]", n)
			}
			inside, key = strings.EqualFold(name, "bloomd"), ""
		case inside:
			name, value, ok := cutKey(line)
			if !ok {
				f.ignored = append(f.ignored, n)
				continue
			}
			key = strings.ToLower(name)
			f.values[key] = iniValue{value, n}
		}
	}
	return f, nil
}

// cutKey splits a line. A key ends at the first = or, in a line without =, at the first colon.
func cutKey(line string) (name, value string, ok bool) {
	line = cutComment(line)
	if name, value, ok = strings.Cut(line, "="); !ok {
		name, value, ok = strings.Cut(line, ":")
	}
	return strings.TrimSpace(name), strings.TrimSpace(value), ok
}

// cutComment removes a comment, which begins with a semicolon after white space.
func cutComment(line string) string {
	for i := 1; i < len(line); i++ {
		if line[i] == ';' && (line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}

// cutNumber returns the number at the start of a text, as far as C's strtol or, for a fraction, strtod would read it, and the rest of the
// text. If there is no number, it returns "0".
func cutNumber(text string, fraction bool) (number, rest string) {
	i := 0
	digits := func() (n int) {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
			n++
		}
		return n
	}
	sign := func() {
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			i++
		}
	}
	sign()
	n := digits()
	if fraction {
		if i < len(text) && text[i] == '.' {
			i++
			n += digits()
		}
		if end := i; n > 0 && i < len(text) && (text[i] == 'e' || text[i] == 'E') {
			i++
			if sign(); digits() == 0 {
				i = end
			}
		}
	}
	if n == 0 {
		return "0", text
	}
	return strings.TrimPrefix(text[:i], "+"), text[i:]
}
