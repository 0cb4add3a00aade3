package coord_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestVerifyHints: what waits is counted; each kind of damage is found, but not the end of a write that a crash cut off; nothing changes.
func TestVerifyHints(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	frame := func(n int) []byte {
		b, err := peer.Append(nil, sender, hinted(n, "x"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	done := func(id uint64) []byte {
		payload := binary.AppendUvarint([]byte{'d'}, id)
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
		return append(binary.LittleEndian.AppendUint32(b, sum(payload)), payload...)
	}
	file := func(parts ...[]byte) []byte {
		return slices.Concat(append([][]byte{[]byte("bshint\x00\x01")}, parts...)...)
	}
	one, two, three, odd := hintRecord(1, now, frame(1)), hintRecord(2, now, frame(2)), hintRecord(3, now, frame(3)), hintRecord(4, now, []byte("no frame"))
	flipped := slices.Clone(two)
	flipped[20] ^= 1
	for _, c := range []struct {
		what    string
		files   [][]byte
		hints   int
		problem string // "" if all is right
	}{
		{"an empty folder", nil, 0, ""},
		{"hints, one of them done", [][]byte{file(one, two), file(three, done(1))}, 2, ""},
		{"a file of which all is done", [][]byte{file(one, done(1))}, 0, ""},
		{"the last write was cut off", [][]byte{file(one), file(two, three[:len(three)-3])}, 2, ""},
		{"the last write is damaged", [][]byte{file(one, flipped)}, 1, ""},
		{"the last file is damaged", [][]byte{file(one, flipped, three)}, 1, "0000000000000001.hints: coord: not a record at byte 60, and records follow"},
		{"a full disk cut off another file", [][]byte{file(one, two[:9]), {}, []byte("bsh"), file(three)}, 2, ""},
		{"another file is damaged", [][]byte{file(one, flipped, two), file(three)}, 2, "0000000000000001.hints: coord: not a record at byte 60, and records follow"},
		{"the head of a file is damaged", [][]byte{append([]byte("bshant\x00\x01"), one...), file(three)}, 1, "0000000000000001.hints: coord: not a record at byte 0, and records follow"},
		{"the version of a file is damaged", [][]byte{append([]byte("bshint\x00\x00"), one...), file(three)}, 1, "0000000000000001.hints: coord: not a record at byte 0, and records follow"},
		{"a file of a later version", [][]byte{[]byte("bshint\x00\x02x"), file(one)}, 1, ""},
		{"a hint that can't be sent", [][]byte{file(one, odd, two)}, 2, "0000000000000001.hints: hint 4 for a: "},
		{"a hint that can't be sent, and is done", [][]byte{file(odd, done(4), two)}, 1, ""},
	} {
		disk := testkit.NewDisk()
		f := newFolder(t, disk)
		for i, b := range c.files {
			writeFile(t, f, fmt.Sprintf("%016x.hints", i+1), b)
		}
		names := func() string {
			t.Helper()
			list, err := f.List()
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(list)
			return strings.Join(list, " ")
		}
		before := names()
		rep, err := coord.VerifyHints(f)
		if err != nil || rep.Nodes["a"] != c.hints || len(rep.Nodes) != min(1, c.hints) {
			t.Errorf("%s: %v, %v, want %d", c.what, err, rep.Nodes, c.hints)
		}
		if later := strings.Join(rep.Later, "; "); strings.Contains(later, "another version") != strings.Contains(c.what, "later version") {
			t.Errorf("%s: of a later version %q", c.what, later)
		}
		if text := strings.Join(rep.Problems, "; "); c.problem == "" && text != "" || c.problem != "" && (len(rep.Problems) != 1 || !strings.Contains(text, c.problem)) {
			t.Errorf("%s: problems %q, want %q", c.what, text, c.problem)
		}
		if after := names(); after != before {
			t.Errorf("%s: files %q have become %q", c.what, before, after)
		}
	}
}
