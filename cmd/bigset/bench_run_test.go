package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bigset/bench/compare"
	"bigset/bench/lab"
)

// TestBenchRun runs a ready file and one whose assertion fails, and checks what they leave: a report that compare reads, a page, plots, and the
// exit status.
func TestBenchRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run := command(t, "bench", "run", "ycsb-c", "--elements", "500", "--rounds", "1", "--every", "10ms", "--dir", dir,
		"--report", in("page.html"), "--csv", in("csv"), "--svg", in("svg"), "--out", in("out.json"), "--json")
	text, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "out.json"} {
		object := text
		if name != "" {
			if object, err = os.ReadFile(in(name)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := compare.Read(bytes.NewReader(object), name)
		if err != nil || len(r.Rows) != 2 || r.Rows[0].Stream == "" || r.Rows[0].Stream != r.Rows[1].Stream {
			t.Errorf("report %q: %+v, %v", name, r, err)
		}
	}
	if page, err := os.ReadFile(in("page.html")); err != nil || !bytes.Contains(page, []byte("YCSB C: read only")) {
		t.Errorf("the page, %d bytes: %v", len(page), err)
	}
	for _, kind := range []string{"csv", "svg"} {
		if plots, err := filepath.Glob(in(kind + "/*." + kind)); err != nil || len(plots) < 5 {
			t.Errorf("%d plots as %s, %v", len(plots), kind, err)
		}
	}
	brief := command(t, "bench", "run", "saturate", "ycsb-c", "--elements", "500", "--rounds", "1", "--duration", "50ms", "--dir", dir, "--report", in("brief.html"), "--csv", in("brief"), "--quiet")
	if text, err := brief.CombinedOutput(); err != nil { // a rate that rises, in a phase that ends before it is sampled
		t.Errorf("%v: %s", err, text)
	}
	if plots, err := filepath.Glob(in("brief/ycsb-c-*.csv")); err != nil || len(plots) < 5 {
		t.Errorf("%d plots of the second workload, %v", len(plots), err)
	}
	file := in("mine.yaml")
	if err := os.WriteFile(file, []byte("name: mine\nabout: one that fails\nsize: 50\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\nassert:\n  - ops(main) <= 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	failing := command(t, "bench", "run", file, "--rounds", "1", "--dir", dir, "--quiet")
	if text, err := failing.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != exitWorse || !bytes.Contains(text, []byte("missed in all rounds: mine: ops(main) <= 1")) {
		t.Errorf("an assertion that failed: %v: %s", err, text)
	}
}

// TestBenchList: the sizes have heads, and each workload a line, as in JSON.
func TestBenchList(t *testing.T) {
	t.Parallel()
	head, lines, _ := strings.Cut(call(t, "", "bench", "list").want(t, exitOK), "\n")
	if got := strings.Fields(head); strings.Join(got, " ") != "workload elements with --full what it shows" {
		t.Errorf("the head is %q", head)
	}
	for _, column := range []struct{ head, value string }{{"elements", "16k"}, {"with --full", "200k"}} {
		end := strings.Index(head, column.head) + len(column.head)
		if _, line, _ := strings.Cut(lines, "\nchurn "); !strings.HasSuffix(("churn " + line)[:end], " "+column.value) {
			t.Errorf("%s is not under %q:\n%s", column.value, column.head, lines)
		}
	}
	if objects := call(t, "", "bench", "list", "--json").want(t, exitOK); strings.Count(lines, "\n") != strings.Count(objects, "\n") {
		t.Errorf("%d lines, and %d objects", strings.Count(lines, "\n"), strings.Count(objects, "\n"))
	}
}

// TestBenchFilesHelp: the help of commands about workload files has no flags of stores. They are taken all the same.
func TestBenchFilesHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"list", "show", "check"} {
		help := call(t, "", "bench", name, "--help").want(t, exitOK)
		if strings.Contains(help, "--dir") || strings.Contains(help, "--strategy") || !strings.Contains(help, "--json") {
			t.Errorf("bench %s: %s", name, help)
		}
	}
	call(t, "", "--dir", t.TempDir(), "bench", "--strategy", "none", "show", "ycsb-c").want(t, exitOK)
}

// TestBenchRunInterrupted: an interrupt gives what was done until then and says how to go on, and the stores are gone.
func TestBenchRunInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, page := filepath.Join(dir, "long.yaml"), filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte("name: long\nabout: an hour\nsize: 50\nphases:\n  - {name: main, duration: 1h, rate: 100, mix: {add: 1}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	errs := &onWrite{when: "main", then: cancel}
	args := []string{"bench", "run", file, "--rounds", "1", "--every", "10ms", "--dir", dir, "--report", page}
	code := run(ctx, args, strings.NewReader(""), &out, errs)
	_, said, _ := strings.Cut(errs.String(), "bigset: ")
	if code != exitError || !strings.Contains(out.String(), "No measured phase was finished") || strings.Contains(out.String(), "interrupted") ||
		said != "the run was interrupted: long: long, 50 elements, round 1: bigset default: phase main\nhint: with --out FILE, the same command continues after the last finished round\n" {
		t.Errorf("status %d, %s\n%s", code, out.String(), errs.String())
	}
	if got := files(t, dir); len(got) != 2 {
		t.Errorf("it left %q", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	errs = &onWrite{when: "main", then: cancel}
	if run(ctx, append(args, "--out", filepath.Join(dir, "out.json")), strings.NewReader(""), &out, errs); !strings.HasSuffix(errs.String(), "\nhint: no round had ended, so the same command begins again\n") {
		t.Errorf("with --out: %s", errs.String())
	}
	kept := &benchRunFlags{Options: lab.Options{Out: file}}
	if got := kept.goesOn(); got != "the same command continues after the last finished round" {
		t.Errorf("after a round: %s", got)
	}
}
