// Command mutants plants known bugs, one at a time, in a copy of the module, runs the tests that should see each, and
// reports how many were caught. It takes minutes and is no part of the tests.
//
//	go run ./internal/mutants
//	go run ./internal/mutants -only 'sync|counter'
//
// A bug is a file in testdata: a line of what it is, the file that it changes, the arguments of go test for the tests that
// should see it, then the lines that it replaces and those that take their place. The old lines must be in the file exactly
// once: when the code moves, the test of this package fails, and the bug is to be planted anew.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run only the bugs whose file names fit this regular expression")
	goCommand := flag.String("go", "go", "the command that runs Go")
	limit := flag.Duration("limit", 4*time.Minute, "the longest that the tests of one bug may take")
	flag.Parse()
	if err := run(*only, strings.Fields(*goCommand), *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutant is a bug to plant.
type mutant struct {
	name     string // of its file
	what     string
	file     string
	tests    []string // arguments of go test
	old, new string
}

func run(only string, goCommand []string, limit time.Duration) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := load(filepath.Join(root, "internal", "mutants", "testdata"))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !pattern.MatchString(m.name) })
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyModule(dir, root); err != nil {
		return err
	}
	caught := 0
	for _, m := range all {
		began := time.Now()
		verdict, err := m.plant(dir, goCommand, limit)
		if err != nil {
			verdict = "INVALID"
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.name, err)
		}
		if verdict == "caught" {
			caught++
		}
		fmt.Printf("%-8s %5.1fs  %-24s %s\n", verdict, time.Since(began).Seconds(), m.name, m.what)
	}
	fmt.Printf("%d of %d caught\n", caught, len(all))
	if caught < len(all) {
		return fmt.Errorf("%d bugs were not seen", len(all)-caught)
	}
	return nil
}

// moduleRoot returns the folder of go.mod, here or above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fs.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// load reads the bugs of a folder.
func load(dir string) (all []mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(path), ".txt")
		all = append(all, m)
	}
	return all, nil
}

func parse(text string) (m mutant, err error) {
	head, rest, ok := strings.Cut(text, "--- old\n")
	old, new, ok2 := strings.Cut(rest, "--- new\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	if !ok || !ok2 || len(lines) != 3 {
		return m, fmt.Errorf("want three lines, then --- old and --- new")
	}
	m = mutant{what: lines[0], file: lines[1], tests: strings.Fields(lines[2]), old: old, new: new}
	if !slices.Contains(m.tests, "-run") {
		return m, fmt.Errorf("the third line names no tests")
	}
	return m, nil
}

// plant changes the copy, runs the tests, and changes it back.
func (m mutant) plant(dir string, goCommand []string, limit time.Duration) (verdict string, err error) {
	path := filepath.Join(dir, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("the old lines are %d times in %s", n, m.file)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o644); err != nil {
		return "", err
	}
	defer func() {
		if e := os.WriteFile(path, text, 0o644); err == nil {
			err = e
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	args := append(slices.Clone(goCommand[1:]), "test", "-failfast", "-vet=off", "-timeout", limit.String())
	args = append(args, m.tests...)
	cmd := exec.CommandContext(ctx, goCommand[0], args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "[build failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", out)
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return "", fmt.Errorf("no test fits %q", m.tests)
	case err == nil:
		return "MISSED", nil
	case !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "panic: "):
		return "", fmt.Errorf("it ended otherwise: %w\n%s", err, out)
	}
	return "caught", nil
}

// copyModule copies a module without what is hidden.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rel != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}
