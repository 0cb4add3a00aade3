package ring_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bigset/internal/ring"
	"bigset/internal/testkit/tier"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again")

func member(node, incarnation string) ring.Member {
	return ring.Member{Node: node, Incarnation: incarnation}
}

// samples are values of each kind, small enough to be read in hexadecimal.
func samples(t testing.TB) (m *ring.Map, moving *ring.Assignment, refusals []ring.NotMine, d *ring.Delta) {
	s := ring.Settings{N: 2, R: 1, W: 2, DW: 1, Buckets: 2, Slices: 16}
	list := []ring.Node{
		{Member: member("a", "A1"), Addr: "h1:7", Zone: "x", Weight: 2},
		{Member: member("b", "B1"), Addr: "h2:7", Zone: "y", Weight: 1},
		{Member: member("c", "")},
	}
	m, err := ring.Static(ring.ID{0: 0xC1, 15: 0xFF}, s, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	moving = &ring.Assignment{Bucket: ring.Bucket{Mask: 0xFF, Key: 0x12}, Epoch: 300, Since: 298, State: ring.Copying, Moved: 29_000_000,
		Owners: []ring.Member{member("a", "A1"), member("b", "B1")}, Next: []ring.Member{member("a", "A1"), member("b", "B2")}}
	refusals = []ring.NotMine{
		{Verdict: ring.Unknown},
		{Verdict: ring.OldEpoch, Assignment: moving, Addrs: map[string]string{"a": "h1:7", "b": "h2:7"}},
		{Verdict: ring.NoMember, Assignment: m.Lookup(0), Addrs: map[string]string{}},
	}
	d = &ring.Delta{Generation: 1, From: 1, Term: 3, Members: []ring.Member{member("b", "B2")}, Assignments: []ring.Assignment{*moving}}
	return m, moving, refusals, d
}

// encoded returns a line for each sample: what it is, and its bytes.
func encoded(t testing.TB) (names []string, bodies [][]byte) {
	m, moving, refusals, d := samples(t)
	add := func(name string, b []byte, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names, bodies = append(names, name), append(bodies, b)
	}
	b, err := m.Append(nil)
	add("map", b, err)
	b, err = m.AppendPage(nil, 0)
	add("page", b, err)
	b, err = ring.AppendAssignment(nil, moving)
	add("assignment", b, err)
	for i := range refusals {
		b, err = ring.AppendNotMine(nil, &refusals[i])
		add(fmt.Sprintf("not mine, %v", refusals[i].Verdict), b, err)
	}
	b, err = ring.AppendDelta(nil, d)
	add("delta", b, err)
	nodes := *d
	nodes.Nodes = m.Nodes
	b, err = ring.AppendDelta(nil, &nodes)
	add("delta with nodes", b, err)
	return names, bodies
}

// TestGolden: the bytes are those of the format.
func TestGolden(t *testing.T) {
	names, bodies := encoded(t)
	var text strings.Builder
	for i, name := range names {
		fmt.Fprintf(&text, "%s: %s\n", name, hex.EncodeToString(bodies[i]))
	}
	path := filepath.Join("testdata", "golden.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("bytes are\n%s, want\n%s", text.String(), want)
	}
}

// decodeAny decodes bytes by their kind, and encodes what they say again. Members of pages are those of the samples' map.
func decodeAny(b []byte, table []ring.Member) (value any, again []byte, err error) {
	if len(b) == 0 {
		return nil, nil, ring.ErrCodec
	}
	switch b[0] {
	case 'm':
		m, err := ring.Decode(b)
		if err != nil {
			return nil, nil, err
		}
		again, err = m.Append(nil)
		return m, again, err
	case 'a':
		a, err := ring.DecodeAssignment(b)
		if err != nil {
			return nil, nil, err
		}
		again, err = ring.AppendAssignment(nil, a)
		return a, again, err
	case 'n':
		n, err := ring.DecodeNotMine(b)
		if err != nil {
			return nil, nil, err
		}
		again, err = ring.AppendNotMine(nil, n)
		return n, again, err
	case 'p':
		_, list, err := ring.DecodePage(b, table)
		return list, b, err
	default:
		d, err := ring.DecodeDelta(b)
		if err != nil {
			return nil, nil, err
		}
		again, err = ring.AppendDelta(nil, d)
		return d, again, err
	}
}

// TestCodec: what is written is read back unchanged; bytes that are cut, longer, of another version or damaged are refused.
func TestCodec(t *testing.T) {
	m, moving, refusals, _ := samples(t)
	names, bodies := encoded(t)
	for i, b := range bodies {
		value, again, err := decodeAny(b, m.Members)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s: %v, again %x", names[i], err, again)
		}
		switch v := value.(type) {
		case *ring.Map:
			same(t, v, m)
		case *ring.Assignment:
			if !reflect.DeepEqual(v, moving) {
				t.Errorf("%s: %+v", names[i], v)
			}
		case *ring.NotMine:
			if !reflect.DeepEqual(*v, refusals[i-3]) {
				t.Errorf("%s: %+v, want %+v", names[i], v, refusals[i-3])
			}
		case []ring.Assignment:
			if !reflect.DeepEqual(v, all(m)[:1]) {
				t.Errorf("%s: %+v", names[i], v)
			}
		}
		for n := range b {
			if _, _, err := decodeAny(b[:n], m.Members); !errors.Is(err, ring.ErrCodec) {
				t.Errorf("%s, the first %d bytes: %v", names[i], n, err)
			}
			for bit := range 8 {
				bad := bytes.Clone(b)
				bad[n] ^= 1 << bit
				if _, _, err := decodeAny(bad, m.Members); !errors.Is(err, ring.ErrCodec) {
					t.Errorf("%s, byte %d damaged: %v", names[i], n, err)
				}
			}
		}
		for what, bad := range map[string][]byte{"a byte more": reseal(append(bytes.Clone(b[:len(b)-4]), 0)), "version 2": reseal(append([]byte{b[0], 2}, b[2:len(b)-4]...))} {
			if _, _, err := decodeAny(bad, m.Members); !errors.Is(err, ring.ErrCodec) {
				t.Errorf("%s, %s: %v", names[i], what, err)
			}
		}
	}
}

// TestCodecForms: bytes that no writer would write are refused, even if their checksum is right.
func TestCodecForms(t *testing.T) {
	_, moving, _, _ := samples(t)
	good, err := ring.AppendAssignment(nil, moving)
	if err != nil {
		t.Fatal(err)
	}
	good = good[:len(good)-4]
	at := func(i int, by ...byte) []byte { return append(append(bytes.Clone(good[:i]), by...), good[i+1:]...) }
	if _, err := ring.DecodeAssignment(reseal(at(0, good[0]))); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"a bucket of 33 bits":      at(2, 33),
		"a state that is none":     at(3, 3),
		"stable, with two lists":   at(3, 0),
		"a key beyond the mask":    at(4, 0x80, 0x02),
		"a number in a long form":  at(4, good[4]|0x80, 0),
		"a number that has no end": append(bytes.Clone(good[:4]), 0x80, 0x80),
		"since before the first":   append(bytes.Clone(good[:5]), 2, 2, 0, 0),
		"too many owners":          append(bytes.Clone(good[:5]), 2, 0, 0, 17),
	} {
		if _, err := ring.DecodeAssignment(reseal(b)); !errors.Is(err, ring.ErrCodec) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// reseal returns a body with its checksum.
func reseal(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// TestPages: the pages of a map together have all its assignments.
func TestPages(t *testing.T) {
	t.Parallel()
	maps := shuffled(t, tier.Random(t), 64, 60)
	m := maps[len(maps)-1]
	var list []ring.Assignment
	for n := range 256 {
		b, err := m.AppendPage(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		at, part, err := ring.DecodePage(b, m.Members)
		if err != nil || at != n {
			t.Fatal(at, err)
		}
		list = append(list, part...)
	}
	again, err := ring.New(m.Head, list)
	if err != nil {
		t.Fatal(err)
	}
	same(t, again, m)
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = ring.Decode(b); err != nil {
		t.Fatal(err)
	}
	same(t, again, m)
}

// TestMapBytes: a map of 4,096 buckets is small enough for one frame, and one assignment takes a few bytes.
func TestMapBytes(t *testing.T) {
	s := usual
	s.Buckets = 4096
	b, err := static(t, s, nodes(100, nil)).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if each := len(b) / 4096; each > 14 {
		t.Errorf("%d bytes an assignment", each)
	}
}

// FuzzDecode: bytes of any kind are refused, or are exactly the encoding of what they say.
func FuzzDecode(f *testing.F) {
	m, _, _, _ := samples(f)
	_, bodies := encoded(f)
	for _, b := range bodies {
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := reseal(bytes.Clone(body))
		_, again, err := decodeAny(b, m.Members)
		if err != nil {
			if !errors.Is(err, ring.ErrCodec) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
	})
}
