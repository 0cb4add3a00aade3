package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/spf13/cobra"

	"bigset/engine/pebbletool"
)

// folder returns what is in a folder: names and content, but for the lock.
func folder(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "LOCK" {
			text += fmt.Sprintf("%s %x\n", e.Name(), sha256.Sum256(b))
		}
	}
	return text
}

// fileNamed returns the last file in a folder whose name fits the pattern.
func fileNamed(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return filepath.Base(files[len(files)-1])
}

// largestTable returns the name of the largest table in a folder.
func largestTable(t *testing.T, dir string) (name string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	largest := int64(0)
	for _, path := range tables {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > largest {
			largest, name = info.Size(), filepath.Base(path)
		}
	}
	return name
}

// TestDB runs every command of db on a store that was not closed in order, has keys in tables and in its log, and dead
// ones. They show keys as people read them, and leave the folder as it was.
func TestDB(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "friends", "paul", "ringo").want(t, exitOK)
	cp := dir + "-open"
	writing := command(t, "--dir", dir, "set", "import", "--ack", "friends")
	in, err := writing.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := writing.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writing.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		fmt.Fprintf(in, "imported-%04d\n", i)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the batch is on disk
		t.Fatal(err)
	}
	if err := writing.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = writing.Wait()
	if err := os.CopyFS(cp, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	dir = cp
	// Reading leaves the lock, which a copy has not, and nothing else.
	before := folder(t, dir)
	tried := map[string]bool{"upgrade": true} // which writes: TestDBUpgrade
	for _, c := range []struct{ args, want string }{
		{"lsm", "Compactions:"},
		{"properties", "raw-key"},
		{"check", "checked"},
		{"space", ""},
		{"scan", `/"friends"/e/"paul"/`},
		{"scan", `/"friends"/e/"imported-0999"/`},
		{"get hex:69", "["},
		{"find hex:69", `store/"i"`},
		{"wal dump " + fileNamed(t, dir, "*.log"), `/"friends"/e/"imported-0000"/`},
		{"wal dump-merged " + fileNamed(t, dir, "*.log"), `/"friends"/e/"imported-0000"/`},
		{"manifest dump " + fileNamed(t, dir, "MANIFEST-*"), "comparer:     bigset.v1"},
		{"manifest summarize " + fileNamed(t, dir, "MANIFEST-*"), "MANIFEST"},
		{"manifest check " + fileNamed(t, dir, "MANIFEST-*"), "OK"},
		{"sstable scan " + fileNamed(t, dir, "*.sst"), `/"friends"/e/"ringo"/`},
		{"sstable check " + fileNamed(t, dir, "*.sst"), ".sst"},
		{"sstable layout " + fileNamed(t, dir, "*.sst"), "footer"},
		{"sstable properties " + fileNamed(t, dir, "*.sst"), "bigset.v1"},
		{"sstable space " + fileNamed(t, dir, "*.sst"), ""},
	} {
		words := strings.Fields(c.args)
		got := call(t, "", append([]string{"--dir", dir, "db"}, words...)...)
		if got.code != exitOK || !strings.Contains(got.out, c.want) || got.errs != "" {
			t.Errorf("db %s: status %d, want %q in %q; errors %q", c.args, got.code, c.want, got.out, got.errs)
		}
		if after := folder(t, dir); after != before {
			t.Fatalf("db %s has changed the folder:\n%s\nwas\n%s", c.args, after, before)
		}
		tried[words[0]] = true
		if len(words) > 1 {
			tried[words[0]+" "+words[1]] = true
		}
	}
	var all func(cmd *cobra.Command, above string)
	all = func(cmd *cobra.Command, above string) {
		for _, c := range cmd.Commands() {
			if name := strings.TrimSpace(above + " " + c.Name()); c.HasSubCommands() {
				all(c, name)
			} else if !tried[name] {
				t.Errorf("db %s is not tested: does it only read?", name)
			}
		}
	}
	all(newApp(nil, nil, nil).db(), "")
	call(t, "", "--dir", dir, "verify").want(t, exitOK)
}

// TestDBUpgrade: a store that an older program made keeps its format, whatever is written, until it is upgraded.
func TestDBUpgrade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "old")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "engine", "testdata", "format2"))); err != nil {
		t.Fatal(err)
	}
	call(t, "", "--dir", dir, "set", "add", "friends", "ringo").want(t, exitOK)
	for _, c := range []struct{ args, want string }{
		{"db upgrade", "the store had format 2, has format 3 now\n"},
		{"db upgrade", "the store has format 3 already\n"},
		{"db upgrade --json", `{"from":3,"to":3}` + "\n"},
		{"set ls friends", "paul\nringo\n"},
	} {
		if got := call(t, "", append([]string{"--dir", dir}, strings.Fields(c.args)...)...).want(t, exitOK); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// TestComplete: a shell is offered the names of sets, of folders and of strategies, and nothing where there is no store.
func TestComplete(t *testing.T) {
	dir := newDir(t)
	offered := func(args ...string) []string {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(call(t, "", append([]string{"__complete", "--dir", dir}, args...)...).want(t, exitOK)), "\n")
		return lines
	}
	same := func(got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	const noFiles, folders, anything = ":4", ":16", ":0"
	same(offered("set", "ls", ""), noFiles)
	if _, err := os.Stat(dir); err == nil {
		t.Error("completing has made a folder")
	}
	for _, set := range []string{"friends", "foes", "keys", "line\nbreak"} {
		call(t, "", "--dir", dir, "set", "add", set, "x").want(t, exitOK)
	}
	before := folder(t, dir)
	same(offered("set", "ls", ""), "friends", "foes", "keys", noFiles)
	if after := folder(t, dir); len(strings.Split(after, "\n")) > len(strings.Split(before, "\n"))+1 {
		t.Errorf("completing has left files:\n%s\nwas\n%s", after, before)
	}
	for _, command := range [][]string{{"set", "add"}, {"set", "drop"}, {"stats"}, {"compact"}, {"verify"}, {"set", "import"}} {
		same(offered(append(command, "f")...), "friends", "foes", noFiles)
	}
	same(offered("set", "add", "friends", ""), noFiles)
	call(t, "", "--dir", dir, "set", "add", "--bucket", "b", "\n", "x")
	same(offered("set", "ls", "/"), "/types/sets/buckets/b/datatypes/%0A", noFiles)
	same(offered("set", "import", "friends", ""), anything)
	same(offered("checkpoint", ""), folders)
	same(offered("restore", ""), folders)
	same(offered("stats", "--strategy", ""), append(strings.Split(strategyNames(), ", "), noFiles)...)
	same(offered("serve", "--health", ""), noFiles)
	same(offered("serve", "--backup-dir", ""), folders)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script := call(t, "", "completion", shell).want(t, exitOK); !strings.Contains(script, "bigset") {
			t.Errorf("%s: no script", shell)
		}
	}
	if help := call(t, "", "--help").want(t, exitOK); !strings.Contains(help, "completion ") {
		t.Error("help does not name completion")
	}
}

// TestDBOnDamage: over damaged files each command ends with a sentence that says what to do, and with status 1.
func TestDBOnDamage(t *testing.T) {
	dir := newDir(t)
	call(t, numbered(5_000), "--dir", dir, "set", "import", "s", "--no-sync").want(t, exitOK)
	call(t, "", "--dir", dir, "compact").want(t, exitOK)
	table, manifest := largestTable(t, dir), fileNamed(t, dir, "MANIFEST-*")
	for _, c := range []struct {
		file     string
		from, to float64 // of the file, is damaged
		commands []string
	}{
		{table, .4, .5, []string{"check", "scan", "sstable check " + table, "sstable scan " + table}},
		{table, .99, 1, []string{"check", "scan", "properties", "sstable check " + table, "sstable scan " + table, "sstable layout " + table,
			"sstable properties " + table, "sstable space " + table, "find hex:73"}},
		{manifest, .1, .3, []string{"check", "scan", "get hex:69", "space", "lsm", "properties", "manifest check " + manifest}},
	} {
		path := filepath.Join(dir, c.file)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		for i := int(c.from * float64(len(bad))); i < int(c.to*float64(len(bad))); i++ {
			bad[i] ^= 0x55
		}
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range c.commands {
			r := call(t, "", append([]string{"--dir", dir, "db"}, strings.Fields(command)...)...)
			if lines := strings.Count(r.errs, "\n"); r.code != exitAbsent || lines != 2 || !strings.HasPrefix(r.errs, "bigset: damaged files: ") ||
				!strings.Contains(r.errs, "bigset restore") {
				t.Errorf("%s damaged, db %s: status %d, %d lines: %.500q", c.file, command, r.code, lines, r.errs)
			}
		}
		if err := os.WriteFile(path, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := call(t, "", "--dir", dir, "db", "check"); r.code != exitOK || r.errs != "" {
		t.Errorf("in order again: %+v", r)
	}
	if r := call(t, "", "--dir", dir, "db", "get", "nonsense:1"); r.code != exitError || strings.Contains(r.errs, "damaged") {
		t.Errorf("a bad argument: %+v", r)
	}
}

// TestSetDamage: verify names the set that is damaged, and then stats does.
func TestSetDamage(t *testing.T) {
	dir := newDir(t)
	call(t, numbered(5_000), "--dir", dir, "set", "import", "s", "--no-sync").want(t, exitOK)
	call(t, "", "--dir", dir, "compact").want(t, exitOK)
	path := filepath.Join(dir, largestTable(t, dir))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		b[len(b)/2+i] ^= 0x55
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := call(t, "", "--dir", dir, "verify"); r.code != exitAbsent || !strings.HasPrefix(r.out, `problem in set "s": can't be read: store is damaged: `) {
		t.Errorf("verify: %+v", r)
	}
	if out := call(t, "", "--dir", dir, "stats").want(t, exitOK); !strings.Contains(out, "\ndamaged          set \"s\"\n") {
		t.Errorf("stats does not name the set: %s", out)
	}
}

// TestDBPanics: a panic of Pebble's command is an error.
func TestDBPanics(t *testing.T) {
	if err := recovered(func() { panic("odd") }); err == nil || err.Error() != "odd" {
		t.Errorf("got %v", err)
	}
	var options pebble.Options
	pebbletool.Options{}.Apply("", &options)
	if err := recovered(func() { options.Logger.Fatalf("odd %d", 1) }); err == nil || err.Error() != "odd 1" {
		t.Errorf("got %v", err)
	}
}
