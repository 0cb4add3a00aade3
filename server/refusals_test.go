package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a log that may be read while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// TestLimits: a client that passes a limit of filters gets bloomd's own error, and the log names the setting.
func TestLimits(t *testing.T) {
	t.Parallel()
	const internal, bad = "Internal Error", "Client Error: Bad arguments"
	for key, c := range map[string]struct {
		value string
		talk  []string
	}{
		"max_capacity":        {"200000", []string{"create a capacity=200000", "Done", "create b capacity=200001", bad, "create a capacity=200001", "Exists"}},
		"max_filter_bytes":    {"300000", []string{"create a", "Done", "create b capacity=200000", bad, "create c capacity=10001 prob=0.05", "Done"}},
		"max_filters":         {"1", []string{"create a", "Done", "create b", internal, "create a", "Exists", "drop a", "Done", "create b", "Done"}},
		"max_total_bytes":     {"400000", []string{"create a", "Done", "create b", internal, "drop a", "Done", "create b", "Done"}},
		"max_in_memory_bytes": {"100000", []string{"create a in_memory=1", "Done", "set a k", "Yes", "set a l", internal, "check a k", "Yes", "set a k", "No", "check a l", "No", "create b", "Done"}},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			config := testConfig(t)
			if err := config.Set(key, c.value); err != nil {
				t.Fatal(err)
			}
			var log lockedBuffer
			n, err := Start(config, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			talk(t, n, c.talk...)
			eventually(t, "the log names the setting", func() bool { return log.has(key) })
			stopNode(t, n)
		})
	}
	c := Defaults()
	c.MaxCapacity = 50_000
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "max_capacity") {
		t.Errorf("a default above the limit: %v", err)
	}
}

// TestGrowthLimit: a filter that may not grow answers new keys by an error and the keys that it has as before.
func TestGrowthLimit(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	config.MaxFilterBytes = 40_000
	n := startNode(t, config)
	var line strings.Builder
	for i := range 10_001 + 200 { // some are false positives
		fmt.Fprintf(&line, " k%d", i)
	}
	talk(t, n, "create a capacity=10001 prob=0.09", "Done", "bulk a"+line.String(), "Internal Error", "set a k1", "No", "check a k1", "Yes", "check a other", "No")
	stopNode(t, n)
}
