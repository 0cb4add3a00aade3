package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset/engine"
)

// TestScripts runs the scripts in testdata/script, each on a store of its own. The commands of a block are
//
//	bigset ARGS…        run the program; each run opens the store again
//	NAME = bigset …     the same, and keep the last token that it printed as $NAME
//	bigset … < TEXT     the same, with standard input
//	tamper NAME         change one character of a token
//	hold / release      open the store in the test, so that it is locked, and close it
//	unfinished DIR      make a folder as a checkpoint leaves it that did not end
//	foreign             make a folder with a file that is not a store's, as $FOREIGN
//	files               list the folder that holds the store
//	bloomd DIR          unpack filters that a real bloomd has written
//	cut FILE BYTES      cut a file to its first bytes
//
// Words in double quotes are Go strings. In the output, what went to standard error has a ! before it, tokens are <token>,
// and a status that is not 0 comes last.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		sh := &shell{t: t, dir: newDir(t), vars: map[string]string{}}
		sh.vars["DIR"] = sh.dir
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "sh" {
				t.Fatalf("%s: no directive %q: it is sh", d.Pos, d.Cmd)
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				out.WriteString(sh.do(line))
			}
			return out.String()
		})
	})
}

// shell runs the lines of one script.
type shell struct {
	t    *testing.T
	dir  string
	vars map[string]string
	held *engine.Store
}

func (sh *shell) do(line string) string {
	words := sh.words(line)
	name := ""
	if len(words) > 2 && words[1] == "=" {
		name, words = words[0], words[2:]
	}
	switch words[0] {
	case "bigset":
		return sh.bigset(name, words[1:])
	case "tamper":
		sh.vars[words[1]] = tamper(sh.vars[words[1]])
		return ""
	case "hold":
		s, err := engine.Open(sh.dir, nil)
		if err != nil {
			sh.t.Fatal(err)
		}
		sh.held = s
		return ""
	case "release":
		if err := sh.held.Close(); err != nil {
			sh.t.Fatal(err)
		}
		return ""
	case "unfinished":
		sh.make(words[1], "UNFINISHED")
		return ""
	case "foreign":
		sh.foreign()
		return ""
	case "files":
		return sh.files()
	case "bloomd":
		unpackBloomd(sh.t, words[1])
		return ""
	case "cut":
		n, err := strconv.Atoi(words[2])
		if err == nil {
			err = os.Truncate(words[1], int64(n))
		}
		if err != nil {
			sh.t.Fatal(err)
		}
		return ""
	}
	sh.t.Fatalf("no command %q", words[0])
	return ""
}

var word = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`)

// words cuts a line into words, with what is quoted unquoted and variables replaced.
func (sh *shell) words(line string) []string {
	words := word.FindAllString(line, -1)
	for i, w := range words {
		if w[0] == '"' {
			plain, err := strconv.Unquote(w)
			if err != nil {
				sh.t.Fatalf("%s: %v", w, err)
			}
			words[i] = plain
			continue
		}
		words[i] = os.Expand(w, func(name string) string {
			value, ok := sh.vars[name]
			if !ok {
				sh.t.Fatalf("no variable %q in %q", name, line)
			}
			return value
		})
	}
	return words
}

func (sh *shell) bigset(name string, args []string) string {
	in := ""
	if n := len(args); n > 2 && args[n-2] == "<" {
		in, args = args[n-1], args[:n-2]
	}
	if !slices.Contains(args, "--dir") && !slices.Contains(args, "--addr") {
		args = append([]string{"--dir", sh.dir}, args...)
	}
	r := call(sh.t, in, args...)
	if name != "" {
		tokens := token.FindAllString(r.out+r.errs, -1)
		if len(tokens) == 0 {
			sh.t.Fatalf("no token in the output of %q: %q %q", args, r.out, r.errs)
		}
		sh.vars[name] = tokens[len(tokens)-1]
	}
	return sh.show(r)
}

var token = regexp.MustCompile(`[A-Za-z0-9_-]{50,}`)

// show makes output the same in every run.
func (sh *shell) show(r result) string {
	text := r.out
	for _, line := range strings.SplitAfter(r.errs, "\n") {
		if line != "" {
			text += "! " + line
		}
	}
	if r.code != exitOK {
		text += fmt.Sprintf("status %d\n", r.code)
	}
	return normal(strings.ReplaceAll(text, sh.dir, "DIR"))
}

// normal replaces what differs from run to run: tokens, sizes, dates, fingerprints of certificates, and how many dead keys are still there.
func normal(text string) string {
	text = token.ReplaceAllString(text, "<token>")
	text = sizes.ReplaceAllString(text, "<size>")
	text = prints.ReplaceAllString(dates.ReplaceAllString(text, "<date>"), "<fingerprint>")
	text = deadKeys.ReplaceAllString(text, "<n>$1")
	return figures.ReplaceAllString(text, "$1:<n>")
}

var (
	sizes    = regexp.MustCompile(`\b[0-9.]+ ([KMG]i)?B\b`)
	dates    = regexp.MustCompile(`\b20[0-9]{2}-[0-9]{2}-[0-9]{2}(T[0-9:]{8}Z)?\b`)
	prints   = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	deadKeys = regexp.MustCompile(`[0-9,]+( keys?\b| dropped\b| of them dead\b| files\b)`)
	figures  = regexp.MustCompile(`("files"|"bytes_[a-z]+"|"keys"|"dead_keys"|"keys_[a-z_]+"|"bytes"):[0-9]+`)
)

func (sh *shell) foreign() {
	sh.vars["FOREIGN"] = sh.dir + "-foreign"
	sh.make(sh.vars["FOREIGN"], "letter")
}

// make makes a folder with an empty file.
func (sh *shell) make(dir, file string) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		sh.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
		sh.t.Fatal(err)
	}
}

func (sh *shell) files() string {
	entries, err := os.ReadDir(filepath.Dir(sh.dir))
	if err != nil {
		sh.t.Fatal(err)
	}
	out := ""
	for _, e := range entries {
		out += e.Name() + "\n"
	}
	if out == "" {
		return "nothing\n"
	}
	return out
}

// tamper changes one character in the middle of a token.
func tamper(token string) string {
	b, at := []byte(token), len(token)/2
	if b[at]++; b[at] == 'Z'+1 || b[at] == 'z'+1 || b[at] == '9'+1 {
		b[at] = 'A'
	}
	return string(b)
}
