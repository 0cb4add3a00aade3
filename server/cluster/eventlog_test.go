package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bigset/server/coord"
)

// TestEventLog: a few events of a kind at a member have a line each, the others are counted in the next line, and no member or kind takes the
// lines of another.
func TestEventLog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	var out bytes.Buffer
	l := &eventLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	add := func(kind coord.EventKind, node string, n int) (lines []string) {
		out.Reset()
		for i := range n {
			l.add(&coord.Event{Kind: kind, Node: node, Set: fmt.Append(nil, "set ", i), Err: errors.New("why")})
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	if got := add(coord.EventHintOverflow, "c", 1000); len(got) != linesMost || !strings.Contains(got[linesMost-1], `"cluster: hint-overflow" node=c peer="" name="set 9" count=0 cause=why skipped=0`) {
		t.Errorf("%d lines, the last one %q", len(got), got[len(got)-1])
	}
	if got := add(coord.EventHintFailed, "c", 1); got[0] == "" {
		t.Error("another kind has no line")
	}
	if got := add(coord.EventHintOverflow, "b", 1); got[0] == "" {
		t.Error("another member has no line")
	}
	now = now.Add(linesTime - 1)
	if got := add(coord.EventHintOverflow, "c", 1); got[0] != "" {
		t.Errorf("%q too early", got[0])
	}
	now = now.Add(1)
	got := add(coord.EventHintOverflow, "c", 100)
	if len(got) != linesMost || !strings.HasSuffix(got[0], "skipped=991") || !strings.HasSuffix(got[1], "skipped=0") {
		t.Errorf("%d lines after a while: %q", len(got), got)
	}
	now = now.Add(-24 * time.Hour)
	if got := add(coord.EventHintOverflow, "c", 1); !strings.HasSuffix(got[0], "skipped=90") {
		t.Errorf("after the clock was put back: %q", got[0])
	}
}
