//go:build unix

package server

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

func TestConnectionsMost(t *testing.T) {
	for _, c := range []struct {
		configured, want int
		limit            uint64
	}{
		{10_000, 10_000, 0}, {10_000, 10_000, 1 << 20}, {10_000, 7500, 10_000}, {10_000, 10_000, 13_334}, {10_000, 512, 1024}, {10_000, 500, 1000},
		{100, 100, 1024}, {100, 30, 60}, {20, 20, 60}, {5, 1, 1},
	} {
		if got := connectionsMost(c.configured, c.limit); got != c.want {
			t.Errorf("%d of %d descriptors: got %d, want %d", c.configured, c.limit, got, c.want)
		}
	}
}

// TestDescriptors has a process that may open few files: connections leave some to the store, and the log tells.
func TestDescriptors(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil || was.Max < 1024 {
		t.Skip("no limit to change:", err)
	}
	less := was
	less.Cur = 1024
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &less); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	var log strings.Builder
	n, err := Start(testConfig(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopNode(t, n)
	if n.config.MaxConnections != 512 || !strings.Contains(log.String(), "connections=512") {
		t.Errorf("%d connections, logged %s", n.config.MaxConnections, log.String())
	}
}
