package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// endingNote is shown when the end of an interrupted measurement takes long. A second signal ends the process (see main).
const endingNote = "ending: stores are closed and removed; interrupt again to stop at once, which leaves them in the temporary folder"

// untilEnding returns a function that shows states until stop is called, and stop, which clears what was shown. If ctx ends and stop is not
// called within signalTime, it writes endingNote to errs and shows no more states. Any number of goroutines may call both functions.
func untilEnding[T any](ctx context.Context, errs io.Writer, show func(T), clear func()) (shown func(T), stop func()) {
	var mu sync.Mutex
	ended := false
	end := func(note string) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		ended = true
		clear()
		fmt.Fprint(errs, note)
	}
	stopped := make(chan struct{})
	unset := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(signalTime):
			end(endingNote + "\n")
		case <-stopped:
		}
	})
	shown = func(state T) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			show(state)
		}
	}
	return shown, sync.OnceFunc(func() {
		unset()
		close(stopped)
		end("")
	})
}

// noteEnding is untilEnding for a command that shows nothing in place.
func noteEnding(ctx context.Context, errs io.Writer) (stop func()) {
	_, stop = untilEnding(ctx, errs, func(struct{}) {}, func() {})
	return stop
}
