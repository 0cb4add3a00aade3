package clock

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Encodings of more than the compressor's window, one that shrinks a little and one that would shrink too much.
func TestCompressedLong(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	same, uneven := new(Clock), new(Clock)
	for n := uint64(3); n < 200<<16; n += 2 {
		same.Add(Dot{"a", n})
		if n%8 != 1 || rnd.IntN(2) == 0 { // one bit of each byte is noise
			uneven.Add(Dot{"a", n})
		}
	}
	for name, c := range map[string]*Clock{"uneven": uneven, "repeating": same} {
		plain, packed := c.Append(nil), c.AppendCompressed(nil)
		t.Logf("%s: %d plain, %d packed", name, len(plain), len(packed))
		if len(plain) <= packWindow || packed[0] != formPacked || len(plain) > PackRatioMax*len(packed) {
			t.Errorf("%s: %d bytes packed into %d, form %d", name, len(plain), len(packed), packed[0])
		}
		if d, err := Decode(packed); err != nil || !d.Equal(c) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Compressed bytes that announce or hold more than their length allows.
func TestDecodeBomb(t *testing.T) {
	zeros := make([]byte, 64<<20)
	frame := packer().EncodeAll(zeros, nil)
	for _, size := range []uint64{0, 1, 513, uint64(len(frame)) * PackRatioMax, 64 << 20, EncodedBytesMax, 1 << 62} {
		b := append(binary.AppendUvarint([]byte{formPacked}, size), frame...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(b)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("size %d: %v", size, err)
		}
		if got := int(after.TotalAlloc - before.TotalAlloc); got > 2*PackRatioMax*len(b)+4<<20 {
			t.Errorf("size %d: %d bytes allocate %d", size, len(b), got)
		}
	}
}
