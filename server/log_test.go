//go:build !windows && !plan9

package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"log/syslog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSyslog reads what a syslog would: facility local0 is 16·8, and the severity comes on top.
func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip("no sockets of this kind:", err)
	}
	defer conn.Close()
	w, err := syslog.Dial("unixgram", path, syslog.LOG_LOCAL0|syslog.LOG_INFO, "bloomd")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	log := slog.New(newSyslogHandler(w, slog.LevelInfo))
	log.Debug("below the level")
	for _, c := range []struct {
		level    slog.Level
		severity int
	}{{slog.LevelInfo, 6}, {slog.LevelWarn, 4}, {slog.LevelError, 3}, {levelCritical, 2}} {
		log.With("a", 1).Log(t.Context(), c.level, "told", "b", "x y")
		b := make([]byte, 1024)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		size, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got := string(b[:size])
		before, after := fmt.Sprintf("<%d>", 16*8+c.severity), fmt.Sprintf("bloomd[%d]: msg=told a=1 b=\"x y\"\n", os.Getpid())
		if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
			t.Errorf("got %q, want %s … %q", got, before, after)
		}
	}
}

// TestLogger looks at the other formats and at the level.
func TestLogger(t *testing.T) {
	for _, c := range []struct{ log, want string }{{LogText, "level=WARN msg=two"}, {LogJSON, `"level":"WARN","msg":"two"`}} {
		var b bytes.Buffer
		config := Defaults()
		config.Log, config.LogLevel = c.log, slog.LevelWarn
		log := config.Logger("bigset", &b, false)
		log.Info("one")
		log.Warn("two")
		if got := b.String(); strings.Contains(got, "one") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q", c.log, got)
		}
	}
}
