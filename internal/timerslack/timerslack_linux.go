package timerslack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Get returns the timer slack of the calling thread. All threads of a process have the same, unless one of them has set its own.
func Get() (time.Duration, error) {
	n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("timerslack: get: %w", err)
	}
	return time.Duration(n), nil
}

func set(slack time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// raise gives the calling thread at least a slack. reset gives it the former one; it is never nil.
func raise(least time.Duration) (reset func(), err error) {
	was, err := Get()
	if err != nil || was >= least {
		return func() {}, err
	}
	if err := set(least); err != nil {
		return func() {}, err
	}
	reset = func() { _ = set(was) } // it was possible before
	if is, err := Get(); err != nil || is < least {
		return reset, errors.Join(ErrRefused, err)
	}
	return reset, nil
}

// Start starts a command as cmd.Start does. The process has at least the given slack, if the system sets it.
func Start(cmd *exec.Cmd, least time.Duration) error {
	runtime.LockOSThread() // the process inherits from this thread
	defer runtime.UnlockOSThread()
	reset, _ := raise(least) // the command does its work without it
	defer reset()
	return cmd.Start()
}

// restarted is the variable with the process in which Restart has executed the program. Restart removes it.
const restarted = "BIGSET_RESTARTED"

// Restart gives all threads of the process at least a slack. If they have less, it executes the program once more, in the same process: with its number,
// its arguments, its environment, the descriptors that are not closed by an execution, and the signals that are ignored. Everything else that the program
// has done so far is lost, so call Restart first.
//
// Restart returns nil if the threads have the slack, and otherwise an error. Then the process is as it was. It calls ready right before it executes the
// program, and does not execute it if ready reports false.
func Restart(least time.Duration, ready func() bool) error {
	pid := strconv.Itoa(os.Getpid())
	again := os.Getenv(restarted) == pid
	if err := os.Unsetenv(restarted); err != nil {
		return err
	}
	runtime.LockOSThread() // the threads of the program inherit from this one
	defer runtime.UnlockOSThread()
	is, err := Get()
	if err != nil || is >= least {
		return err
	}
	if again {
		return fmt.Errorf("%w: the program was executed again, and has %v", ErrRefused, is)
	}
	path, err := program()
	if err != nil {
		return err
	}
	reset, err := raise(least)
	defer reset()
	if err != nil {
		return err
	}
	if err := os.Setenv(restarted, pid); err != nil {
		return err
	}
	defer os.Unsetenv(restarted)
	if !ready() {
		return ErrNotReady
	}
	return execute(path)
}

// execute executes a program with the arguments and the environment of the process. It returns only if that fails.
func execute(path string) error {
	var files syscall.Rlimit
	known := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil
	err := syscall.Exec(path, os.Args, os.Environ())
	if known {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // Exec has set the limit that the process was started with
	}
	return fmt.Errorf("timerslack: execute %s: %w", path, err)
}

// executable is a link to the program that runs, also if its file was removed.
const executable = "/proc/self/exe"

// program returns a path of the program that runs: the one that it was started by, because its last part is what the system shows as the name of the
// process. If another file has taken that place since, as during an upgrade, the path is that of the link. A loader that is given the program as an argument
// is not the program.
func program() (string, error) {
	self, err := os.Stat(executable)
	if err != nil {
		return "", fmt.Errorf("timerslack: %w", err)
	}
	path := os.Args[0]
	if !strings.Contains(path, "/") {
		path, _ = exec.LookPath(path) // with an error, the path is none, or is in the current folder
	}
	if is, err := os.Stat(path); err == nil && os.SameFile(self, is) {
		return path, nil
	}
	if to, err := os.Readlink(executable); err == nil && strings.HasSuffix(to, " (deleted)") {
		return executable, nil
	}
	return "", ErrOtherProgram
}
