package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// TestRefusalsLog: a host that is refused for one cause again and again has one line a minute, and all hosts together have a few in ten seconds.
func TestRefusalsLog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	var out bytes.Buffer
	l := &refusalLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	lines := func(add func()) []string {
		out.Reset()
		add()
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	port := 0
	again := func() { // as each new connection from 10.0.0.1
		port++
		from := fmt.Sprintf("10.0.0.1:%d", port)
		l.add(from, &net.OpError{Op: "remote error", Net: from, Err: errors.New("tls: bad certificate")})
	}
	if got := lines(func() { again(); again(); again() }); len(got) != 1 || !strings.Contains(got[0], `from=10.0.0.1:1 cause="remote error 10.0.0.1:1: tls: bad certificate" skipped=0`) {
		t.Errorf("%q", got)
	}
	if got := lines(func() { l.add("10.0.0.1:99", errors.New("another cause")) }); !strings.HasSuffix(got[0], "skipped=2") {
		t.Errorf("%q", got)
	}
	now = now.Add(refusalAgain - 1)
	if got := lines(again); got[0] != "" {
		t.Errorf("%q too early", got)
	}
	now = now.Add(1)
	if got := lines(again); !strings.HasSuffix(got[0], "skipped=1") {
		t.Errorf("%q", got)
	}
	crowd := func() {
		for i := range 10_000 {
			l.add(fmt.Sprintf("10.%d.%d.1:7", i/200, i%200), errors.New("says nothing"))
		}
	}
	if got := lines(crowd); len(got) != refusalsMost-1 || len(l.said) > refusalsKept {
		t.Errorf("%d lines of a crowd, %d are kept", len(got), len(l.said))
	}
	now = now.Add(-time.Hour)
	if got := lines(func() { crowd(); crowd() }); len(got) != refusalsMost {
		t.Errorf("%d lines after the clock was put back", len(got))
	}
}

// TestProbe: a client that asks which protocol this is, is answered, and is no warning.
func TestProbe(t *testing.T) {
	t.Parallel()
	for say, warned := range map[string]bool{"\n": false, "GET / HTTP/1.1\r\n\r\n": true} {
		var log lockedBuffer
		v := serve(t, ServerOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
		here, there := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- v.s.ServeConn(context.Background(), here) }()
		answer := make([]byte, len(ForeignLine))
		go func() { _, _ = there.Write([]byte(say)) }()
		if n, err := there.Read(answer); err != nil || string(answer[:n]) != ForeignLine {
			t.Errorf("%q is answered by %q, %v", say, answer[:n], err)
		}
		if err := <-ended; !errors.Is(err, ErrForeign) || strings.Contains(log.String(), "refused") != warned {
			t.Errorf("%q: %v; log: %s", say, err, log.String())
		}
		if err := there.Close(); err != nil {
			t.Error(err)
		}
	}
}
