package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/engine"
	"bigset/internal/testkit"
)

// TestWaitInCluster: a change is answered when two of three nodes have it, and WAIT waits for the third, whose disk hangs for a while.
func TestWaitInCluster(t *testing.T) {
	disk := testkit.NewDisk()
	nodes := startCluster(t, 3, func(i int, c *Config) {
		if c.Resp = "127.0.0.1:0"; i == 2 {
			c.DataDir, c.Store = "data", &engine.Options{FS: disk}
		}
	})
	for i, n := range nodes[:2] {
		hangs := make(chan struct{})
		disk.SetHook("hang", func(op errorfs.Op) error {
			if testkit.IsWrite(op) {
				<-hangs
			}
			return nil
		})
		released := make(chan struct{})
		go func() {
			defer close(released)
			defer close(hangs)
			for end := time.Now().Add(20 * time.Second); !slices.ContainsFunc(n.doors.metrics(), isSecondWait) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			disk.SetHook("hang", nil)
		}()
		redis(t, n, fmt.Sprintf("SADD s x%d", i), ":1\r\n", "WAIT 2 1", ":1\r\n", "WAIT 2 0", ":2\r\n",
			"SADD s y", ":1\r\n", "WAIT 2 0", ":2\r\n", "DEL s", ":1\r\n", "WAIT 2 0", ":2\r\n")
		<-released
	}
}

func isSecondWait(m engine.Metric) bool {
	return m.Name == "resp_commands" && m.Of == "wait" && fmt.Sprint(m.Value) == "2"
}
