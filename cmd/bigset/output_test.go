package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/keyscheme"
	"bigset/server"
)

// TestEveryCommandHasHelp wants of every command one line, an example that names it, and help on standard output.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Example == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%q needs a short text and an example with its name", cmd.CommandPath())
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		if out := call(t, "", args...).want(t, exitOK); !strings.Contains(out, "Examples:") {
			t.Errorf("%q: help is %q", cmd.CommandPath(), out)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func TestAloneItPrintsHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"set"}, {"help"}, {"help", "set", "add"}} {
		if out := call(t, "", args...).want(t, exitOK); !strings.Contains(out, "Usage:") {
			t.Errorf("%q: got %q", args, out)
		}
	}
}

func TestVersion(t *testing.T) {
	if out := call(t, "", "version").want(t, exitOK); !strings.HasPrefix(out, "bigset ") {
		t.Errorf("got %q", out)
	}
	var b build
	if err := json.Unmarshal([]byte(call(t, "", "version", "--json").want(t, exitOK)), &b); err != nil || b.Go == "" {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestStats(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "friends", "paul", "ringo").want(t, exitOK)
	call(t, "", "--dir", dir, "set", "add", "gone", "paul").want(t, exitOK)
	call(t, "", "--dir", dir, "set", "rm", "gone", "paul").want(t, exitOK)
	out := call(t, "", "--dir", dir, "stats").want(t, exitOK)
	for _, want := range []string{"records          merge\n", "sets             2, 1 of them empty\n", "live dots        2\n", "events           4\n", "B\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var figures map[string]any
	if err := json.Unmarshal([]byte(call(t, "", "--dir", dir, "stats", "--json").want(t, exitOK)), &figures); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{"dir": dir, "record": "merge", "strategy": "default", "sets": 2.0, "live_dots": 2.0} {
		if figures[field] != want {
			t.Errorf("%s: got %v, want %v", field, figures[field], want)
		}
	}
	if _, ok := figures["bytes_on_disk"].(float64); !ok {
		t.Errorf("no bytes_on_disk in %v", figures)
	}
}

// TestVerifyPrintsProblems makes a report up: the engine has no way to make a store that is wrong.
func TestVerifyPrintsProblems(t *testing.T) {
	rep := &engine.VerifyReport{Sets: 1, Keys: 2, Counts: filters.Counts{Filters: 3, FilterSlices: 4, FilterPages: 5, FilterBytes: 2048}, ProblemCount: 4, Problems: []engine.Problem{
		{Set: []byte("s"), Element: []byte("e\n"), What: "dot aa:1 has two keys"}, {Set: []byte{0xff}, What: "x"}, {Filter: []byte("f"), What: "z"}, {What: "y"}}}
	for _, c := range []struct {
		json bool
		want string
	}{
		{false, "problem in set \"s\", element \"e\\n\": dot aa:1 has two keys\nproblem in set \"\\xff\": x\nproblem in filter \"f\": z\nproblem: y\n" +
			"not verified, 4 problems: 1 set, 0 elements, 2 keys, 0 of them dead; 3 filters, 4 slices, 5 pages, 2.0 KiB\n"},
		{true, `{"set":"s","element":"e\n","problem":"dot aa:1 has two keys"}` + "\n" + `{"set_base64":"/w==","problem":"x"}` + "\n" +
			`{"filter":"f","problem":"z"}` + "\n" + `{"problem":"y"}` + "\n" +
			`{"ok":false,"sets":1,"keys":2,"live_keys":0,"dead_keys":0,"open_keys":0,"live_dots":0,"elements":0,"filters":3,"filter_slices":4,"filter_pages":5,"filter_bytes":2048,"problems":4}` + "\n"},
	} {
		a, out, errs := testApp(c.json)
		if code := a.report(a.verified(rep, &server.Kept{})); code != exitAbsent || errs.Len() > 0 {
			t.Errorf("got status %d, %q", code, errs)
		}
		a.out.Flush()
		if got := out.String(); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}

func TestAdviceNamesEveryCause(t *testing.T) {
	for i, ad := range advices {
		if ad.hint == "" {
			continue
		}
		a, _, errs := testApp(false)
		err := fmt.Errorf("engine: doing this: %w", ad.cause)
		if got := a.report(err); got != ad.code {
			t.Errorf("%v: got status %d, want %d", ad.cause, got, ad.code)
		}
		if text := errs.String(); !strings.HasPrefix(text, "bigset: doing this: ") || !strings.HasSuffix(text, "hint: "+ad.hint+"\n") {
			t.Errorf("advice %d, %v: got %q", i, ad.cause, text)
		}
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, exitOK, ""},
		{errAbsent, exitAbsent, ""},
		{&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, exitOK, ""},
		{&importError{7, syscall.EPIPE}, exitError, "bigset: 7 elements imported and durable, then: broken pipe"},
		{errors.Join(errAbsent, syscall.ENOSPC), exitError, "bigset: absent; no space left on device"},
		{&bigset.LimitError{What: "dots in a context", Got: 2, Max: 1}, exitError, "bigset: limit exceeded: 2 dots in a context, at most 1"},
		{fmt.Errorf("x: %w", keyscheme.ErrTokenSeal), exitError, "bigset: x: token: broken seal or retired key"},
		{errors.New("bench: odd"), exitError, "bigset: odd\nhint: `bigset verify` says"},
		{&os.PathError{Op: "mkdir", Path: "x", Err: syscall.ENOTDIR}, exitError, "bigset: mkdir x: not a directory\nhint: check the path"},
	} {
		a, _, errs := testApp(false)
		if got := a.report(c.err); got != c.code {
			t.Errorf("%v: got status %d, want %d", c.err, got, c.code)
		}
		if got := errs.String(); !strings.HasPrefix(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%v: got %q, want %q", c.err, got, c.says)
		}
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB",
		3 << 30: "3.0 GiB", 1 << 63: "8192.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("size %d: got %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 keys", 1: "1 key", 2000: "2,000 keys"} {
		if got := count(n, "key"); got != want {
			t.Errorf("count %d: got %q, want %q", n, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{to: &out, now: func() time.Time { return now }, last: now}
	p.clear()
	for n := range 10 { // every 100 ms
		p.show("%d", n)
		now = now.Add(100 * time.Millisecond)
	}
	p.clear()
	p.clear()
	if got, want := out.String(), "\r\x1b[K3\r\x1b[K6\r\x1b[K9\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCountShowsProgress(t *testing.T) {
	dir := newDir(t)
	lines := ""
	for i := range 2500 {
		lines += fmt.Sprintln(i)
	}
	call(t, lines, "--dir", dir, "set", "import", "numbers", "--policy", "empty").want(t, exitOK) // so that it has to look
	a, out, _ := testApp(false)
	var shown bytes.Buffer
	now := time.Unix(0, 0)
	a.progress = &progress{to: &shown, now: func() time.Time { now = now.Add(time.Second); return now }}
	if code := a.run(t.Context(), []string{"--dir", dir, "set", "count", "numbers"}); code != exitOK || out.String() != "2500\n" {
		t.Errorf("got %q, status %d", out, code)
	}
	if got := shown.String(); !strings.Contains(got, "counted 1,000 elements\r\x1b[Kcounted 2,000 elements\r") {
		t.Errorf("it showed %q", got)
	}
}

func TestProgressOnlyOnATerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(&bytes.Buffer{}) || isTerminal(null) || isTerminal(file) {
		t.Error("a buffer, a file or the null device is taken for a terminal")
	}
	p := newProgress(file)
	p.now = func() time.Time { return time.Now().Add(time.Hour) }
	p.show("x")
	p.clear()
	if info, _ := file.Stat(); info.Size() > 0 {
		t.Error("progress went into a file")
	}
}
