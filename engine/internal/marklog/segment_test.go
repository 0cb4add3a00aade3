package marklog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bigset/bloomslice"
)

func randomRecord(r *rand.Rand) (m Record) {
	m.Generation = r.Uint64()
	m.To = bloomslice.Layer{ID: bloomslice.LayerID{Index: uint16(r.Uint32()), Owner: string(make([]byte, r.IntN(3)*r.IntN(100)))},
		Shape: bloomslice.Shape{Bytes: 1000 + r.Uint64N(1<<30), K: 1 + r.Uint32N(20), Capacity: 1 + r.Uint64N(1<<40)}, Count: r.Uint64()}
	for i := range m.Hash {
		m.Hash[i] = r.Uint64()
	}
	return m
}

// randomSegment returns a segment, the records of its chunks, and where the chunks end. Each chunk says that the chunks before it,
// up to one of them, were on disk.
func randomSegment(r *rand.Rand, number uint64, end bool) (data []byte, chunks [][]Record, ends []int, synced []int) {
	salt := r.Uint32() | 1
	data = appendSegmentHead(nil, number, salt)
	on := len(data)
	for range 1 + r.IntN(8) {
		if r.IntN(2) == 0 {
			on = len(data)
		}
		chunk := make([]byte, chunkHeader)
		var records []Record
		for range 1 + r.IntN(4) {
			m := randomRecord(r)
			chunk = appendRecord(chunk, m.Generation, &m.To, &m.Hash)
			records = append(records, m)
		}
		seal(chunk, salt, int64(on))
		data = append(data, chunk...)
		chunks, ends, synced = append(chunks, records), append(ends, len(data)), append(synced, on)
	}
	if end {
		var chunk [chunkHeader]byte
		seal(chunk[:], salt, int64(on))
		data = append(data, chunk[:]...)
	}
	return data, chunks, ends, synced
}

func walked(data []byte, number uint64, last bool) (all []Record, torn bool, err error) {
	torn, err = walkSegment(data, number, last, func(records []byte) error {
		for len(records) > 0 {
			m, rest, err := DecodeRecord(records)
			if err != nil {
				return err
			}
			all, records = append(all, m), rest
		}
		return nil
	})
	return all, torn, err
}

// TestWalkSegment reads random segments back: whole, with a byte changed, and truncated. If a damaged segment is followed by
// another one, nothing is missing without an error. In the last segment nothing is missing that an undamaged chunk knew to be on
// disk, and no undamaged chunk is missing.
func TestWalkSegment(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		end := r.IntN(2) == 0
		number := r.Uint64N(1 << 30)
		data, chunks, ends, synced := randomSegment(r, number, end)
		want := slices.Concat(chunks...)
		got, torn, err := walked(data, number, !end)
		if err != nil || torn || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d records, want %d, torn %v: %v", seed, len(got), len(want), torn, err)
		}
		if _, _, err := walked(data, number+1, true); !errors.Is(err, errBad) {
			t.Fatalf("seed %d: under the name of another: %v", seed, err)
		}
		if !end {
			if _, _, err := walked(data, number, false); !errors.Is(err, errBad) {
				t.Fatalf("seed %d: it has no end: %v", seed, err)
			}
		}
		bad := slices.Clone(data)
		at := r.IntN(len(bad))
		bad[at] ^= 1 << r.IntN(8)
		if _, _, err := walked(bad, number, false); !errors.Is(err, errBad) {
			t.Fatalf("seed %d: byte %d of %d was changed: %v", seed, at, len(bad), err)
		}
		checkTail(t, seed, bad, number, at, chunks, ends, synced)
		cut := data[:r.IntN(len(data))]
		if _, _, err := walked(cut, number, false); !errors.Is(err, errBad) {
			t.Fatalf("seed %d: cut at %d of %d: %v", seed, len(cut), len(data), err)
		}
		got, _, err = walked(cut, number, true)
		n := 0
		for i := range chunks {
			if ends[i] <= len(cut) {
				n += len(chunks[i])
			}
		}
		if err != nil || !slices.Equal(got, want[:n]) {
			t.Fatalf("seed %d: cut at %d of %d: %d records, want %d: %v", seed, len(cut), len(data), len(got), n, err)
		}
	}
}

// checkTail checks what is read of the last segment if it has a bad byte.
func checkTail(t *testing.T, seed uint64, bad []byte, number uint64, at int, chunks [][]Record, ends, synced []int) {
	t.Helper()
	hit := slices.IndexFunc(ends, func(end int) bool { return at < end }) // the chunk with the bad byte; -1 is its end, which says nothing
	start := segmentHeadBytes
	if hit > 0 {
		start = ends[hit-1]
	}
	known := at < segmentHeadBytes
	var want []Record
	for i := range chunks {
		if i != hit {
			want = append(want, chunks[i]...)
		}
		if hit >= 0 && i > hit && synced[i] > start {
			known = true
		}
	}
	got, torn, err := walked(bad, number, true)
	if known {
		if !errors.Is(err, errBad) {
			t.Fatalf("seed %d: byte %d was changed, which is known to have been on disk: %v", seed, at, err)
		}
		return
	}
	if err != nil && !errors.Is(err, errBad) || err == nil && (!torn || !slices.Equal(got, want)) {
		t.Fatalf("seed %d: byte %d was changed: %d records, want %d, torn %v: %v", seed, at, len(got), len(want), torn, err)
	}
}

// TestSegmentNames: parsing inverts the names of segments, and accepts nothing else.
func TestSegmentNames(t *testing.T) {
	for _, n := range []uint64{0, 1, 999_999, 1_000_000, 1 << 63} {
		if got, ok := segmentNumber(segmentName(n)); !ok || got != n {
			t.Errorf("%d comes back as %d, %v", n, got, ok)
		}
		if _, err := strconv.ParseUint(strings.TrimSuffix(segmentName(n), ".log"), 10, 64); err == nil {
			t.Errorf("%s is a log of Pebble's", segmentName(n))
		}
	}
	for _, name := range []string{"000001.log", "filters-1.log", "filters-00001a.log", "filters-000001.log.tmp", "filters-.log", "filters--00001.log"} {
		if n, ok := segmentNumber(name); ok {
			t.Errorf("%s is segment %d", name, n)
		}
	}
}

func FuzzWalkSegment(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		data, _, _, _ := randomSegment(r, 7, r.IntN(2) == 0)
		f.Add(data, true)
		f.Add(data[:len(data)-9], false)
	}
	f.Fuzz(func(t *testing.T, data []byte, last bool) {
		all, _, err := walked(data, 7, last)
		if err != nil && !errors.Is(err, errBad) {
			t.Fatal(err)
		}
		for i := range all {
			b := appendRecord(nil, all[i].Generation, &all[i].To, &all[i].Hash)
			if m, rest, err := DecodeRecord(b); err != nil || len(rest) > 0 || m != all[i] {
				t.Fatalf("%+v comes back as %+v: %v", all[i], m, err)
			}
		}
		if m, rest, err := DecodeRecord(data); err == nil {
			b := appendRecord(nil, m.Generation, &m.To, &m.Hash)
			if len(rest)+len(b) == len(data) && !bytes.Equal(b, data[:len(b)]) {
				t.Fatal("two encodings")
			}
		}
	})
}
