package comparator_test

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

// The order once more, slow and plain: a key is parsed into fields, and fields are compared in turn.

type field struct {
	whole  bool
	number bool   // compare as a little-endian number
	bytes  []byte // the field without its length; if it is not whole, all the rest of the key
}

// walker cuts fields from a key until one is not whole.
type walker struct {
	rest   []byte
	fields []field
	ended  bool
}

func (w *walker) fixed(n uint64, number bool) []byte {
	if w.ended {
		return nil
	}
	if uint64(len(w.rest)) < n {
		w.end(false)
		return nil
	}
	cut := w.rest[:n]
	w.rest = w.rest[n:]
	w.fields = append(w.fields, field{true, number, cut})
	return cut
}

// counted cuts a length and as many bytes, as one field.
func (w *walker) counted() {
	if w.ended {
		return
	}
	if len(w.rest) < 4 || uint64(len(w.rest)) < 4+uint64(binary.LittleEndian.Uint32(w.rest)) {
		w.end(false)
		return
	}
	n := binary.LittleEndian.Uint32(w.rest)
	w.fields = append(w.fields, field{true, false, w.rest[4 : 4+n]})
	w.rest = w.rest[4+n:]
}

// end takes all the rest as the last field.
func (w *walker) end(whole bool) {
	if !w.ended {
		w.fields = append(w.fields, field{whole, false, w.rest})
		w.rest, w.ended = nil, true
	}
}

func parse(key []byte) []field {
	w := &walker{rest: key}
	w.fixed(4, false)
	n := w.fixed(4, true)
	if n != nil && binary.LittleEndian.Uint32(n) != 0xFFFFFFFF {
		w.fixed(uint64(binary.LittleEndian.Uint32(n)), false)
		switch d := w.fixed(1, false); {
		case d == nil:
		case d[0] == 'c' || d[0] == 'd':
			w.counted()
			w.fixed(8, false)
		case d[0] == 'e':
			w.counted()
			w.counted()
			w.fixed(8, true)
			w.fixed(1, false)
		}
	}
	w.end(true)
	return w.fields
}

func refCompare(a, b []byte) int {
	x, y := parse(a), parse(b)
	for i := range min(len(x), len(y)) {
		if c := compareField(x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y)) // unreachable unless equal
}

func compareField(x, y field) int {
	if x.whole != y.whole {
		if x.whole {
			return 1
		}
		return -1
	}
	if x.number && y.number && x.whole {
		return cmp.Compare(number(x.bytes), number(y.bytes))
	}
	return bytes.Compare(x.bytes, y.bytes)
}

func number(b []byte) uint64 {
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:])
}

// Generators draw from few bytes, so that keys share fields and collide.

func smallBytes(lo, hi int) *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xFE, 0xFF}), lo, hi)
}

var (
	slots    = rapid.SampledFrom([]keyscheme.Slot{0, 1, 0xFF, 0x01000000, 0xFFFFFFFE, 0xFFFFFFFF})
	counters = rapid.SampledFrom([]uint64{1, 2, 0xFF, 0x100, 0x101, 1 << 56, 1<<64 - 1})
	ops      = rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove})
)

// goodKeys draws well-formed keys of every kind.
var goodKeys = rapid.Custom(func(t *rapid.T) []byte {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, slots.Draw(t, "slot"), smallBytes(0, 2).Draw(t, "set")))
	switch rapid.SampledFrom([]byte("ccCddDeeeeeeeezsbm")).Draw(t, "kind") {
	case 'c':
		return p.AppendClock(nil)
	case 'C':
		actor := clock.Actor(smallBytes(1, 2).Draw(t, "actor"))
		return p.AppendClockPage(nil, actor, rapid.SampledFrom([]uint64{0, 1, 255, 256, 1 << 40}).Draw(t, "page"))
	case 'd':
		return p.AppendTombstone(nil)
	case 'D':
		actor := clock.Actor(smallBytes(1, 2).Draw(t, "actor"))
		return p.AppendTombstonePage(nil, actor, rapid.SampledFrom([]uint64{0, 1, 255, 256, 1 << 40}).Draw(t, "page"))
	case 'z':
		return p.AppendEnd(nil)
	case 's':
		return smallBytes(1, 3).Draw(t, "store")
	case 'b':
		return keyscheme.AppendSlotKey(nil, p.Slot(), keyscheme.SlotBloom, smallBytes(0, 3).Draw(t, "rest"))
	case 'm':
		return keyscheme.AppendSlotKey(nil, p.Slot(), keyscheme.SlotMeta, smallBytes(0, 3).Draw(t, "rest"))
	}
	dot := clock.Dot{Actor: clock.Actor(smallBytes(1, 2).Draw(t, "actor")), Counter: counters.Draw(t, "counter")}
	return p.AppendElement(nil, smallBytes(0, 3).Draw(t, "element"), dot, ops.Draw(t, "op"))
})

// anyKeys draws well-formed, damaged, cut and arbitrary keys.
var anyKeys = rapid.Custom(func(t *rapid.T) []byte {
	if rapid.IntRange(0, 9).Draw(t, "arbitrary") == 0 {
		return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	}
	key := goodKeys.Draw(t, "key")
	switch rapid.SampledFrom([]string{"good", "cut", "cut", "longer", "flip"}).Draw(t, "damage") {
	case "cut":
		key = key[:rapid.IntRange(0, len(key)).Draw(t, "len")]
	case "longer":
		key = append(key, smallBytes(1, 3).Draw(t, "tail")...)
	case "flip":
		key[rapid.IntRange(0, len(key)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
	}
	return key
})
