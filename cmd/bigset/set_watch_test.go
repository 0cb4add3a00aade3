package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"bigset/client"
)

// TestWatch watches a set of a running node while it changes, and goes on with a token.
func TestWatch(t *testing.T) {
	t.Parallel()
	addr := serveSets(t)
	c, err := client.Open(client.Options{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	change := func(_ client.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	change(c.Set("friends").Add(t.Context(), "paul", "ringo"))
	first := call(t, "", "set", "watch", "friends", "--addr", addr, "--once", "--json")
	lines := strings.Split(strings.TrimSpace(first.out), "\n")
	var last struct{ Next string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 3 || lines[0] != `{"reset":"begin"}` || !strings.HasPrefix(lines[1], `{"added":[{"element":"paul","dots":["`) {
		t.Fatalf("%v: %s", err, first.out)
	}

	want := startWatching(t, "friends", "--addr", addr)
	want("+\tpaul", "+\tringo")
	change(c.Set("friends").Remove(t.Context(), "paul"))
	want("-\tpaul")
	change(c.Set("friends").Add(t.Context(), "ringo")) // which changes nothing that is shown
	change(c.Set("friends").Add(t.Context(), "john"))
	want("+\tjohn")

	r := call(t, "", "set", "watch", "friends", "--addr", addr, "--once", "--json", "--since", last.Next)
	if r.code != 0 || strings.Contains(r.out, "reset") || !strings.Contains(r.out, `"element":"john"`) || !strings.Contains(r.out, `{"removed":[{"element":"paul","dots":["`) && !strings.Contains(r.out, `"element":"paul"`) {
		t.Errorf("status %d, %s%s", r.code, r.out, r.errs)
	}
}

// startWatching watches a set in a process of its own until the test ends, and returns a function that wants the next lines.
func startWatching(t *testing.T, args ...string) (want func(lines ...string)) {
	t.Helper()
	cmd := command(t, append([]string{"set", "watch"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs messages
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := make(chan string, 100)
	go func() {
		defer close(said)
		for in := bufio.NewScanner(out); in.Scan(); {
			said <- in.Text()
		}
	}()
	return func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			select {
			case got, ok := <-said:
				if !ok {
					t.Fatalf("it has ended, and %q was not printed: %s", line, &errs)
				} else if got != line {
					t.Errorf("%q, want %q", got, line)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%q was not printed: %s", line, &errs)
			}
		}
	}
}

// TestWatchWaits: as long as no node answers, watch says so once.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	for wait := watchPause * 5 / 2; ; wait *= 2 { // on a busy machine it may be too short
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		r := callContext(ctx, "", "set", "watch", "friends", "--addr", "127.0.0.1:1") // nobody listens there
		cancel()
		said := strings.Count(r.errs, "waiting: ")
		if said == 0 && wait < time.Minute {
			continue
		}
		if r.code != 0 || said != 1 {
			t.Errorf("status %d, %s", r.code, r.errs)
		}
		return
	}
}

// TestWatchForeign: watch does not wait for something that is no node.
func TestWatchForeign(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(nc, "Client Error: Command not supported\n")
			go func() { _, _ = io.Copy(io.Discard, nc) }()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := callContext(ctx, "", "set", "watch", "friends", "--addr", ln.Addr().String())
	if r.code != exitError || !strings.Contains(r.errs, "not a bigset node") || !strings.Contains(r.errs, "\nhint: --addr is the port that") {
		t.Errorf("status %d, %s", r.code, r.errs)
	}
}
