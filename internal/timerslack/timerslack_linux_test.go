package timerslack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// actAs is the environment variable that makes the test binary be a program that acts as the variable says.
const actAs = "BIGSET_TEST_TIMERSLACK"

func TestMain(m *testing.M) {
	if as := os.Getenv(actAs); as != "" {
		if err := act(as); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// act prints what the program finds out of itself, a fact a line.
func act(as string) error {
	var err error
	switch as {
	case "restarts":
		fmt.Println("begins", os.Getpid())
		err = Restart(Node, func() bool { return true })
	case "not ready":
		err = Restart(Node, func() bool { return false })
	case "again": // as if the program had been executed again, and had lost the slack
		err = errors.Join(os.Setenv(restarted, strconv.Itoa(os.Getpid())), Restart(Node, func() bool { return true }))
	case "not executable":
		if err := os.Chmod(os.Args[0], 0o600); err != nil {
			return err
		}
		err = Restart(Node, func() bool { return true })
	case "removed":
		_ = os.Remove(os.Args[0]) // after it was executed again, the file is gone
		err = Restart(Node, func() bool { return true })
	}
	if err != nil {
		fmt.Println("error", err)
	}
	slack, err := Get()
	if err != nil {
		return err
	}
	fmt.Println("slack", slack)
	fmt.Printf("arguments %q\n", os.Args[1:])
	for _, name := range []string{restarted, "KEPT"} {
		value, ok := os.LookupEnv(name)
		fmt.Printf("%s %q %v\n", name, value, ok)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	fmt.Println("files", files.Cur == files.Max) // Go has raised it
	got, err := io.ReadAll(os.NewFile(3, "inherited"))
	if err == nil {
		fmt.Printf("descriptor %q\n", got)
	}
	fmt.Printf("name %s", must(os.ReadFile("/proc/self/comm")))
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run starts the test binary as a program and returns what it printed. The program has a slack of 50 µs.
func run(t *testing.T, path, as string, least time.Duration) []string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("read later"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	cmd := exec.Command(path, "one", "two words")
	cmd.Env = append(os.Environ(), actAs+"="+as, "KEPT=as it was", restarted+"=1")
	cmd.ExtraFiles = []*os.File{r}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd, least); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %q", err, lines)
	}
	return lines
}

// usual skips the test unless the slack of the calling thread is smaller than a node's. It locks the thread until the end of the test.
func usual(t *testing.T) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	was, err := Get()
	if err == nil {
		var reset func()
		if reset, err = raise(was + 1); err == nil {
			reset()
		}
	}
	if err != nil || was >= Node {
		t.Skipf("the timer slack of a process can't be set here, or is set: %v, %v", was, err)
	}
	return was
}

// copied returns a copy of the test binary, which a test may change.
func copied(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(line string) bool {
			return line == w || strings.HasSuffix(w, "…") && strings.HasPrefix(line, strings.TrimSuffix(w, "…"))
		}) {
			t.Errorf("no line %q in\n%s", w, strings.Join(got, "\n"))
		}
	}
}

// kept is what every program prints, whether it was executed again or not.
var kept = []string{`arguments ["one" "two words"]`, `KEPT "as it was" true`, `BIGSET_RESTARTED "" false`, "files true", `descriptor "read later"`}

// TestStart starts a process with a slack. The test's own thread keeps its slack.
func TestStart(t *testing.T) {
	was := usual(t)
	got := run(t, os.Args[0], "itself", 3*Node)
	wantLines(t, got, "slack 3ms", `KEPT "as it was" true`)
	if is, err := Get(); is != was || err != nil {
		t.Errorf("the thread that has started it has a slack of %v, %v, not %v", is, err, was)
	}
	wantLines(t, run(t, os.Args[0], "itself", 0), "slack "+was.String())
}

// TestRestart lets a program execute itself once more, with all that it has but its slack.
func TestRestart(t *testing.T) {
	usual(t)
	got := run(t, os.Args[0], "restarts", 0)
	wantLines(t, got, append(kept, "slack 1ms", "name "+comm(os.Args[0]))...)
	if len(got) < 2 || got[0] != got[1] || !strings.HasPrefix(got[0], "begins ") || strings.HasPrefix(got[2], "begins ") {
		t.Errorf("it did not begin twice as one process: %q", got)
	}
	got = run(t, os.Args[0], "restarts", 2*Node)
	wantLines(t, got, append(kept, "slack 2ms")...)
	if len(got) < 2 || strings.HasPrefix(got[1], "begins ") {
		t.Errorf("it has executed itself, although it had the slack: %q", got)
	}
}

// comm returns the name that the system shows for a program.
func comm(path string) string {
	name := filepath.Base(path)
	return name[:min(len(name), 15)]
}

// TestRestartFails wants a program that can't execute itself to go on as it was.
func TestRestartFails(t *testing.T) {
	was := usual(t).String()
	for as, text := range map[string]string{
		"not ready": "error timerslack: the program is not ready to be executed again",
		"again":     "error timerslack: the system did not set the timer slack: the program was executed again, and has…",
	} {
		wantLines(t, run(t, os.Args[0], as, 0), append(kept, text, "slack "+was)...)
	}
	path := copied(t)
	wantLines(t, run(t, path, "not executable", 0), append(kept, "error timerslack: execute "+path+": permission denied", "slack "+was)...)
}

// TestRestartRemoved lets a program execute itself whose file was removed.
func TestRestartRemoved(t *testing.T) {
	usual(t)
	wantLines(t, run(t, copied(t), "removed", 0), append(kept, "slack 1ms", "name exe")...)
}

// TestOtherProgram wants no execution of a program that the first argument does not name.
func TestOtherProgram(t *testing.T) {
	was := os.Args[0]
	defer func() { os.Args[0] = was }()
	for _, name := range []string{"/bin/sh", "sh", "no-such-program", "", t.TempDir()} {
		os.Args[0] = name
		if path, err := program(); !errors.Is(err, ErrOtherProgram) {
			t.Errorf("%q: it would execute %q, %v", name, path, err)
		}
	}
	link := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(must(filepath.Abs(was)), link); err != nil {
		t.Fatal(err)
	}
	if os.Args[0] = link; must(program()) != link {
		t.Errorf("it would execute %q, not the link that it was started by", must(program()))
	}
}
