package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/engine"
)

// testApp is a run of the program with its output in memory.
func testApp(json bool) (a *app, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	a = newApp(nil, out, errs)
	a.json = json
	return a, out, errs
}

// brokenPipe is an output whose reader has gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestKilledImport kills imports at some acknowledgement: everything up to the last one must be there.
func TestKilledImport(t *testing.T) {
	for _, after := range []int{1, 7, 20} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			last := killImport(t, dir, after)
			call(t, "", "--dir", dir, "verify").want(t, exitOK)
			withEngine(t, dir, func(s *engine.Store) {
				have := members(t, s, "s")
				if at, ok := slices.BinarySearch(have, last); !ok || have[0] != "line-00000000" || at != numberOf(t, last) {
					t.Errorf("%q was acknowledged: found %v, at %d; the first of %d is %q", last, ok, at, len(have), have[0])
				}
			})
			call(t, "line-00000000\n", "--dir", dir, "set", "import", "s").want(t, exitOK)
		})
	}
}

// killImport imports numbered lines and kills the process when it has acknowledged some batches. It returns the last
// element that was acknowledged.
func killImport(t *testing.T, dir string, after int) (last string) {
	t.Helper()
	cmd := command(t, "--dir", dir, "set", "import", "s", "--ack")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		w := bufio.NewWriter(in)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, "line-%08d\n", i); err != nil {
				return
			}
		}
	}()
	acks := bufio.NewScanner(out)
	for n := 1; acks.Scan(); n++ { // also what it had printed before it died
		last = acks.Text()
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || last == "" {
		t.Fatalf("it was not killed: %v, the last is %q", err, last)
	}
	return last
}

func numberOf(t *testing.T, line string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "line-%d", &n); err != nil {
		t.Fatal(line, err)
	}
	return n
}

// TestInterrupt sends a signal to an import that waits for input.
func TestInterrupt(t *testing.T) {
	dir := newDir(t)
	cmd := command(t, "--dir", dir, "set", "import", "s", "--ack")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "one")
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "one\n" {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitError || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("got status %d, %q", code, errs.String())
	}
}

// TestReaderGone lets the reader of a long answer go after its first line.
func TestReaderGone(t *testing.T) {
	dir := newDir(t)
	call(t, numbered(50_000), "--dir", dir, "set", "import", "s", "--no-sync").want(t, exitOK)
	for _, verb := range []string{"export", "ls"} {
		cmd := command(t, "--dir", dir, "set", verb, "s")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		if line, err := bufio.NewReaderSize(read, 16).ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
		read.Close()
		if err := cmd.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("%s: got %v, %q", verb, err, errs.String())
		}
	}
}

// TestPages follows the tokens of ls to the end: every element comes once, in order.
func TestPages(t *testing.T) {
	dir := newDir(t)
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("%d", i*i))
	}
	call(t, "", append([]string{"--dir", dir, "set", "add", "s"}, all...)...).want(t, exitOK)
	slices.Sort(all)
	for _, c := range []struct {
		limit  int
		prefix string
		flags  []string
	}{
		{7, "", nil}, {10, "", []string{"--reverse"}}, {3, "1", nil}, {4, "1", []string{"--reverse"}}, {40, "", nil}, {5, "x", nil},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(e string) bool { return !strings.HasPrefix(e, c.prefix) })
		if len(c.flags) > 0 {
			slices.Reverse(want)
		}
		args := append([]string{"--dir", dir, "set", "ls", "s", "--limit", fmt.Sprint(c.limit), "--prefix", c.prefix}, c.flags...)
		if got := follow(t, c.limit, args); !slices.Equal(got, want) {
			t.Errorf("limit %d, prefix %q, %v: got %q, want %q", c.limit, c.prefix, c.flags, got, want)
		}
	}
}

// follow lists page after page.
func follow(t *testing.T, limit int, args []string) (all []string) {
	t.Helper()
	for page := args; ; {
		r := call(t, "", page...)
		lines := strings.Fields(r.want(t, exitOK))
		all = append(all, lines...)
		after, more := strings.CutPrefix(r.errs, "more: --after ")
		if !more {
			return all
		}
		if len(lines) != limit {
			t.Errorf("a page of %d, want %d", len(lines), limit)
		}
		page = append(slices.Clone(args), "--after", strings.TrimSpace(after))
	}
}

// TestDamage flips bytes in a table: verify says no, others say what to do, and nothing panics.
func TestDamage(t *testing.T) {
	dir := newDir(t)
	call(t, numbered(20_000), "--dir", dir, "set", "import", "s", "--no-sync").want(t, exitOK)
	call(t, "", "--dir", dir, "compact").want(t, exitOK)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(b) / 4; i < len(b)/2; i += 512 {
			b[i] ^= 0x55
		}
		if err := os.WriteFile(table, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := call(t, "", "--dir", dir, "verify")
	if r.code != exitAbsent || !strings.Contains(r.out, "store is damaged") {
		t.Errorf("verify: got status %d, %q, %q", r.code, r.out, r.errs)
	}
	r = call(t, "", "--dir", dir, "set", "export", "s")
	if r.code != exitError || !strings.Contains(r.errs, "run `bigset verify`") {
		t.Errorf("export: got status %d, %q", r.code, r.errs)
	}
}

// TestDropGivesSpaceBack wants the keys of a dropped set off the disk when drop returns.
func TestDropGivesSpaceBack(t *testing.T) {
	dir := newDir(t)
	call(t, numbered(20_000), "--dir", dir, "set", "import", "s", "--no-sync").want(t, exitOK)
	tabled := func() (n uint64) {
		withEngine(t, dir, func(s *engine.Store) {
			st, err := s.Stats()
			if err != nil {
				t.Fatal(err)
			}
			n = st.KeysInTables
		})
		return n
	}
	if n := tabled(); n != 20_000 {
		t.Fatalf("%d keys are in tables before", n)
	}
	call(t, "", "--dir", dir, "set", "drop", "s").want(t, exitOK)
	if n := tabled(); n != 0 {
		t.Errorf("%d keys are in tables after", n)
	}
}

// TestClosedStoreNeedsNoIncarnation wants the store closed in order by every way out: the actor stays the same.
func TestClosedStoreNeedsNoIncarnation(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "s", "a").want(t, exitOK)
	actor := func() (a string) {
		withEngine(t, dir, func(s *engine.Store) { a = string(s.Replica().Actor()) })
		return a
	}
	was := actor()
	call(t, "", "--dir", dir, "set", "rm", "s", "nothing").want(t, exitAbsent)
	call(t, "b\n!\n", "--dir", dir, "set", "import", "s", "--base64").want(t, exitError)
	call(t, "", "--dir", dir, "set", "drop", "s").want(t, exitOK)
	if now := actor(); now != was {
		t.Errorf("got a new actor: %x, it was %x", now, was)
	}
}

// TestFullOutput wants an output that can't be written to be an error.
func TestFullOutput(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "s", "a").want(t, exitOK)
	var errs bytes.Buffer
	code := run(t.Context(), []string{"--dir", dir, "set", "export", "s"}, nil, fullDisk{}, &errs)
	if code != exitError || !strings.Contains(errs.String(), "free some space") {
		t.Errorf("got status %d, %q", code, errs.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.Join(syscall.ENOSPC) }

// TestInterruptedTwice: a signal that comes twice in a moment, as timeout sends it, ends a simulation with its report.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	for begins := 300 * time.Millisecond; ; begins *= 2 {
		var out bytes.Buffer
		cmd := command(t, "simulate", "--seconds", "60")
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(begins) // it takes signals by then, or ends without a word
		for range 200 {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				break // it has ended
			}
			time.Sleep(200 * time.Microsecond)
		}
		err := cmd.Wait()
		if err == nil && strings.Contains(out.String(), "0 violations") {
			return
		}
		if err == nil || out.Len() > 0 || begins > 10*time.Second {
			t.Fatalf("%v: %s", err, &out)
		}
	}
}
