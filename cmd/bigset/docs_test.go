//go:build unix

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs runs what docs/cli.md and docs/quickstart.md show, each in a shell of its own, and compares the output. -rewrite writes the output
// into the page.
func TestDocs(t *testing.T) {
	for _, page := range []string{"cli.md", "quickstart.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			replayPage(t, filepath.Join("..", "..", "docs", page))
		})
	}
}

func replayPage(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sh := newRealShell(t)
	text := console.ReplaceAllStringFunc(string(b), func(block string) string {
		return "```console\n" + sh.replay(console.FindStringSubmatch(block)[1]) + "```"
	})
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := docsLines(string(b)), docsLines(text)
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Fatalf("%s has %q, the program prints %q", path, was[i], is[i])
		}
	}
	if len(was) != len(is) {
		t.Errorf("%s has %d lines, should have %d", path, len(was), len(is))
	}
}

var (
	console   = regexp.MustCompile("(?s)```console\n(.*?)```")
	shortened = regexp.MustCompile(`[A-Za-z0-9_-]{12}…`)
	platform  = regexp.MustCompile(`\(\S+\) go1\.\S+ \S+/\S+`)
	tabled    = regexp.MustCompile(`(?m)^level .*\n|^keys in tables .*\n|^bigset_keys_in_tables .*\n|^ .*"numbers"\n`)
)

// docsLines returns the lines of the page without what differs from run to run.
func docsLines(text string) []string {
	text = tabled.ReplaceAllString(text, "")
	text = platform.ReplaceAllString(shortened.ReplaceAllString(normal(text), "<token>"), "<platform>")
	return strings.Split(text, "\n")
}

// realShell is a shell in which bigset is this test binary. Every command begins where the last one ended.
type realShell struct {
	t        *testing.T
	dir, bin string
}

func newRealShell(t *testing.T) *realShell {
	sh := &realShell{t: t, dir: t.TempDir(), bin: t.TempDir()}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n" + asCommand + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(sh.bin, "bigset"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return sh
}

// replay runs the commands of a block, the lines that begin with $, and returns the block as it should be.
func (sh *realShell) replay(block string) string {
	var out strings.Builder
	for _, line := range strings.Split(block, "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out.WriteString(line + "\n" + sh.run(command))
		}
	}
	return out.String()
}

// run runs one command. Later commands have the variables that it sets.
func (sh *realShell) run(command string) string {
	if setsVariable.MatchString(command) {
		command = "export " + command
	}
	cmd := exec.Command("sh", "-c", "[ -f .vars ] && . ./.vars; "+command+"; export -p > .vars")
	cmd.Dir = sh.dir
	cmd.Env = append(os.Environ(), "PATH="+sh.bin+":"+os.Getenv("PATH"))
	b, err := cmd.CombinedOutput()
	if err != nil {
		sh.t.Fatalf("%s: %v\n%s", command, err, b)
	}
	return token.ReplaceAllStringFunc(string(b), func(t string) string { return t[:12] + "…" })
}

var setsVariable = regexp.MustCompile(`^[A-Z]+=`)
