package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/internal/timerslack"
)

// usualSlack returns the timer slack of the processes that the test starts. It skips the test if that is a node's already, or if the system
// refuses a larger one.
func usualSlack(t *testing.T) string {
	t.Helper()
	slack, err := timerslack.Get()
	if err != nil || slack >= timerslack.Node {
		t.Skipf("a process has no timer slack here, or has a node's: %v, %v", slack, err)
	}
	err = timerslack.Restart(slack+1, func() bool { return false }) // it sets the slack and takes it back
	if errors.Is(err, timerslack.ErrRefused) {
		t.Skip(err)
	}
	if !errors.Is(err, timerslack.ErrNotReady) {
		t.Fatal(err)
	}
	return slack.String()
}

// serveMember is the command of a member of a cluster of one, which no other process reaches.
func serveMember(t *testing.T, dir string, args ...string) *exec.Cmd {
	return serveCommand(t, dir, append([]string{"--log-level", "debug", "--node", "a", "--peers", "a=127.0.0.1:1", "--listen", "127.0.0.1:0", "--insecure"}, args...)...)
}

// TestServeSlack starts a member of a cluster. The member logs the timer slack that it has given itself. It has the arguments and the environment that
// it was started with, and ends in order by a signal. If the test may read the timer slack of another process, it also reads that of the first thread.
func TestServeSlack(t *testing.T) {
	usualSlack(t)
	cmd := serveMember(t, newDir(t), "--cluster", "two words")
	cmd.Env = append(cmd.Env, "BIGSET_TEST_KEPT=as it was")
	s := startServing(t, cmd)
	of := func(file string) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
		if err != nil {
			t.Skip(err) // what follows needs /proc
		}
		return string(b)
	}
	if got, want := of("cmdline"), strings.Join(cmd.Args, "\x00")+"\x00"; got != want {
		t.Errorf("its arguments are %q, not %q", got, want)
	}
	has := strings.Split(of("environ"), "\x00")
	for _, want := range cmd.Env {
		if !slices.Contains(has, want) {
			t.Errorf("its environment does not contain %q", want)
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", cmd.Process.Pid)); err == nil && string(b) != "1000000\n" {
		t.Errorf("its timer slack is %q ns", b)
	}
	if code := s.end(syscall.SIGTERM); code != exitOK || strings.Count(s.log.text.String(), `msg="bigset: timer slack" slack=1ms`) != 1 {
		t.Errorf("status %d\n%s", code, s.log.text.String())
	}
}

// TestServeSlackChosen starts nodes whose folder can't be a store's, so that they end when they have their timer slack.
func TestServeSlackChosen(t *testing.T) {
	usual := usualSlack(t)
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, "bloomd.f"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cmd  *exec.Cmd
		want string
	}{
		{"none", serveMember(t, foreign, "--timer-slack", "0"), "slack=" + usual},
		{"alone", serveCommand(t, foreign, "--log-level", "debug", "--timer-slack", "2ms"), "slack=2ms"},
		{"read once", serveMember(t, foreign, "--config", "/dev/stdin"), "slack=" + usual}, // a second start would not find the configuration
	} {
		c.cmd.Stdin = strings.NewReader("[bloomd]\nlog = text\n")
		out, err := c.cmd.CombinedOutput()
		if !strings.Contains(string(out), "a bloomd has its filters there") || !strings.Contains(string(out), c.want+"\n") {
			t.Errorf("%s: %v, no %q in\n%s", c.name, err, c.want, out)
		}
	}
}

// TestServeStoppedEarly sends a signal to nodes that are starting. Each ends by it, also if it is about to execute itself.
func TestServeStoppedEarly(t *testing.T) {
	usualSlack(t)
	if !tier.Full() {
		t.Skip("starts 60 nodes; .ci/full runs it")
	}
	for i := range 60 {
		cmd := serveMember(t, newDir(t))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if !late.Stop() {
			t.Fatalf("after %d ms it did not end by SIGTERM", i)
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && (!ok || status.Signal() != syscall.SIGTERM) {
			t.Fatalf("after %d ms it ended with %v", i, err)
		}
	}
}

// TestStopsSuspended: a signal that has come before the program is executed again ends the program, and so does one after an execution that failed.
func TestStopsSuspended(t *testing.T) {
	stays := make(chan os.Signal, 4)
	signal.Notify(stays, syscall.SIGTERM) // the test does not end by it
	defer signal.Stop(stays)
	send := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-stays
	}

	ctx, s := watchStops()
	if !s.suspend() {
		t.Fatal("it is not suspended, without a signal")
	}
	send()
	if s.resume(); ctx.Err() != nil || len(s.seen) > 0 {
		t.Error("it had a signal while it was suspended")
	}
	send()
	<-ctx.Done()
	if s.suspend() {
		t.Error("it is suspended after a signal: the execution would lose it")
	}
}
