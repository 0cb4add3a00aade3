package lsm

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the vectors in testdata: a change of format")

const testActor = clock.Actor("node\x00\x00\x00\x07\xff\xff\xff\xfe")

// droppedAll drops ranges one after the other.
func droppedAll(t testing.TB, ranges ...[2]keyscheme.Slot) *minting {
	t.Helper()
	m := newMinting(testActor)
	for _, r := range ranges {
		if m = m.dropped(r[0], r[1]); m == nil {
			t.Fatalf("no table after %v", r)
		}
	}
	return m
}

// TestSaltsGolden compares the bytes of tables with those in testdata.
func TestSaltsGolden(t *testing.T) {
	const path = "testdata/salts.txt"
	var text strings.Builder
	fmt.Fprintf(&text, "# Tables of salts of the actor %x, after drops of ranges of slots, in order.\n", string(testActor))
	for _, drops := range [][][2]keyscheme.Slot{
		{{5, 9}},
		{{0, keyscheme.SlotMax}},
		{{0x100, 0x1ff}, {0x180, 0x18f}},
		{{0x100, 0x1ff}, {0x200, 0x2ff}, {0x1f0, 0x20f}},
		{{7, 7}, {7, 7}, {7, 7}},
	} {
		b := droppedAll(t, drops...).append(nil)
		fmt.Fprintf(&text, "\n%x\n%x\n", drops, b)
		if m, err := decodeMinting(b); err != nil || !reflect.DeepEqual(m, droppedAll(t, drops...)) {
			t.Errorf("%x: decoded %+v, %v", drops, m, err)
		}
	}
	if *rewrite {
		must(t, os.MkdirAll("testdata", 0o755), "testdata")
		must(t, os.WriteFile(path, []byte(text.String()), 0o644), "testdata")
	}
	want, err := os.ReadFile(path)
	must(t, err, "testdata")
	if text.String() != string(want) {
		t.Errorf("the bytes of tables have changed, which is a change of format (-rewrite writes them):\n%s\nwant\n%s", &text, want)
	}
}

// TestSalted: the salted actors of one actor differ from it and from each other in their last four bytes.
func TestSalted(t *testing.T) {
	tails := map[uint32]uint32{keyscheme.ActorTail([]byte(testActor)): 0}
	for _, salt := range []uint32{1, 2, 3, 1 << 16, math.MaxUint32 - 1, math.MaxUint32} {
		a := saltedActor(testActor, salt)
		if !strings.HasPrefix(string(a), string(testActor)) || len(a) != len(testActor)+4 {
			t.Errorf("salt %d: actor %x", salt, string(a))
		}
		tail := keyscheme.ActorTail([]byte(a))
		if other, ok := tails[tail]; ok {
			t.Errorf("salts %d and %d have the tail %x", salt, other, tail)
		}
		tails[tail] = salt
	}
}

// TestMinting compares how a store mints with a list of the salts of all slots, after any drops. The slots are few, or at both ends of all.
func TestMinting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]keyscheme.Slot{0, 1 << 20, keyscheme.SlotMax - 31}).Draw(t, "first of the slots")
		m, salts := newMinting(testActor), [32]uint32{}
		for salt := uint32(1); salt <= uint32(rapid.IntRange(0, 30).Draw(t, "drops")); salt++ {
			first := rapid.IntRange(0, 31).Draw(t, "first")
			last := rapid.IntRange(first, 31).Draw(t, "last")
			before, was := m, m.append(nil)
			m = m.dropped(base+keyscheme.Slot(first), base+keyscheme.Slot(last))
			for i := first; i <= last; i++ {
				salts[i] = salt
			}
			if !bytes.Equal(before.append(nil), was) {
				t.Fatal("a drop has changed the table before it")
			}
			if want := saltedActor(testActor, salt); m.newest != want || m.given != salt {
				t.Fatalf("newest %x, want %x; salt %d, want %d", string(m.newest), string(want), m.given, salt)
			}
			got, err := decodeMinting(m.append(nil))
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Fatalf("decoded %+v of %+v, %v", got, m, err)
			}
		}
		for i, salt := range salts {
			want := testActor
			if salt > 0 {
				want = saltedActor(testActor, salt)
			}
			if got := m.at(base + keyscheme.Slot(i)); got != want {
				t.Fatalf("slot %d: actor %x, want %x: %+v", i, string(got), string(want), m.ranges)
			}
		}
	})
}

// TestMintingFull: a table takes its maximum of ranges, and no salt is given twice.
func TestMintingFull(t *testing.T) {
	m := droppedAll(t, [2]keyscheme.Slot{0, keyscheme.SlotMax})
	for slot := keyscheme.Slot(10); ; slot += 10 { // each adds two ranges
		next := m.dropped(slot, slot+4)
		if next == nil {
			break
		}
		m = next
	}
	if n := len(m.ranges); n != saltRangesMax-1 {
		t.Errorf("%d ranges", n)
	}
	if m = m.dropped(keyscheme.SlotMax, keyscheme.SlotMax); m == nil || len(m.ranges) != saltRangesMax {
		t.Fatalf("no table of as many ranges as may be")
	}
	if got, err := decodeMinting(m.append(nil)); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("the largest table: %v", err)
	}
	if next := m.dropped(3, 4); next != nil {
		t.Errorf("a table of %d ranges", len(next.ranges))
	}
	m = m.dropped(0, keyscheme.SlotMax)
	if len(m.ranges) != 1 {
		t.Errorf("%d ranges after a drop of all", len(m.ranges))
	}
	m.given = math.MaxUint32
	if next := m.dropped(3, 4); next != nil {
		t.Errorf("salt %d after %d", next.given, m.given)
	}
}

// TestFullTableRenewsAll: the drop for which the table has no room gives all slots another actor, and the table starts again empty.
func TestFullTableRenewsAll(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	r.add(t, "s", 0, 3, true)
	renew := func(first, last keyscheme.Slot) {
		t.Helper()
		b := r.db.NewBatch()
		must(t, r.db.RenewActor(b, first, last, func(commit func() error) error { return commit() }), "renew")
		must(t, b.Close(), "close")
	}
	full := newMinting(r.db.Actor())
	for slot := keyscheme.Slot(0); len(full.ranges) < saltRangesMax; slot += 2 {
		full = full.dropped(slot, slot)
	}
	r.db.id.minting.Store(full)
	renew(0, 0) // it takes the place of another range, which makes the table no larger
	if got := r.db.id.minting.Load(); got.given != full.given+1 || got.actor != full.actor || got.at(2) != full.at(2) {
		t.Errorf("a range that was dropped again: salt %d of actor %x", got.given, string(got.actor))
	}
	renew(1<<20, 1<<20)
	check := func(when string) {
		t.Helper()
		if got := r.db.id.minting.Load(); got.given != 0 || got.actor == full.actor || len(got.ranges) != 0 || r.db.FirstIncarnation() {
			t.Errorf("%s: salt %d of actor %x, %d ranges", when, got.given, string(got.actor), len(got.ranges))
		}
	}
	check("after a drop without room")
	must(t, r.tryClose(), "close")
	r.open(t)
	check("after a close")
	renew(5, 9)
	if got := r.db.id.minting.Load(); got.given != 1 || len(got.ranges) != 1 {
		t.Errorf("the next drop: salt %d, %d ranges", got.given, len(got.ranges))
	}
	r.close(t)
}

// TestDamagedSalts: a store whose table is damaged does not open, because it does not know what it has minted.
func TestDamagedSalts(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	must(t, r.try(batch{string(keySalts): []byte("damaged")}, true), "write")
	must(t, r.tryClose(), "close")
	if err := r.tryOpen("store"); !errors.Is(err, bigset.ErrCorrupt) {
		t.Errorf("opened: %v", err)
	}
}

func FuzzDecodeMinting(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(droppedAll(f, [2]keyscheme.Slot{5, 9}).append(nil))
	table := droppedAll(f, [2]keyscheme.Slot{0, keyscheme.SlotMax}, [2]keyscheme.Slot{10, 20}, [2]keyscheme.Slot{15, 30}).append(nil)
	f.Add(table)
	f.Add(table[:len(table)-1])
	for _, at := range []int{0, saltsHeadBytes - 1, saltsHeadBytes + 3, saltsHeadBytes + 7, saltsHeadBytes + 11, saltsHeadBytes + 15} {
		b := bytes.Clone(table)
		b[at] ^= 2
		f.Add(b)
	}
	f.Add(append(bytes.Clone(table[:saltsHeadBytes]), bytes.Repeat([]byte{0, 0, 0, 1}, 6)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMinting(b)
		if err != nil {
			if m != nil || !errors.Is(err, bigset.ErrCorrupt) {
				t.Errorf("%x: %+v, %v", b, m, err)
			}
			return
		}
		if !bytes.Equal(m.append(nil), b) {
			t.Errorf("%x decodes to %+v, which is %x", b, m, m.append(nil))
		}
		next := keyscheme.Slot(0)
		for i, r := range m.ranges {
			if r.salt == 0 || r.salt > m.given || r.first < next || r.last < r.first {
				t.Errorf("%x: range %d is %+v", b, i, r)
			}
			if m.at(r.first) != r.actor || m.at(r.last) != r.actor || r.actor != saltedActor(m.actor, r.salt) {
				t.Errorf("%x: range %d has actors %x, %x, %x", b, i, string(r.actor), string(m.at(r.first)), string(m.at(r.last)))
			}
			if r.first > next && m.at(r.first-1) != m.actor {
				t.Errorf("%x: slot %08x before range %d has actor %x", b, r.first-1, i, string(m.at(r.first-1)))
			}
			next = r.last + 1
		}
		if n := len(m.ranges); n < saltRangesMax-1 && m.given < math.MaxUint32 {
			d := m.dropped(5, 1<<30)
			if got, err := decodeMinting(d.append(nil)); err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("%x: after a drop %x, %v", b, d.append(nil), err)
			}
		}
	})
}

// BenchmarkActorAt looks up the actors of slots, in a table without ranges and in full one.
func BenchmarkActorAt(b *testing.B) {
	full := newMinting(testActor)
	for slot := keyscheme.Slot(0); len(full.ranges) < saltRangesMax; slot += 1 << 20 {
		full = full.dropped(slot, slot+1<<10)
	}
	for name, m := range map[string]*minting{"empty": newMinting(testActor), "full": full} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for i := range b.N {
				n += len(m.at(keyscheme.Slot(i) * 0x9E3779B9))
			}
			if n == 0 {
				b.Error("no actor")
			}
		})
	}
}
