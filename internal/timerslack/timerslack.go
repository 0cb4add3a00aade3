// Package timerslack decides how late the system may end the sleeps and timers of a process.
//
// Linux may end a sleep of a thread up to the thread's timer slack after its time, usually 50 µs, so that sleeps that end at about the same time take
// one interrupt. A thread inherits the slack of the thread that created it, and keeps it when it executes another program.
//
// The slack matters for Go's monitor thread. While a process is busy now and then, as a node between two messages is, that thread sleeps for 20 µs at a
// time. With the usual slack it wakes some 14,000 times a second, with 1 ms about a thousand times. Go starts it before any code of the program, and a
// thread may not change the slack of another one. So the monitor gets another slack in one of two ways: whoever starts the process sets it (Start), or the
// process executes its program once more (Restart).
//
// Systems other than Linux have no timer slack: Start starts the command there, and the other functions return an error.
package timerslack

import (
	"errors"
	"time"
)

// Node is the timer slack of a node of a cluster.
const Node = time.Millisecond

// Errors of Restart.
var (
	// ErrRefused is returned if the system did not set the slack. It sets none for threads with a real-time policy.
	ErrRefused = errors.New("timerslack: the system did not set the timer slack")
	// ErrOtherProgram is returned if the first argument does not name the program that runs. Executing the program could then do something else.
	ErrOtherProgram = errors.New("timerslack: the first argument of the process is not the path of the program that runs")
	// ErrNotReady is returned if the caller was not ready.
	ErrNotReady = errors.New("timerslack: the program is not ready to be executed again")
)
