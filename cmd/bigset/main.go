package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"bigset/engine"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // writes then fail, and the store is closed properly
	ctx, s := watchStops()
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.restart = s.restart
	if calledBloomd(os.Args[0]) {
		os.Exit(a.runBloomd(ctx, os.Args[1:]))
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// run runs the program with the arguments and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	a.args = args
	cmd := a.root()
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	err := cmd.ExecuteContext(ctx)
	a.progress.clear() // before the answer appears
	if e := a.out.Flush(); err == nil || !errors.Is(e, syscall.EPIPE) {
		err = errors.Join(err, e)
	}
	return a.report(err)
}

func newApp(in io.Reader, out, errs io.Writer) *app {
	return &app{in: in, out: bufio.NewWriterSize(out, outputBytes), toTerminal: isTerminal(out), errs: errs, progress: newProgress(errs)}
}

// outputBytes is the size of the buffer for standard output.
const outputBytes = 64 << 10

// app is one run of the program: its streams, and the flags common to all commands.
type app struct {
	in         io.Reader
	out        *bufio.Writer // standard output
	toTerminal bool          // standard output is a terminal
	errs       io.Writer     // standard error; note writes to it
	progress   *progress
	adjust     func(*engine.Options)                  // changes a test's store options; nil means no changes
	restart    func(slack time.Duration) error        // gives the process a timer slack; nil in a test, which is not executed again
	dbDamage   atomic.Pointer[engine.CorruptionError] // met by a command of db

	dir          string
	json         bool
	strategy     string
	keepContexts bool // the store keeps wide contexts unresolved
	args         []string
	named        []byte // the set that the command is about, if it is about one
	node         node   // running nodes, which commands on sets ask instead of a folder
	record       string // for a store that is to be created; only commands that may create one have the flag
}
