package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progressInterval is the minimum interval between displays of progress.
const progressInterval = 250 * time.Millisecond

// progress shows the progress of long work on a terminal, on one line that is erased at the end. On anything else it shows nothing.
// Any goroutine may call it.
type progress struct {
	to  io.Writer // nil means nothing is shown
	now func() time.Time

	mu    sync.Mutex
	last  time.Time // the time of the last display; at first, of the start of the work
	shown bool
}

func newProgress(to io.Writer) *progress {
	p := &progress{now: time.Now, last: time.Now()}
	if isTerminal(to) {
		p.to = to
	}
	return p
}

// show shows the progress, if the last display is long enough ago.
func (p *progress) show(format string, args ...any) {
	if p.to == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.last) < progressInterval {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.to, "\r\x1b[K"+format, args...)
}

// clear erases the line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// isTerminal reports whether w is a terminal.
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
