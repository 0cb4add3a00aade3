// Command mutants plants known bugs, one at a time, in a copy of the module, runs the tests that should detect each, and reports
// how many were caught. It takes minutes and is not part of the tests.
//
//	go run ./internal/mutants
//	go run ./internal/mutants -only 'sync|counter'
//	go run ./internal/mutants -part 2/4 -done verdicts.txt
//
// With -part it plants only each n-th bug, so that n runs plant them all. With -done it appends a line with the bug's name and the
// verdict to the file as soon as it is known whether the bug was caught, and skips the bugs that the file lists as caught: the same
// command continues where it was interrupted. The file does not depend on the code: delete it when the code changes.
//
// A bug is a file in testdata: a line that describes it, the file that it changes, the arguments of go test for the tests that
// should detect it, then the lines that it replaces and their replacement. The old lines must be in the file exactly once: when the
// code moves, the test of this package fails, and the bug has to be planted again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options say which bugs are planted, and how.
type options struct {
	only      string // a regular expression that names must match
	part      string // "i/n", or "" for all
	done      string // the file of verdicts, or ""
	goCommand []string
	limit     time.Duration // of the tests of one bug
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "plant only the bugs whose file names match this regular expression")
	flag.StringVar(&o.part, "part", "", "i/n: plant only the i-th of n parts of the bugs, from 1/n to n/n")
	flag.StringVar(&o.done, "done", "", "append each verdict to this file, and skip the bugs that it lists as caught")
	goCommand := flag.String("go", "go", "the command that runs Go")
	flag.DurationVar(&o.limit, "limit", 4*time.Minute, "the longest that the tests of one bug may take")
	flag.Parse()
	o.goCommand = strings.Fields(*goCommand)
	root, err := moduleRoot()
	if err == nil {
		err = run(root, o, os.Stdout)
	}
	if err != nil {
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

// run plants bugs in the module of a folder, and writes a line for each.
func run(root string, o options, out io.Writer) error {
	all, err := load(filepath.Join(root, "internal", "mutants", "testdata"))
	if err != nil {
		return err
	}
	if all, err = choose(all, o.only, o.part); err != nil {
		return err
	}
	verdicts, err := readVerdicts(o.done)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyModule(dir, root); err != nil {
		return err
	}
	caught, before := 0, 0
	for _, m := range all {
		if verdicts[m.name] == verdictCaught {
			caught++
			before++
			continue
		}
		began := time.Now()
		verdict, err := m.plant(dir, o.goCommand, o.limit)
		if err != nil {
			verdict = "INVALID"
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.name, err)
		}
		if verdict == verdictCaught {
			caught++
		}
		fmt.Fprintf(out, "%-8s %5.1fs  %-24s %s\n", verdict, time.Since(began).Seconds(), m.name, m.what)
		if err := addVerdict(o.done, m.name, verdict); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d of %d caught", caught, len(all))
	if before > 0 {
		fmt.Fprintf(out, ", %d of them before, says %s", before, o.done)
	}
	fmt.Fprintln(out)
	if caught < len(all) {
		return fmt.Errorf("%d bugs were not caught", len(all)-caught)
	}
	return nil
}

// choose returns the bugs whose names match a pattern, or a part of those.
func choose(all []mutant, only, part string) (chosen []mutant, err error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	for _, m := range all {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no bug has a name that matches -only %q", only)
	}
	if part == "" {
		return chosen, nil
	}
	number, of, _ := strings.Cut(part, "/")
	i, errI := strconv.Atoi(number)
	n, errN := strconv.Atoi(of)
	if errI != nil || errN != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-part %q: want i/n, with i from 1 to n", part)
	}
	all, chosen = chosen, nil
	for k := i - 1; k < len(all); k += n {
		chosen = append(chosen, all[k])
	}
	return chosen, nil
}

const verdictCaught = "caught"

// readVerdicts returns the last verdict on each bug in a file; none if it does not exist yet.
func readVerdicts(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	verdicts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 {
			verdicts[f[0]] = f[1]
		}
	}
	return verdicts, nil
}

func addVerdict(file, name, verdict string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", name, verdict)
	return errors.Join(err, f.Close())
}

// moduleRoot returns the folder of go.mod: this one or one above.
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
	cmd.Env = append(os.Environ(), "BIGSET_TESTS=full") // a share of the crash points may not reveal it
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "[build failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", out)
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return "", fmt.Errorf("no test matches %q", m.tests)
	case err == nil:
		return "MISSED", nil
	case !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "panic: "):
		return "", fmt.Errorf("it ended otherwise: %w\n%s", err, out)
	}
	return verdictCaught, nil
}

// copyModule copies a module without hidden files.
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
