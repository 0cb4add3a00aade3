package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bigset"
	"bigset/engine"
)

// asCommand is the environment variable that makes the test binary be the command: a process that can be killed.
const asCommand = "BIGSET_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command returns the program as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// run runs the program in this process with the arguments and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return newApp(in, out, errs).run(ctx, args)
}

// result is what one run of the program came to.
type result struct {
	code      int
	out, errs string
}

// call runs the program in this process.
func call(t *testing.T, in string, args ...string) result {
	t.Helper()
	return callContext(t.Context(), in, args...)
}

func callContext(ctx context.Context, in string, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, strings.NewReader(in), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// want fails the test unless the run ended with the status; it returns standard output.
func (r result) want(t *testing.T, code int) string {
	t.Helper()
	if r.code != code {
		t.Fatalf("got status %d, want %d; out %q, errors %q", r.code, code, r.out, r.errs)
	}
	return r.out
}

// messages is what a process writes to standard error. Any number of goroutines may call the methods.
type messages struct {
	mu  sync.Mutex
	all []byte
}

func (m *messages) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, b...)
	return len(b), nil
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.all)
}

func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }

// withEngine opens the store beside the program.
func withEngine(t *testing.T, dir string, f func(*engine.Store)) {
	t.Helper()
	s, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// members returns the elements of a set in order.
func members(t *testing.T, s *engine.Store, set string) (names []string) {
	t.Helper()
	for chunk, err := range s.Read(t.Context(), []byte(set), bigset.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range chunk.Elements {
			names = append(names, string(e.Name))
		}
	}
	return names
}
