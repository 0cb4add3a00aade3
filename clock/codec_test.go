package clock

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/internal/testkit/mangle"
)

var rewrite = flag.Bool("rewrite", false, "write testdata again")

// samples are clocks whose bytes are fixed for ever; they meet every form and every kind of record.
func samples() (names []string, clocks map[string]*Clock) {
	clocks = map[string]*Clock{}
	add := func(name string, c *Clock) {
		names = append(names, name)
		clocks[name] = c
	}
	ranges := func(pairs ...uint64) *Clock {
		c := new(Clock)
		for i := 0; i < len(pairs); i += 2 {
			c.AddRange("a", pairs[i], pairs[i+1])
		}
		return c
	}
	steps := func(from, to, step, length uint64) *Clock {
		c := new(Clock)
		for n := from; n <= to; n += step {
			c.AddRange("a", n, n+length-1)
		}
		return c
	}
	add("empty", Of())
	add("dot-1", Of(Dot{"a", 1}))
	add("dot-12-byte-actor", Of(Dot{"abcdefghijkl", 1_000_000}))
	add("dot-last", Of(Dot{"a", 1<<64 - 1}))
	add("two-dots", Of(Dot{"a", 5}, Dot{"a", 9}))
	add("vector", func() *Clock { c := ranges(1, 1000); c.AddRange("b", 1, 70000); c.AddRange("\xff\x00", 1, 2); return c }())
	add("gap-then-million", ranges(1, 10, 12, 1_000_011))
	add("gap-then-hundred-million", ranges(2, 100_000_001))
	add("two-extents", ranges(1, 3, 1<<16, 1<<17-1, 1<<32, 1<<33-1))
	add("everything", ranges(1, 1<<64-1))
	add("all-but-one", ranges(1, 69999, 70001, 1<<64-1))
	add("base-before-last", ranges(1, 1<<64-3, 1<<64-1, 1<<64-1))
	add("base-ends-a-page", ranges(1, 1<<16-1, 1<<16+1, 1<<16+2))
	add("base-before-page-end", ranges(1, 1<<16-2, 1<<16, 1<<17-1))
	add("runs", steps(100, 2000, 200, 100))
	add("values", steps(3, 400, 7, 1))
	add("holes", steps(1, 400, 7, 6))
	add("bitmap", steps(2, 400, 2, 1))
	return names, clocks
}

func TestGolden(t *testing.T) {
	const file = "testdata/golden.txt"
	var b strings.Builder
	names, clocks := samples()
	for _, name := range names {
		c := clocks[name]
		mustCheck(t, c)
		fmt.Fprintf(&b, "%s %s %s\n", name, c, hex.EncodeToString(c.Append(nil)))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func roundTrip(t rapid.TB, c *Clock) {
	t.Helper()
	b := c.Append([]byte("before"))
	if string(b[:6]) != "before" {
		t.Fatal("Append wrote over what was there")
	}
	d, err := Decode(b[6:])
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	if err := d.check(); err != nil || !d.Equal(c) || d.Len() != c.Len() || !bytes.Equal(d.Append(nil), b[6:]) {
		t.Fatalf("%v came back as %v (%v)", c, d, err)
	}
	packed := c.AppendCompressed([]byte("before"))
	if d, err = Decode(packed[6:]); err != nil || !d.Equal(c) {
		t.Fatalf("%v came back from zstd as %v (%v)", c, d, err)
	}
	e := Of(Dot{"z", 7})
	if err := e.UnionEncoded(packed[6:]); err != nil || !e.Descends(c) || e.Max("z") != 7 {
		t.Fatalf("UnionEncoded gives %v (%v)", e, err)
	}
}

func TestRoundTrip(t *testing.T) {
	_, clocks := samples()
	for _, c := range clocks {
		roundTrip(t, c)
	}
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawPair(t, "steps")
		roundTrip(t, c)
	})
}

// random returns a clock of pages pages in which each counter is present with probability p, in runs of about size.
func random(rnd *rand.Rand, pages int, p float64, size int) *Clock {
	c := new(Clock)
	for n := uint64(rnd.IntN(70000) + 1); n < uint64(pages)<<16; {
		length := uint64(rnd.IntN(2*size) + 1)
		if rnd.Float64() < p {
			c.AddRange("a", n, n+length-1)
		}
		n += length
	}
	return c
}

func TestRoundTripDense(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{0.001, 0.03, 0.3, 0.5, 0.7, 0.97, 0.999} {
		for _, size := range []int{1, 3, 40} {
			roundTrip(t, random(rnd, 3, p, size))
		}
	}
}

// The bytes do not reveal how a clock was made.
func TestEncodingHasNoHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, m := drawPair(t, "steps")
		d := new(Clock)
		for k := range m { // in any order
			run := cells[k.i]
			if d.AddRange(k.actor, run.First, run.Last); rapid.Bool().Draw(t, "clone") {
				d = d.Clone()
			}
		}
		other, _ := drawPair(t, "others")
		d.Union(other)
		d.Subtract(minus(other, c))
		if !d.Equal(c) || !bytes.Equal(c.Append(nil), d.Append(nil)) {
			t.Fatalf("%v and %v: %x, %x", c, d, c.Append(nil), d.Append(nil))
		}
	})
}

func TestEncodedSizes(t *testing.T) {
	_, s := samples()
	rnd := rand.New(rand.NewPCG(3, 4))
	live := new(Clock) // 10,000 live among 10^7 dead
	for live.Len() < 10_000 {
		live.Add(Dot{"a", rnd.Uint64N(10_000_000) + 1})
	}
	dead := new(Clock)
	dead.AddRange("a", 1, 10_000_000)
	dead.Subtract(live)
	noise := random(rnd, 16, 0.5, 1)
	for _, c := range []struct {
		name  string
		clock *Clock
		most  int // bytes
	}{
		{"empty", s["empty"], 2},
		{"one dot, actor of 12 bytes", s["dot-12-byte-actor"], 16},
		{"gap, then a million", s["gap-then-million"], 20},
		{"gap, then a hundred million", s["gap-then-hundred-million"], 20},
		{"all counters but one", s["all-but-one"], 24},
		{"10,000 live among 10,000,000 dead", dead, 2*10_000 + 16*153},
		{"10,000 values among 10,000,000", live, 2*10_000 + 16*153},
		{"1 % gaps in 10,000,000", tenMillion(), 100_000 + 16*153},
		{"a million random bits", noise, 16*(8192+8) + 16},
	} {
		plain, packed := len(c.clock.Append(nil)), len(c.clock.AppendCompressed(nil))
		t.Logf("%-36s %8d plain %8d packed %8d heap", c.name, plain, packed, c.clock.HeapBytes())
		if plain > c.most || packed > plain {
			t.Errorf("%s: %d bytes, %d packed, want at most %d", c.name, plain, packed, c.most)
		}
	}
}

// A clock takes a bit per event, or two bytes for each event that is not in it plus 16 for each page that has such events,
// whichever is less, and 32 bytes per actor.
func TestEncodedSizesOfActors(t *testing.T) {
	const n = 400_000
	for _, actors := range []int{1, 1000} {
		for _, shape := range []struct {
			name string
			in   uint64 // percents of the events
			gap  bool   // the first event of each actor is missing
		}{{"seen", 100, false}, {"seen with a gap", 100, true}, {"half of them", 50, false}, {"nine in ten", 90, false}} {
			c, missing, rnd := new(Clock), n, rand.New(rand.NewPCG(5, 6))
			for i := range n {
				d := Dot{Actor(fmt.Sprintf("actor%07d", i%actors)), uint64(i/actors) + 1}
				if shape.gap && d.Counter == 1 || rnd.Uint64N(100) >= shape.in {
					continue
				}
				c.Add(d)
				missing--
			}
			pages := actors * (n/actors>>PageBits + 1)
			most := min(n/8+16*pages, 2*missing+16*min(pages, missing)) + 32*actors + 16
			if got := len(c.Append(nil)); got > most {
				t.Errorf("%d actors, %s: %d bytes, want at most %d", actors, shape.name, got, most)
			}
		}
	}
}

// Bytes that mean a clock, and are not the ones that Append makes of it.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, hex string }{
		{"nothing", ""},
		{"unknown form", "00"},
		{"no count", "01"},
		{"bytes after the end", "010000"},
		{"long varint", "018000"},
		{"varint of 11 bytes", "0180808080808080808080" + "01"},
		{"empty actor name", "01010001" + "00"},
		{"actor twice", "0102" + "01610200" + "01610300"},
		{"actors out of order", "0102" + "01620200" + "01610300"},
		{"actor without counters", "01010161" + "0000"},
		{"name cut short", "01010561"},
		{"more records than bytes", "01010161" + "00" + "ffffffff0f"},
		{"dot as a clock", "01010161" + "0100"},
		{"dot in the cloud as a clock", "01010161" + "0001" + "020105"},
		{"dot 0", "030061"},
		{"dot without actor", "0305"},
		{"value below the page", "01010161" + "ffff03" + "01" + "0202ffff0300"},
		{"no values", "01010161" + "0501" + "0200"},
		{"runs where values are smaller", "01010161" + "0501" + "01020000" + "0000"},
		{"unknown kind", "01010161" + "0501" + "050103"},
		{"extent on the base", "01010161" + "0501" + "0001"},
		{"empty extent", "01010161" + "0501" + "0800"},
		{"extents that touch", "01010161" + "0502" + "0801" + "0001"},
		{"extent beyond the end", "01010161" + "0501" + "08" + "8080808080808002"},
		{"page after the last one", "01010161" + "0502" + "08ffffffffffff3f" + "020105"},
		{"hole at the last value", "01010161" + "0501" + "03" + "0a02" + "0307"},
		{"more actors than bytes", "01" + "ffffffff0f" + "01610200"},
		{"cloud above the last counter", "01010161" + "ffffffffffffffffff01" + "01" + "020100"},
		{"bitmap of zeros", "01010161" + "0501" + "040700"},
		{"full page as a hole-less page", "01010161" + "0501" + "0b" + "ffff0300"},
		{"packed, too long", "02" + "ffffffff7f" + "00"},
		{"packed, no frame", "02" + "8108" + "0000000000000000000000000000000000"},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(c.name, err)
		}
		before := Of(Dot{"a", 2}, Dot{"q", 70000})
		after := before.Clone()
		var where *CorruptError
		if d, err := Decode(b); !errors.Is(err, ErrCorrupt) || !errors.As(err, &where) || where.Offset > len(b) {
			t.Errorf("%s: %v, %v", c.name, d, err)
		}
		if err := after.UnionEncoded(b); !errors.Is(err, ErrCorrupt) || !after.Equal(before) {
			t.Errorf("%s: UnionEncoded: %v, %v", c.name, after, err)
		}
	}
}

// Every single byte changed, and every end cut off: refused, or the canonical bytes of some other clock.
func TestDecodeDamaged(t *testing.T) {
	_, clocks := samples()
	for name, c := range clocks {
		good := c.Append(nil)
		for i := range good {
			if d, err := Decode(good[:i]); err == nil && good[0] != formDot {
				t.Fatalf("%s cut to %d bytes is %v", name, i, d)
			}
			for x := 1; x < 256; x++ {
				bad := bytes.Clone(good)
				bad[i] ^= byte(x)
				decodeAny(t, bad)
			}
		}
	}
}

// decodeAny checks what must hold of any bytes.
func decodeAny(t testing.TB, b []byte) {
	t.Helper()
	c, err := Decode(b)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%x: %v", b, err)
		}
		return
	}
	mustCheck(t, c)
	canon := c.Append(nil)
	if b[0] != formPacked && !bytes.Equal(canon, b) {
		t.Fatalf("%x and %x are both %v", b, canon, c)
	}
	if got, most := c.HeapBytes(), DecodedBytesMax*len(canon)+200<<10; got > most {
		t.Fatalf("%d bytes decode into %d", len(b), got)
	}
}

// The worst that short bytes can ask for: many pages, each with as little as possible.
func TestDecodeMemory(t *testing.T) {
	worst := map[string]*Clock{"values": {}, "runs": {}, "actors": {}, "bitmaps": {}, "arrays": {}}
	for i := range uint64(20_000) {
		worst["values"].Add(Dot{"a", (i+1)<<17 + 1})
		worst["runs"].AddRange("a", (i+1)<<17, (i+1)<<17+90)
		worst["actors"].Add(Dot{Actor([]byte{byte(i >> 8), byte(i)}), 1})
	}
	for page := range uint64(20) {
		for i := range uint64(130) {
			worst["bitmaps"].AddRange("a", page<<16+32*i+2, page<<16+32*i+32)
		}
		for i := range uint64(2000) {
			worst["arrays"].Add(Dot{"a", page<<16 + 2*(i%2000) + 2})
		}
	}
	for name, c := range worst {
		for _, b := range [][]byte{c.Append(nil), c.AppendCompressed(nil)} {
			if packed := b[0] == formPacked; packed && len(c.Append(nil)) > PackRatioMax*len(b) {
				t.Errorf("%s: ratio above PackRatioMax", name)
			}
			if _, err := Decode(b); err != nil { // also initializes what is made once
				t.Fatal(name, err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := Decode(b)
			runtime.ReadMemStats(&after)
			if err != nil || !d.Equal(c) {
				t.Fatal(name, err)
			}
			plain := len(c.Append(nil))
			got := int(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%-8s %7d bytes, %7d plain, %9d allocated, HeapBytes %9d: %d a plain byte", name, len(b), plain, got, d.HeapBytes(), got/plain)
			if got > DecodedBytesMax*plain+200<<10 {
				t.Errorf("%s: %d bytes allocate %d", name, plain, got)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	_, clocks := samples()
	for _, c := range clocks {
		f.Add(c.Append(nil))
	}
	f.Add(random(rand.New(rand.NewPCG(5, 6)), 2, 0.9, 2).AppendCompressed(nil))
	f.Fuzz(func(t *testing.T, b []byte) { decodeAny(t, b) })
}

func FuzzUnionEncoded(f *testing.F) {
	_, clocks := samples()
	for _, c := range clocks {
		f.Add(c.Append(nil), clocks["holes"].Append(nil))
		f.Add(clocks["runs"].Append(nil), c.Append(nil))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) { unionAny(t, a, b) })
}

func unionAny(t *testing.T, a, b []byte) {
	c, err := Decode(a)
	if err != nil {
		c = Of(Dot{"a", 70000})
	}
	before := c.Clone()
	d, err := Decode(b)
	if got := c.UnionEncoded(b); (got == nil) != (err == nil) {
		t.Fatalf("UnionEncoded says %v, Decode says %v", got, err)
	}
	mustCheck(t, c)
	before.Union(d)
	mustCheck(t, before)
	if !before.Equal(c) {
		t.Fatalf("UnionEncoded gives %v, Union %v", c, before)
	}
}

// TestDecodeAtRandom gives the decoder what the fuzzer would, without its instruments: samples, changed a little.
func TestDecodeAtRandom(t *testing.T) {
	n, changes := mangle.Times(150_000), mangle.New(t)
	_, clocks := samples()
	var encoded [][]byte
	for _, c := range clocks {
		if b := c.Append(nil); len(b) < 200 {
			encoded = append(encoded, b)
		}
		if b := c.AppendCompressed(nil); len(b) < 200 {
			encoded = append(encoded, b)
		}
	}
	for range n {
		decodeAny(t, changes.Of(encoded))
	}
	for range n / 3 {
		unionAny(t, changes.Of(encoded), changes.Of(encoded))
	}
	t.Logf("%d samples, %d executions", len(encoded), n+n/3)
}
