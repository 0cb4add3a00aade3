package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"bigset"
	"bigset/engine"
)

// numbered returns n lines in order.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line-%08d\n", i)
	}
	return b.String()
}

func TestImportMany(t *testing.T) {
	dir, n := newDir(t), 100_000
	text := numbered(n)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := call(t, "", "--dir", dir, "set", "import", "s", file, "--ack").want(t, exitOK)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	acks, last := lines[:len(lines)-1], lines[len(lines)-1]
	if last != fmt.Sprintf("imported %d elements", n) {
		t.Errorf("got %q at the end", last)
	}
	if len(acks) < n/batchLines || !slices.IsSorted(acks) || acks[len(acks)-1] != fmt.Sprintf("line-%08d", n-1) {
		t.Errorf("%d acknowledgements, sorted %v, the last %q", len(acks), slices.IsSorted(acks), acks[len(acks)-1])
	}
	if got := call(t, "", "--dir", dir, "set", "export", "s").want(t, exitOK); got != text {
		t.Errorf("what comes out is not what went in: %d bytes, want %d", len(got), len(text))
	}
	call(t, "", "--dir", dir, "verify").want(t, exitOK)
}

func TestExportImportRoundTrip(t *testing.T) {
	dir, rnd := newDir(t), rand.New(rand.NewPCG(1, 2))
	elements := [][]byte{{}, {'\n'}, {'\r'}, {0}, bytes.Repeat([]byte{0xff}, bigset.ElementBytesMax)}
	for range 3000 {
		e := make([]byte, 1+rnd.IntN(20))
		for i := range e {
			e[i] = byte(rnd.Uint32())
		}
		elements = append(elements, e)
	}
	withEngine(t, dir, func(s *engine.Store) {
		if _, err := s.Add(t.Context(), []byte("a"), elements, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	text := call(t, "", "--dir", dir, "set", "export", "--base64", "a").want(t, exitOK)
	call(t, text, "--dir", dir, "set", "import", "--base64", "b").want(t, exitOK)
	withEngine(t, dir, func(s *engine.Store) {
		if a, b := members(t, s, "a"), members(t, s, "b"); len(a) < 2900 || !slices.Equal(a, b) {
			t.Errorf("%d elements became %d others", len(a), len(b))
		}
	})
}

func TestImportLongLines(t *testing.T) {
	longest := strings.Repeat("x", bigset.ElementBytesMax)
	for name, c := range map[string]struct{ bad, says string }{
		"one byte":  {longest + "y", "line 1002 of standard input: name too long: an element of 65537 bytes, at most 65536"},
		"very long": {strings.Repeat("x", 3*lineBytes), "line 1002 of standard input: it is longer than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			r := call(t, numbered(1000)+longest+"\n"+c.bad+"\nafter\n", "--dir", dir, "set", "import", "s")
			r.want(t, exitError)
			if !strings.Contains(r.errs, c.says) || !strings.Contains(r.errs, "1001 elements imported and durable") {
				t.Errorf("got %q", r.errs)
			}
			if got := call(t, "", "--dir", dir, "set", "count", "s").want(t, exitOK); got != "1001\n" {
				t.Errorf("the set has %s elements", got)
			}
		})
	}
}

// TestImportDoesNotWaitForMore wants a batch written when the input pauses, not when a thousand lines have come.
func TestImportDoesNotWaitForMore(t *testing.T) {
	dir := newDir(t)
	in, feed := io.Pipe()
	acks, out := io.Pipe()
	status := make(chan int)
	go func() {
		var errs bytes.Buffer
		status <- run(t.Context(), []string{"--dir", dir, "set", "import", "s", "--ack"}, in, out, &errs)
		out.Close()
	}()
	answers := bufio.NewScanner(acks)
	for _, line := range []string{"one", "two", "three"} {
		fmt.Fprintln(feed, line)
		if !answers.Scan() || answers.Text() != line {
			t.Fatalf("got %q, want %q", answers.Text(), line)
		}
	}
	feed.Close()
	if !answers.Scan() || answers.Text() != "imported 3 elements" {
		t.Errorf("got %q at the end", answers.Text())
	}
	if code := <-status; code != exitOK {
		t.Errorf("got status %d", code)
	}
}

// TestImportInterrupted cancels an import that waits for input.
func TestImportInterrupted(t *testing.T) {
	dir := newDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, feed := io.Pipe()
	defer feed.Close()
	var errs bytes.Buffer
	status := make(chan int)
	acks, out := io.Pipe()
	go func() { status <- run(ctx, []string{"--dir", dir, "set", "import", "s", "--ack"}, in, out, &errs) }()
	fmt.Fprintln(feed, "one")
	if line, err := bufio.NewReader(acks).ReadString('\n'); line != "one\n" {
		t.Fatal(line, err)
	}
	cancel()
	if code := <-status; code != exitError || !strings.Contains(errs.String(), "1 element imported and durable, then: context canceled") {
		t.Errorf("got status %d, %q", code, errs.String())
	}
	if got := call(t, "", "--dir", dir, "set", "ls", "s").want(t, exitOK); got != "one\n" {
		t.Errorf("got %q", got)
	}
}

// TestImportWithoutItsReader ends an import whose acknowledgements nobody takes.
func TestImportWithoutItsReader(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"--dir", newDir(t), "set", "import", "s", "--ack"}, strings.NewReader("a\nb\n"), brokenPipe{}, &errs)
	if code != exitError || !strings.Contains(errs.String(), "2 elements imported and durable") {
		t.Errorf("got status %d, %q", code, errs.String())
	}
}

func TestImportOfABrokenInput(t *testing.T) {
	dir := newDir(t)
	in := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(errors.New("unplugged")))
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--dir", dir, "set", "import", "s"}, in, &out, &errs); code != exitError {
		t.Errorf("got status %d", code)
	}
	if got := errs.String(); !strings.HasPrefix(got, "bigset: 2 elements imported and durable, then: read standard input after line 2: unplugged") {
		t.Errorf("got %q", got)
	}
}
