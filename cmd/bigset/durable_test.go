package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine"
)

// powerCuts is an output that cuts the power, on a copy, whenever something is written to it, and remembers the copies.
type powerCuts struct {
	bytes.Buffer
	disk  *vfs.MemFS
	after []cut
}

// cut is what was on a disk when some text had been put out.
type cut struct {
	said string
	disk *vfs.MemFS
}

func (p *powerCuts) Write(b []byte) (int, error) {
	n, err := p.Buffer.Write(b)
	p.after = append(p.after, cut{p.String(), p.disk.CrashClone(vfs.CrashCloneCfg{})})
	return n, err
}

// runOnCrashable runs the program on a disk in memory that loses what is not synced.
func runOnCrashable(t *testing.T, disk *vfs.MemFS, in io.Reader, args ...string) *powerCuts {
	t.Helper()
	p, errs := &powerCuts{disk: disk}, &bytes.Buffer{}
	a := newApp(in, p, errs)
	a.adjust = func(o *engine.Options) { o.FS = disk }
	if code := a.run(t.Context(), append([]string{"--dir", "data"}, args...)); code != exitOK {
		t.Fatalf("%q: got status %d, %q", args, code, errs.String())
	}
	return p
}

// onDisk returns what a set is after a power cut.
func (c cut) onDisk(t *testing.T, set string) (names []string) {
	t.Helper()
	s, err := engine.Open("data", &engine.Options{FS: c.disk, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return members(t, s, set)
}

// TestAcknowledgedIsOnDisk cuts the power at every acknowledgement of an import: all lines up to that one must be there.
func TestAcknowledgedIsOnDisk(t *testing.T) {
	const n = 5000
	p := runOnCrashable(t, vfs.NewCrashableMem(), strings.NewReader(numbered(n)), "set", "import", "--ack", "s")
	if len(p.after) != n/batchLines+1 {
		t.Fatalf("it wrote %d times, not after each batch", len(p.after))
	}
	for i, c := range p.after[:n/batchLines] {
		lines := strings.Fields(c.said)
		last := lines[len(lines)-1]
		if want := fmt.Sprintf("line-%08d", (i+1)*batchLines-1); last != want {
			t.Errorf("acknowledgement %d is of %q, want %q", i, last, want)
		}
		have := c.onDisk(t, "s")
		if len(have) < (i+1)*batchLines || have[(i+1)*batchLines-1] != last {
			t.Errorf("%q was acknowledged, and only %d elements are on disk", last, len(have))
		}
	}
}

// TestAnsweredIsOnDisk cuts the power when a write has answered, with and without a sync: an import says what is durable
// in any case.
func TestAnsweredIsOnDisk(t *testing.T) {
	disk := vfs.NewCrashableMem()
	steps := []struct {
		in, args, want string
	}{
		{"", "set add s a b c", "a b c"},
		{"", "set rm s a", "b c"},
		{"d\n", "set import s", "b c d"},
		{"e\n", "set import s --no-sync", "b c d e"},
		{"", "set drop s", ""},
	}
	for _, step := range steps {
		p := runOnCrashable(t, disk, strings.NewReader(step.in), strings.Fields(step.args)...)
		if got := strings.Join(p.after[0].onDisk(t, "s"), " "); got != step.want {
			t.Errorf("%s: %q is on disk, want %q", step.args, got, step.want)
		}
	}
}
