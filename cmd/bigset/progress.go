package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressInterval is how often progress is shown at most.
const progressInterval = 250 * time.Millisecond

// progress shows on a terminal how far long work has come, on one line that is erased at the end. On anything else it
// shows nothing.
type progress struct {
	to    io.Writer // nil shows nothing
	now   func() time.Time
	last  time.Time // when it was shown last; at first, when the work began
	shown bool
}

func newProgress(to io.Writer) *progress {
	p := &progress{now: time.Now, last: time.Now()}
	if isTerminal(to) {
		p.to = to
	}
	return p
}

// show shows how far the work is, if the last time is long enough ago.
func (p *progress) show(format string, args ...any) {
	if p.to == nil {
		return
	}
	now := p.now()
	if now.Sub(p.last) < progressInterval {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.to, "\r\x1b[K"+format, args...)
}

// clear erases what was shown.
func (p *progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// isTerminal reports whether a person reads what is written there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
