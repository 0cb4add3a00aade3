package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilEnding: an interrupt that takes long to end is noted once, in place of what was shown; a quick one is not.
func TestUntilEnding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			takes time.Duration
			want  string
		}{{signalTime / 2, "ab<clear>"}, {2 * signalTime, "ab<clear>" + endingNote + "\n"}} {
			ctx, cancel := context.WithCancel(t.Context())
			var out bytes.Buffer
			shown, stop := untilEnding(ctx, &out, func(s string) { out.WriteString(s) }, func() { out.WriteString("<clear>") })
			shown("a")
			cancel()
			shown("b")
			time.Sleep(c.takes)
			if c.takes > signalTime {
				shown("c")
			}
			stop()
			stop()
			shown("d")
			if out.String() != c.want {
				t.Errorf("%v: %q, want %q", c.takes, out.String(), c.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		noteEnding(ctx, &out)()
		cancel()
		time.Sleep(2 * signalTime)
		if out.Len() > 0 {
			t.Errorf("after the end: %q", out.String())
		}
	})
}
