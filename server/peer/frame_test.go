package peer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the vectors in testdata: a change of format")

var alice = peer.Member{Node: "alice", Incarnation: "A1", State: peer.Normal}

func dot(a string, n uint64) clock.Dot { return clock.Dot{Actor: clock.Actor(a), Counter: n} }

// sample is a message to send, and what it shows.
type sample struct {
	name string
	m    peer.Message
}

// allSamples has a message of each kind, and of each shape that a kind has.
func allSamples() []sample { return append(samples(), sliceSamples()...) }

// samples has those about sets.
func samples() []sample {
	seen := clock.Of(dot("A1", 1), dot("A1", 2), dot("B1", 7))
	return []sample{
		{"delta", peer.Delta{Set: []byte("set"), Request: []byte("req-1"), Actor: "A1", First: 300, Items: []bigset.Item{
			{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: []clock.Dot{dot("B1", 7), dot("A1", 1), dot("B1", 3)}},
			{Kind: keyscheme.OpRemove, Element: []byte{}, Context: []clock.Dot{dot("C1", 1)}},
			{Kind: keyscheme.OpAdd, Element: []byte("y")},
		}}},
		{"delta-of-drop", peer.Delta{Set: []byte("set"), Request: []byte{}, Clear: seen}},
		{"facts", peer.Facts{Set: []byte("set"), Keys: []fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot("A1", 2), dot("B1", 7)}}}, Dead: clock.Of(dot("A1", 1))}},
		{"facts-of-nothing", peer.Facts{Set: []byte("set")}},
		{"locate", peer.Locate{Set: []byte("set"), Dots: seen}},
		{"chunk", peer.Chunk{Clock: seen, Bound: []byte("z"), Count: 2, Dots: 3, Elements: []fold.Element{
			{Name: []byte("x"), Dots: []clock.Dot{dot("A1", 2)}}, {Name: []byte("y"), Dots: []clock.Dot{dot("A1", 1), dot("B1", 7)}}}}},
		{"chunk-of-reverse", peer.Chunk{Bound: []byte{}, Count: 2, Dots: 2, Elements: []fold.Element{
			{Name: []byte("y"), Dots: []clock.Dot{dot("A1", 2)}}, {Name: []byte("x"), Dots: []clock.Dot{dot("A1", 1)}}}}},
		{"chunk-of-dead", peer.Chunk{Clock: seen, Bound: []byte("z")}},
		{"chunk-last", peer.Chunk{Clock: seen, Done: true}},
		{"state", peer.State{Seen: seen, Dead: clock.Of(dot("B1", 7)), Unresolved: 2}},
		{"digests", peer.Digests{{Slot: 1, Name: []byte("b"), Sum: [16]byte{1, 2}}, {Slot: 1, Name: []byte("aa"), Sum: [16]byte{3}}, {Slot: 0xFFFFFFFF, Name: []byte("a")}}},
		{"digests-none", peer.Digests{}},
		{"ask", peer.Ask{Set: []byte("set"), Element: []byte("x"), Dots: []clock.Dot{dot("A1", 1), dot("A1", 1<<63)}}},
		{"export", peer.Export{Set: []byte("set"), After: []byte{}, Bytes: 1 << 20}},
		{"export-first", peer.Export{Set: []byte("set")}},
		{"portion", peer.Portion{Set: []byte("set"), Bound: []byte("xy"), Count: 2, Keys: []byte("\x00\x01x\x00\x02A1\x04\x01\x01y\x00\x02"), Seen: seen}},
		{"portion-last", peer.Portion{Set: []byte("set"), Done: true, Keys: []byte{}, Seen: seen, Dead: clock.Of(dot("A1", 1))}},
		{"portion-between", peer.Portion{Set: []byte("set"), Bound: []byte{}, Count: 1, Keys: []byte("\x00\x00\x00\x02A1\x04")}},
		{"range-digests", peer.RangeDigests{{First: 2, Last: 4, Sets: 300, Sum: [16]byte{1, 2}}, {First: 5, Last: 8}, {First: 9, Last: 12, Sets: 1, Sum: [16]byte{15: 3}}}},
		{"element-range", peer.ElementRange{Set: []byte("set"), Range: bigset.ElementRange{After: []byte("x"), UpTo: []byte{}, Mean: 300, Within: seen}}},
		{"element-range-of-all", peer.ElementRange{Set: []byte("set"), Range: bigset.ElementRange{Mean: 1}}},
		{"element-digests", peer.ElementDigests{Parts: []bigset.ElementDigest{
			{Bound: []byte{}, Elements: 1, Sum: [16]byte{1, 15: 2}}, {Bound: []byte("y"), Elements: 300}, {Bound: []byte("z")}}}},
		{"element-digests-of-nothing", peer.ElementDigests{Done: true}},
		{"heal", peer.Heal{Facts: bigset.Facts{Set: []byte("set"), Keys: []fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot("A1", 2)}}}, Dead: clock.Of(dot("A1", 1))},
			Wrong: []fold.Element{{Name: []byte("y"), Dots: []clock.Dot{dot("A1", 2), dot("B1", 7)}}}}},
		{"heal-result", peer.HealResult{Healed: 1, Present: 300, Dead: 2, NotSeen: 3, Left: 4, Taken: 5}},
		{"lost", peer.Lost{Set: []byte("set"), Dots: seen}},
		{"statuses-of-nothing", peer.DotStatuses{}},
		{"statuses", peer.DotStatuses{Live: []clock.Dot{dot("A1", 2), dot("B1", 7)}, Statuses: []bigset.DotStatus{bigset.Live, bigset.Dead, bigset.NotSeen, bigset.Lost}}},
	}
}

func encode(t fataler, from peer.Member, m peer.Message) []byte {
	t.Helper()
	b, err := peer.Append(nil, from, m)
	switch {
	case errors.Is(err, peer.ErrFrameKind):
		b, err = peer.AppendVersion(nil, peer.DeltasVersion, from, m)
	case triesOf(m) != 0:
		b, err = peer.AppendVersion(nil, peer.TriesVersion, from, m)
	}
	if err != nil {
		t.Fatalf("%T: %v", m, err)
	}
	return b
}

// same compares messages; clocks have more than one form in memory.
func same(t fataler, got, want peer.Message) {
	t.Helper()
	if g, w := encode(t, alice, got), encode(t, alice, want); reflect.TypeOf(got) != reflect.TypeOf(want) || !bytes.Equal(g, w) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// TestGoldenFrames holds the bytes of frames of each version that is read: those of version 1 are on disk, in hints.
func TestGoldenFrames(t *testing.T) {
	goldenFrames(t, "testdata/frames-1.txt", 1, allSamples())
	goldenFrames(t, "testdata/frames.txt", peer.FrameVersion, append(allSamples(), wireSamples()...))
	goldenFrames(t, "testdata/frames-3.txt", peer.DeltasVersion, deltasSamples())
	goldenFrames(t, "testdata/frames-4.txt", peer.TriesVersion, triesSamples())
}

func goldenFrames(t *testing.T, path string, version byte, samples []sample) {
	t.Helper()
	var text strings.Builder
	for _, s := range samples {
		b, err := peer.AppendVersion(nil, version, alice, s.m)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		fmt.Fprintf(&text, "%s %x\n", s.name, b)
	}
	if *rewrite && version >= peer.FrameVersion {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		_, digits, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		m, from, err := peer.Decode(b)
		if err != nil || from != alice {
			t.Fatalf("%s: from %v: %v", line, from, err)
		}
		same(t, m, samples[i].m)
	}
}

// TestDecodedValues looks at values, which vectors do not show.
func TestDecodedValues(t *testing.T) {
	m, _, err := peer.Decode(encode(t, alice, samples()[0].m))
	if err != nil {
		t.Fatal(err)
	}
	if want := samples()[0].m; !reflect.DeepEqual(m, want) {
		t.Fatalf("got  %+v\nwant %+v", m, want)
	}
	m, _, _ = peer.Decode(encode(t, alice, samples()[5].m))
	if c := m.(peer.Chunk); c.Count != 2 || c.Dots != 3 || !c.Clock.Contains(dot("B1", 7)) || string(c.Bound) != "z" {
		t.Fatalf("chunk %+v", c)
	}
	m, _, _ = peer.Decode(encode(t, alice, samples()[len(samples())-1].m))
	if v := m.(peer.DotStatuses); !reflect.DeepEqual(v, samples()[len(samples())-1].m) {
		t.Fatalf("statuses %v", v)
	}
}

// seal appends the right checksum to the bytes of a frame.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func body(b []byte) []byte { return b[:len(b)-4] }

func TestRefusedFrames(t *testing.T) {
	delta := samples()[0].m
	head := func(kind byte) []byte { // up to the sender's state
		return append([]byte{1, kind, 5}, "alice\x02A1\x01"...)
	}
	head2 := func(kind byte) []byte { return append([]byte{2}, head(kind)[1:]...) }
	head3 := func(kind byte) []byte { return append([]byte{3}, head(kind)[1:]...) }
	huge := append(head('A'), "\x01s\x00"...)
	for _, c := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"empty", nil, peer.ErrFrame},
		{"short", []byte{1, 'D'}, peer.ErrFrame},
		{"version", seal(append([]byte{9}, body(encode(t, alice, delta))[1:]...)), peer.ErrFrameVersion},
		{"version 0", seal(append([]byte{0}, body(encode(t, alice, delta))[1:]...)), peer.ErrFrameVersion},
		{"kind", seal(head('?')), peer.ErrFrameKind},
		{"kind of version 2 in version 1", seal(append([]byte{1}, body(encode(t, alice, peer.AskState{Set: []byte("s")}))[1:]...)), peer.ErrFrameKind},
		{"slice of a set", seal(append(head2('L'), "\x01s\x01\x01\x00"...)), peer.ErrSetSlice},
		{"slice of the set of a delta", seal(append(head2('D'), "\x01s\x07\x00\x01\x00\x00"...)), peer.ErrSetSlice},
		{"slice of a set of a digest", seal(append(head2('G'), "\x01\x00\x00\x00\x01\x01a\x02"+"0123456789abcdef"...)), peer.ErrSetSlice},
		{"damaged", append([]byte{}, bytes.Replace(encode(t, alice, delta), []byte("alice"), []byte("alicf"), 1)...), peer.ErrFrameSum},
		{"cut", seal(body(body(encode(t, alice, delta)))), peer.ErrFrame},
		{"longer", seal(append(body(encode(t, alice, delta)), 0)), peer.ErrFrame},
		{"sender without a name", seal(append([]byte{1, 'V', 0}, "\x02A1\x01\x00"...)), peer.ErrMember},
		{"sender without an incarnation", seal(append([]byte{1, 'V', 5}, "alice\x00\x01\x00"...)), peer.ErrMember},
		{"sender in no state", seal(append([]byte{1, 'V', 5}, "alice\x02A1\x09\x00"...)), peer.ErrMember},
		{"no name of a set", seal(append(head('L'), "\x00\x02\x01\x00"...)), peer.ErrFrame},
		{"more dots than bytes", seal(append(huge, "\x70\x00\x01A\x01"...)), peer.ErrFrame},
		{"more dots than may be", seal(append(huge, "\xFF\xFF\x7F"...)), peer.ErrFrameTooLarge},
		{"longer number than needed", seal(append(huge, "\x80\x00"...)), peer.ErrFrame},
		{"dot 0", seal(append(huge, "\x01\x00\x01A\x00"...)), peer.ErrFrame},
		{"actor that was not named", seal(append(huge, "\x01\x01\x01A\x01"...)), peer.ErrFrame},
		{"actor named twice", seal(append(huge, "\x02\x00\x01A\x01\x01\x01A\x02"...)), peer.ErrFrame},
		{"clock", seal(append(head('L'), "\x01s\x01\x07"...)), clock.ErrCorrupt},
		{"parts of no size", seal(append(head('H'), "\x01s\x00\x00\x00\x00"...)), peer.ErrFrame},
		{"parts of too large a size", seal(append(head('H'), "\x01s\x00\x00\x81\x80\x40\x00"...)), peer.ErrFrame},
		{"counts of parts of no size", seal(append(head2('o'), "\x01s\x00\x00\x00\x00\x00\x00\x00"...)), peer.ErrFrame},
		{"counts of parts of too large a size", seal(append(head2('o'), "\x01s\x00\x00\x00\x00\x00\x81\x80\x40\x00"...)), peer.ErrFrame},
		{"counts that want a clock by halves", seal(append(head2('o'), "\x01s\x00\x00\x00\x00\x00\x01\x02"...)), peer.ErrFrame},
		{"counts of nothing that go on", seal(append(head2('t'), "\x00\x00\x00"...)), peer.ErrFrame},
		{"counts of parts in no order", seal(append(head2('t'), "\x01\x02\x01b\x00\x01b\x00\x00"...)), peer.ErrFrame},
		{"counts with a clock that is none", seal(append(head2('t'), "\x01\x00\x01\x01\x07"...)), clock.ErrCorrupt},
		{"counts of version 2 in version 1", seal(append(head('t'), "\x01\x00\x00"...)), peer.ErrFrameKind},
		{"hashes that are neither done nor not", seal(append(head('K'), "\x02\x00"...)), peer.ErrFrame},
		{"hashes of nothing that go on", seal(append(head('K'), "\x00\x00"...)), peer.ErrFrame},
		{"parts in no order", seal(append(head('K'), "\x01\x02\x01b\x00\x01b\x00"...)), peer.ErrFrame},
		{"more parts of elements than may be", seal(append(head('K'), "\x01\x81\x20"+strings.Repeat("\x00", 9000)...)), peer.ErrFrameTooLarge},
		{"more keys healed than a frame holds", seal(append(head('N'), "\x81\x80\x80\x20\x00\x00\x00\x00\x00"...)), peer.ErrFrame},
		{"wrong keys without dots", seal(append(head('M'), "\x01s\x00\x00\x01\x02bb\x00"...)), peer.ErrFrame},
		{"unknown status of a dot", seal(append(head('V'), "\x00\x01?"...)), peer.ErrFrame},
		{"live dots in no order", seal(append(head('V'), "\x02\x00\x01A\x02\x00\x01\x00"...)), peer.ErrFrame},
		{"range of no parts", seal(append(head('R'), "\x00\x00\x00\x01\x00\x00\x00\x02\x00"...)), peer.ErrFrame},
		{"more parts than slots", seal(append(head('R'), "\x00\x00\x00\x01\x00\x00\x00\x02\x03\x00\x00\x00"...)), peer.ErrFrame},
		{"range that ends before it begins", seal(append(head('R'), "\x00\x00\x00\x03\x00\x00\x00\x02\x01\x00"...)), peer.ErrFrame},
		{"range with sets and no sum", seal(append(head('R'), "\x00\x00\x00\x01\x00\x00\x00\x02\x01\x01"+strings.Repeat("\x00", 16)...)), peer.ErrFrame},
		{"more parts than may be", seal(append(head('R'), "\x00\x00\x00\x00\xFF\xFF\xFF\xFF\x81\x20"+strings.Repeat("\x00", 4097)...)), peer.ErrFrameTooLarge},
		{"unknown flag of a chunk", seal(append(head('C'), "\x08\x00"...)), peer.ErrFrame},
		{"chunk that is done and has a bound", seal(append(head('C'), "\x03\x00\x00"...)), peer.ErrFrame},
		{"elements in no order", seal(append(head('C'), "\x02\x01z\x02\x01b\x01\x00\x01A\x01\x01b\x01\x00\x02"...)), peer.ErrFrame},
		{"bound before the last element", seal(append(head('C'), "\x02\x01a\x02\x01b\x01\x00\x01A\x01\x01c\x01\x00\x02"...)), peer.ErrFrame},
		{"no bound", seal(append(head('C'), "\x00\x01\x01b\x01\x00\x01A\x01"...)), peer.ErrFrame},
		{"element without dots", seal(append(head('C'), "\x02\x01z\x01\x02bb\x00"...)), peer.ErrFrame},
		{"dots in no order", seal(append(head('C'), "\x02\x01z\x01\x01b\x02\x00\x01A\x02\x00\x01"...)), peer.ErrFrame},
		{"dead beyond seen", seal(append(head('S'), "\x02\x01\x00\x03\x03\x01A\x00"...)), peer.ErrFrame},
		{"digests in no order", seal(append(head('G'), "\x02\x00\x00\x00\x01\x01a0123456789abcdef\x00\x00\x00\x01\x01a0123456789abcdef"...)), peer.ErrFrame},
		{"items that run over", seal(append(head('D'), "\x01s\x00\x02\x01\x00\x02\x00\x01A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a\x00\x00a\x00\x00"...)), peer.ErrFrame},
		{"portion of more than may be asked for", seal(append(head('E'), "\x01s\x00\x81\x80\x80\x20"...)), peer.ErrFrameTooLarge},
		{"position that is neither there nor not", seal(append(head('E'), "\x01s\x02\x00"...)), peer.ErrFrame},
		{"unknown flag of a portion", seal(append(head('P'), "\x01s\x09\x00\x00"...)), peer.ErrFrame},
		{"more keys than bytes", seal(append(head('P'), "\x01s\x01\x02\x04\x00\x00\x00\x02"...)), peer.ErrFrame},
		{"keys of no number", seal(append(head('P'), "\x01s\x01\x00\x04\x00\x00\x00\x02"...)), peer.ErrFrame},
		{"portion whose dead were not seen", seal(append(head('P'), "\x01s\x07\x00\x00\x02\x01\x00\x03\x03\x01A"...)), peer.ErrFrame},
		{"deltas in version 2", seal(append(head2('1'), "\x01s\x00\x01\x00\x02\x01\x00\x00"...)), peer.ErrFrameKind},
		{"no deltas", seal(append(head3('1'), "\x01s\x00\x00"...)), peer.ErrFrame},
		{"more deltas than bytes", seal(append(head3('1'), "\x01s\x00\x03\x00\x02\x01\x00\x00"...)), peer.ErrFrame},
		{"more deltas than may be", seal(append(head3('1'), "\x01s\x00\x81\x20"+strings.Repeat("\x00\x02\x01\x00\x00", 4097)...)), peer.ErrFrameTooLarge},
		{"more items of deltas than may be", seal(append(head3('1'), "\x01s\x00\x02"+
			strings.Repeat("\x00\x02\x01\x00\xd1\x86\x03\x00\x01A\x01"+strings.Repeat("a\x00\x00", 50_001), 2)...)), peer.ErrFrameTooLarge},
		{"deltas that are cut", seal(append(head3('1'), "\x01s\x00\x02\x00\x02\x01\x00\x00\x00\x02\x01\x00"...)), peer.ErrFrame},
		{"more outcomes than may be", seal(append(head3('2'), "\x81\x20"+strings.Repeat("\x00", 4097)...)), peer.ErrFrameTooLarge},
		{"more outcomes than bytes", seal(append(head3('2'), "\x02\x00"...)), peer.ErrFrame},
		{"an outcome that is neither", seal(append(head3('2'), "\x01\x02"...)), peer.ErrFrame},
		{"item of no kind", seal(append(head('D'), "\x01s\x00\x02\x01\x00\x01\x00\x01A\x01z\x00\x00"...)), peer.ErrFrame},
	} {
		m, from, err := peer.Decode(c.frame)
		if !errors.Is(err, c.want) || !errors.Is(err, peer.ErrFrame) || m != nil || from != (peer.Member{}) {
			t.Errorf("%s: %v, from %v, error %v, want %v", c.name, m, from, err, c.want)
		}
	}
	if _, _, err := peer.Decode(make([]byte, peer.FrameBytesMax+1)); !errors.Is(err, peer.ErrFrameTooLarge) {
		t.Errorf("a frame that is too long: %v", err)
	}
}

func TestUnsendable(t *testing.T) {
	big := make([]byte, bigset.ElementBytesMax)
	var many peer.Facts
	many.Set = []byte("s")
	for i := range peer.FrameBytesMax/bigset.ElementBytesMax + 1 {
		many.Keys = append(many.Keys, fold.Element{Name: big, Dots: []clock.Dot{dot("a", uint64(i+1))}})
	}
	for _, c := range []struct {
		name string
		from peer.Member
		m    peer.Message
		want error
	}{
		{"over the frame", alice, many, peer.ErrFrameTooLarge},
		{"wide context", alice, peer.Delta{Set: []byte("s"), Actor: "A", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Wide: &clock.Clock{}}}}, peer.ErrUnresolvedContexts},
		{"request id", alice, peer.Delta{Set: []byte("s"), Request: make([]byte, peer.RequestBytesMax+1)}, peer.ErrFrameTooLarge},
		{"sender", peer.Member{}, peer.Digests{}, peer.ErrMember},
		{"no dot", alice, peer.Ask{Set: []byte("s"), Dots: []clock.Dot{{}}}, peer.ErrFrame},
		{"a range that is cut otherwise", alice, peer.RangeDigests{{First: 2, Last: 5}, {First: 6, Last: 8}}, peer.ErrFrame},
		{"no range", alice, peer.RangeDigests{}, peer.ErrFrame},
		{"sum of no elements", alice, peer.ElementDigests{Done: true, Parts: []bigset.ElementDigest{{Bound: []byte("a"), Sum: [16]byte{1}}}}, peer.ErrFrame},
		{"part of no elements", alice, peer.ElementRange{Set: []byte("s")}, peer.ErrFrame},
		{"count of parts of no elements", alice, peer.AskCount{Set: []byte("s")}, peer.ErrFrame},
		{"counts that go on behind nothing", alice, peer.PartCounts{}, peer.ErrFrame},
		{"fewer than no keys", alice, peer.HealResult{Left: -1}, peer.ErrFrame},
		{"live dots in no order", alice, peer.DotStatuses{Live: []clock.Dot{dot("b", 1), dot("a", 1)}}, peer.ErrFrame},
		{"element without dots", alice, peer.Facts{Set: []byte("s"), Keys: []fold.Element{{}}}, peer.ErrFrame},
	} {
		if b, err := peer.Append([]byte("kept"), c.from, c.m); !errors.Is(err, c.want) || string(b) != "kept" {
			t.Errorf("%s: %d bytes, error %v, want %v", c.name, len(b), err, c.want)
		}
	}
}

// TestLargestBatchFits sends the largest batch that the engine takes, with contexts of a few dots.
func TestLargestBatchFits(t *testing.T) {
	d := peer.Delta{Set: make([]byte, bigset.SetNameBytesMax), Actor: "actor-of-12b", First: 1 << 40}
	element := make([]byte, bigset.BatchBytesMax/bigset.BatchOpsMax)
	var context []clock.Dot
	for i := range 10 {
		context = append(context, dot("actor-of-12c", 1<<40+uint64(i)))
	}
	for range bigset.BatchOpsMax {
		d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: element, Context: context})
	}
	b := encode(t, alice, d)
	m, _, err := peer.Decode(b)
	if err != nil || len(m.(peer.Delta).Items) != bigset.BatchOpsMax {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(b))
}

// checkFrame decodes bytes that may be a frame: what is taken is written again and comes back the same.
func checkFrame(t testing.TB, b []byte) {
	m, from, err := peer.Decode(b)
	if err != nil {
		if !errors.Is(err, peer.ErrFrame) || m != nil {
			t.Fatalf("%x: %v, error %v", b, m, err)
		}
		return
	}
	again := encode(t, from, m)
	m2, from2, err := peer.Decode(again)
	if err != nil || from2 != from {
		t.Fatalf("%x comes back from %v, %v", again, from2, err)
	}
	same(t, m2, m)
}

func FuzzDecode(f *testing.F) {
	for _, s := range slices.Concat(allSamples(), wireSamples(), deltasSamples(), triesSamples()) {
		f.Add(body(encode(f, alice, s.m)))
	}
	for _, s := range allSamples() {
		b, err := peer.AppendVersion(nil, 1, alice, s.m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkFrame(t, seal(b)) // else nothing comes past the checksum
		checkFrame(t, b)
	})
}

// TestDecodeAtRandom gives the decoder samples that are changed a little, with a checksum that fits.
func TestDecodeAtRandom(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	rng := rand.New(rand.NewPCG(1, 2))
	all, taken := slices.Concat(allSamples(), wireSamples(), deltasSamples(), triesSamples()), 0
	frames := make([][]byte, len(all))
	for i := range all {
		frames[i] = body(encode(t, alice, all[i].m))
	}
	for range n {
		b := bytes.Clone(frames[rng.IntN(len(frames))])
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(b))
			switch rng.IntN(4) {
			case 0:
				b[at] = byte(rng.Uint32())
			case 1:
				b[at] ^= 1 << rng.IntN(8)
			case 2:
				b = append(b[:at], b[min(len(b), at+1+rng.IntN(4)):]...)
			case 3:
				b = append(b[:at:at], append([]byte{byte(rng.Uint32())}, b[at:]...)...)
			}
			if len(b) == 0 {
				break
			}
		}
		b = seal(b)
		if _, _, err := peer.Decode(b); err == nil {
			taken++
		}
		checkFrame(t, b)
	}
	if taken < n/100 {
		t.Errorf("only %d of %d were taken", taken, n)
	}
}

// fataler is a test, or a check of a test.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}
