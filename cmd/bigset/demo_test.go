package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/bench/demo"
	"bigset/bench/screen"
)

// demoArgs are those of a demonstration of a moment, with its report and its temporary folder in a folder.
func demoArgs(dir string, more ...string) []string {
	return append([]string{"demo", "--scale", "0.001", "--seed", "7", "--dir", dir, "--report", filepath.Join(dir, "report.html")}, more...)
}

// files returns the names in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestDemo: where there is no terminal it tells by lines on standard error, and leaves the report alone.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := call(t, "", demoArgs(dir)...)
	out := r.want(t, exitOK)
	for _, want := range []string{"lost 0 · resurrected 0 · diverged 0 · counters reused 0\n", "\nPASS in ", "report   " + dir, "again    bigset demo --seed 7 --scale 0.001\n", "next     bigset "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out+r.errs, "\x1b") || strings.Count(r.errs, "\n") < 3 || !strings.Contains(r.errs, "drill: ") {
		t.Errorf("told %.300q", r.errs)
	}
	if got := files(t, dir); len(got) != 1 || got[0] != "report.html" {
		t.Errorf("it left %q", got)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("<!doctype html>")) && !bytes.Contains(page, []byte("<!DOCTYPE html>")) || !bytes.Contains(page, []byte("PASS")) {
		t.Errorf("the report is %d bytes, %v", len(page), err)
	}
}

// TestDemoJSON: one object, and with --quiet nothing else; ” is no report.
func TestDemoJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := call(t, "", demoArgs(dir, "--json", "--quiet", "--report", "")...)
	var got demo.Result
	d := json.NewDecoder(strings.NewReader(r.want(t, exitOK)))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || d.More() || !got.Pass || got.Seed != 7 || len(got.Race) != 3 || len(got.Table) != 15 || got.Drill == nil || got.Report != "" {
		t.Errorf("%v: %s", err, r.out)
	}
	if left := files(t, dir); r.errs != "" || len(left) > 0 {
		t.Errorf("told %q, left %q", r.errs, left)
	}
}

// TestDemoInterrupted: what was measured until then is shown and in the report, and the status is that of an error.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	errs := &onWrite{when: "resting", then: cancel}
	code := run(ctx, demoArgs(dir, "--scale", "0.01"), strings.NewReader(""), &out, errs)
	if code != exitError || !strings.Contains(out.String(), "\nINTERRUPTED in ") || !strings.Contains(out.String(), "bytes written") || !strings.Contains(errs.String(), "interrupted\nhint: ") {
		t.Errorf("status %d, %s\n%s", code, out.String(), errs.String())
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("it left %q", got)
	}
}

// TestDemoKilled: a process that is interrupted by a signal removes its stores, too.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // else the process inherits that
		signals = append(signals, syscall.SIGHUP)
	}
	for _, sig := range signals {
		dir := t.TempDir()
		cmd := command(t, demoArgs(dir, "--scale", "1")...)
		var out bytes.Buffer
		cmd.Stdout = &out
		errs := &onWrite{when: "loading", then: func() { _ = cmd.Process.Signal(sig) }}
		cmd.Stderr = errs
		began := time.Now()
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != exitError || !strings.Contains(out.String(), "\nINTERRUPTED in ") {
			t.Fatalf("%v: %v after %v: %.300s\n%.300s", sig, err, time.Since(began), out.String(), errs.String())
		}
		if got := files(t, dir); len(got) != 1 || got[0] != "report.html" {
			t.Errorf("%v: it left %q", sig, got)
		}
	}
}

// onWrite is a standard error that calls a function once something is written. It has no method of a buffer by which Write is passed over.
type onWrite struct {
	written bytes.Buffer
	when    string
	then    func()
	done    bool
}

func (w *onWrite) String() string { return w.written.String() }

func (w *onWrite) Write(b []byte) (int, error) {
	if !w.done && bytes.Contains(b, []byte(w.when)) {
		w.done = true
		w.then()
	}
	return w.written.Write(b)
}

// TestDemoRefused: what can't be is refused before the work, and leaves what was there.
func TestDemoRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.html")
	if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--report", filepath.Join(dir, "none", "report.html")}, {"--report", dir}, {"--scale", "0"}, {"--scale", "-1"}, {"--scale", "1e9"},
		{"--scale", "NaN"}, {"--report", old, "--scale", "1e9"}, {"--report", filepath.Join(dir, "new.html"), "--scale", "1e9"}, {"more"},
	} {
		r := call(t, "", append([]string{"demo", "--scale", "100", "--dir", dir}, args...)...)
		if r.code != exitError || r.out != "" || strings.Contains(r.errs, "settled") {
			t.Fatalf("%q: status %d, %.200q, %.200q", args, r.code, r.out, r.errs)
		}
	}
	if r := call(t, "", demoArgs(dir, "--dir", filepath.Join(dir, "none"), "--report", old)...); r.code != exitError || r.out != "" {
		t.Errorf("no folder: status %d, %.200q", r.code, r.out)
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "old" || len(files(t, dir)) != 1 {
		t.Errorf("left %q, of which the old one has %.20q, %v", files(t, dir), b, err)
	}
}

// TestDemoFails: a broken promise is status 1, interrupted or not.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    demo.Result
		code int
		says string
	}{
		{demo.Result{Drill: &demo.Drill{Lost: 1}}, exitAbsent, "FAIL"},
		{demo.Result{Drill: &demo.Drill{Reused: 1}, Interrupted: true}, exitAbsent, "FAIL"},
		{demo.Result{Problems: []string{"wrong"}}, exitAbsent, "FAIL"},
		{demo.Result{Interrupted: true}, exitError, "INTERRUPTED"},
		{demo.Result{Pass: true}, exitOK, "PASS"},
	} {
		a, out, _ := testApp(false)
		if code := a.report(a.demoSays(&c.r)); code != c.code {
			t.Errorf("%+v: status %d, want %d", c.r, code, c.code)
		}
		a.out.Flush()
		if !strings.Contains(out.String(), "\n"+c.says+" in ") {
			t.Errorf("%+v: %s", c.r, out)
		}
	}
}

// TestDemoShows: a terminal is drawn on in place, also where standard output alone is one; anything else has lines.
func TestDemoShows(t *testing.T) {
	for _, c := range []struct {
		term       string
		json, view bool
	}{{"xterm", false, true}, {"dumb", false, false}, {"xterm", true, false}} {
		t.Setenv("TERM", c.term)
		a, out, errs := testApp(c.json)
		a.toTerminal = true
		tell, clear := a.demoShows(7)
		tell(demo.State{Drill: &demo.Drill{}})
		drawn, lines := out.String(), errs.String()
		clear()
		if c.view != strings.HasSuffix(drawn, "\x1b[J") || c.view != (lines == "") || c.view != strings.HasSuffix(out.String(), "A\r\x1b[J") {
			t.Errorf("%+v: drew %q, wrote %q, then %q", c, drawn, lines, out)
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want screen.Style
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, screen.Style{Colour: true}},
		{map[string]string{"LANG": "C.utf8", "NO_COLOR": "1"}, screen.Style{}},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, screen.Style{ASCII: true, Colour: true}},
		{map[string]string{"LANG": "C", "LC_CTYPE": "de_DE.UTF-8", "TERM": "dumb"}, screen.Style{}},
		{nil, screen.Style{ASCII: true, Colour: true}},
	} {
		if got := terminalStyle(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
	for _, c := range []struct {
		columns, lines string
		w, h           int
	}{{"", "", 80, 24}, {"132", "50", 132, 50}, {"-1", "x", 80, 24}} {
		if w, h := terminalSize(&bytes.Buffer{}, func(name string) string { return map[string]string{"COLUMNS": c.columns, "LINES": c.lines}[name] }); w != c.w || h != c.h {
			t.Errorf("%+v: %d, %d", c, w, h)
		}
	}
}
