//go:build unix

package server

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

// TestDescriptors has a process that may open few files: connections leave some to the store, and the log says so.
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
