package coord_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// sum appends CRC-32C to bytes.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// hintRecord is a hint for node a as it is on disk.
func hintRecord(id uint64, at time.Time, frame []byte) []byte {
	payload := binary.AppendVarint(binary.AppendUvarint([]byte{'h'}, id), at.Unix())
	payload = append(append(payload, "\x01a"...), frame...)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, sum(payload))
	return append(b, payload...)
}

func writeFile(t *testing.T, f coord.Folder, name string, b []byte) {
	t.Helper()
	file, err := f.Create(name)
	if err == nil {
		_, err = file.Write(b)
		err = errors.Join(err, file.Sync(), file.Close(), f.Sync())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHintsOfOtherVersions: hints of an older version are sent; those of a later one stay, and are reported; so does a whole file.
func TestHintsOfOtherVersions(t *testing.T) {
	f := newFolder(t, testkit.NewDisk())
	now := time.Unix(1_000_000, 0)
	frame := func(version, kind byte, n int) []byte {
		b, err := peer.AppendVersion(nil, 1, sender, hinted(n, "x"))
		if err != nil {
			t.Fatal(err)
		}
		b = b[:len(b)-4]
		if b[0] = version; kind != 0 {
			b[1] = kind
		}
		return binary.LittleEndian.AppendUint32(b, sum(b))
	}
	file := []byte("bshint\x00\x01")
	for i, b := range [][]byte{frame(1, 0, 1), frame(9, 0, 2), frame(1, 0xF0, 3), frame(1, 0, 4)} {
		file = append(file, hintRecord(uint64(i+1), now, b)...)
	}
	writeFile(t, f, "0000000000000001.hints", file)
	const later = "bshint\x00\x02of another form"
	writeFile(t, f, "0000000000000002.hints", []byte(later))
	writeFile(t, f, "0000000000000003.hints", []byte("bshint\x00\x01cut off by a full disk"))
	writeFile(t, f, "0000000000000004.hints", []byte("bsh"))

	var events []coord.Event
	o := coord.HintOptions{Now: func() time.Time { return now }, Events: func(e coord.Event) { events = append(events, e) }}
	h := openHints(t, f, o)
	if len(events) != 1 || events[0].Kind != coord.EventHintFailed || events[0].Err == nil {
		t.Errorf("a file of another version: %+v", events)
	}
	r := &target{}
	for range 2 {
		events = nil
		if _, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); err != nil {
			t.Error(err)
		}
		failed := 0
		for _, e := range events {
			if e.Kind == coord.EventHintFailed && errors.Is(e.Err, peer.ErrFrame) && e.Node == "a" {
				failed += e.Count
			}
		}
		if n, _ := h.Pending("a"); n != 2 || failed != 2 || len(r.got) != 2 {
			t.Errorf("%d pending, %d reported, %d sent", n, failed, len(r.got))
		}
	}
	if err := h.Add("a", sender, hinted(5, "x")); err != nil { // the next number is not taken
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHints(t, f, o)
	if n, _ := h.Pending("a"); n != 3 {
		t.Errorf("%d pending after the next start", n)
	}
	left, err := f.Open("0000000000000002.hints")
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(later))
	if _, err := left.ReadAt(b, 0); err != nil || string(b) != later {
		t.Errorf("the file of another version holds %q, %v", b, err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(25 * time.Hour)
	if _, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); err != nil {
		t.Error(err)
	}
	if n, _ := h.Pending("a"); n != 0 {
		t.Errorf("%d pending when they are too old", n)
	}
}
