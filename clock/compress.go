package clock

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// EncodedBytesMax is the longest canonical encoding that is compressed, and that Decode unpacks: 256 MiB. Plain
	// encodings have no limit of their own. It is part of the format.
	EncodedBytesMax = 1 << 28

	// PackRatioMax is how many bytes of canonical encoding one compressed byte may stand for, so that a short message
	// cannot ask for much memory. Better compression than that is padded. It is part of the format.
	PackRatioMax = 64

	packBytesMin = 512     // shorter encodings are left plain
	packWindow   = 1 << 20 // bytes; the distance over which repeats are found
)

// AppendCompressed appends c's canonical encoding compressed with zstd. It stays plain if it is short, very long or would not
// shrink by an eighth. Decode and UnionEncoded accept both. Compressed bytes depend on the compressor's version: compare clocks by
// Append. AppendCompressed only reads c; concurrent callers of it and of Decode's decompression take turns.
func (c *Clock) AppendCompressed(dst []byte) []byte {
	at := len(dst)
	dst = c.Append(dst)
	plain := dst[at:]
	if len(plain) <= packBytesMin || len(plain) > EncodedBytesMax {
		return dst
	}
	packed := binary.AppendUvarint([]byte{formPacked}, uint64(len(plain)))
	packed = pad(packer().EncodeAll(plain, packed), len(plain)/PackRatioMax+1)
	if len(packed) > len(plain)-len(plain)/8 {
		return dst
	}
	return append(dst[:at], packed...)
}

// skipFrame opens a frame that zstd decoders skip; its length follows in 4 bytes, little-endian.
const skipFrame = 0x184D2A50

// pad makes packed at least size bytes long by appending a skippable frame of zeros.
func pad(packed []byte, size int) []byte {
	if len(packed) >= size {
		return packed
	}
	fill := max(0, size-len(packed)-8)
	packed = binary.LittleEndian.AppendUint32(packed, skipFrame)
	packed = binary.LittleEndian.AppendUint32(packed, uint32(fill))
	return append(packed, make([]byte, fill)...)
}

// unpack returns the canonical bytes of b: b itself unless it is compressed.
func unpack(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != formPacked {
		return b, nil
	}
	p := parser{b: b, off: 1}
	size, err := p.uvarint()
	if err != nil {
		return nil, err
	}
	if size <= packBytesMin || size > EncodedBytesMax || size > PackRatioMax*uint64(len(b)) {
		return nil, p.fail("bad length before compression")
	}
	plain, err := unpacker().DecodeAll(b[p.off:], make([]byte, 0, size))
	if err != nil {
		return nil, p.fail(err.Error())
	}
	if uint64(len(plain)) != size || plain[0] != formClock {
		return nil, p.fail("other bytes compressed than announced")
	}
	return plain, nil
}

// packer and unpacker are made on first use and kept: they hold tables that cost more than most clocks.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(EncodedBytesMax), zstd.WithDecoderMaxWindow(packWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return r
	})
)
