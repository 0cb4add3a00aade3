package marklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/bloomslice"
)

// A segment of the log of marks is a head and chunks. A chunk is the data of one write: records of marks, after a header that says
// how much of the segment was on disk by then. The last chunk of an ended segment is empty. docs/format.md has all of it.
const (
	segmentPrefix = "filters-"
	segmentSuffix = ".log"

	segmentMagic     = "bsmarks\x01" // the last byte is the version
	segmentHeadBytes = 8 + 8 + 4 + 4

	chunkHeader = 4 + 4 + 4 + 8
	chunkSalt   = 8  // offset of the salt
	chunkSynced = 12 // offset of the length that was on disk
)

func segmentName(number uint64) string {
	return fmt.Sprintf("%s%06d%s", segmentPrefix, number, segmentSuffix)
}

// castagnoli is the polynomial of the checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IsSegment reports whether a name is that of a segment.
func IsSegment(name string) bool {
	_, ok := segmentNumber(name)
	return ok
}

// segmentNumber returns the number of a segment, by its name.
func segmentNumber(name string) (number uint64, ok bool) {
	text, ok := strings.CutPrefix(name, segmentPrefix)
	if !ok {
		return 0, false
	}
	if text, ok = strings.CutSuffix(text, segmentSuffix); !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil && segmentName(number) == name
}

// listSegments returns the numbers of the segments in a folder, ascending.
func listSegments(fs vfs.FS, dir string) (numbers []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if number, ok := segmentNumber(name); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// appendSegmentHead appends the head of a segment. The salt must not be 0.
func appendSegmentHead(dst []byte, number uint64, salt uint32) []byte {
	from := len(dst)
	dst = binary.BigEndian.AppendUint64(append(dst, segmentMagic...), number)
	dst = binary.BigEndian.AppendUint32(dst, salt)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

func decodeSegmentHead(b []byte, number uint64) (salt uint32, ok bool) {
	if len(b) < segmentHeadBytes {
		return 0, false
	}
	salt = binary.BigEndian.Uint32(b[16:])
	return salt, bytes.Equal(b[:segmentHeadBytes], appendSegmentHead(nil, number, salt))
}

// seal fills in the header of a chunk.
func seal(chunk []byte, salt uint32, synced int64) {
	binary.BigEndian.PutUint32(chunk[4:], uint32(len(chunk)-chunkHeader))
	binary.BigEndian.PutUint32(chunk[chunkSalt:], salt)
	binary.BigEndian.PutUint64(chunk[chunkSynced:], uint64(synced))
	binary.BigEndian.PutUint32(chunk, crc32.Checksum(chunk[4:], castagnoli))
}

// whole returns the size of the chunk that b begins with, or 0 if it is not a whole one.
func whole(b []byte, salt uint32) int {
	if len(b) < chunkHeader || binary.BigEndian.Uint32(b[chunkSalt:]) != salt {
		return 0
	}
	n := chunkHeader + int(binary.BigEndian.Uint32(b[4:]))
	if n > len(b) || crc32.Checksum(b[4:n], castagnoli) != binary.BigEndian.Uint32(b) {
		return 0
	}
	return n
}

// errBad is wrapped by errors about the bytes of a segment.
var errBad = errors.New("a bad record of marks")

// walkSegment calls f with the records of each whole chunk. The tail of the last segment may be what a crash left of writes that
// were not synced: bad chunks after which nothing says that they were on disk. It reports such chunks by torn, and continues with
// the whole chunks after them, because their keys were marked. A bad chunk elsewhere is an error.
func walkSegment(data []byte, number uint64, last bool, f func(records []byte) error) (torn bool, err error) {
	salt, ok := decodeSegmentHead(data, number)
	if !ok {
		if last && len(data) <= segmentHeadBytes { // nothing is written after a head that is not on disk
			return len(data) > 0, nil
		}
		return false, fmt.Errorf("%w at its head", errBad)
	}
	bad, ended := -1, false
	for at := segmentHeadBytes; at < len(data); {
		n := whole(data[at:], salt)
		if n == 0 {
			if bad < 0 {
				bad = at
			}
			next := next(data[at+1:], salt)
			if next < 0 {
				break
			}
			at += 1 + next
			continue
		}
		if synced := binary.BigEndian.Uint64(data[at+chunkSynced:]); bad >= 0 && synced > uint64(bad) {
			return true, fmt.Errorf("%w at byte %d, and byte %d was on disk", errBad, bad, synced)
		}
		if err := f(data[at+chunkHeader : at+n]); err != nil {
			return bad >= 0, fmt.Errorf("at byte %d: %w", at, err)
		}
		ended = n == chunkHeader
		at += n
	}
	switch {
	case last:
	case bad >= 0:
		return true, fmt.Errorf("%w at byte %d, and a later segment was begun", errBad, bad)
	case !ended:
		return false, fmt.Errorf("%w: it has no end, and a later segment was begun", errBad)
	}
	return bad >= 0, nil
}

// endedSegment returns the segment that a crash has left last as an ended one, with only its whole chunks.
func endedSegment(data []byte, number uint64) (ended []byte, err error) {
	if _, err := walkSegment(data, number, false, func([]byte) error { return nil }); err == nil {
		return data, nil
	}
	salt, ok := decodeSegmentHead(data, number)
	if !ok {
		salt = 1
	}
	ended = appendSegmentHead(nil, number, salt)
	add := func(records []byte) error {
		at := len(ended)
		ended = append(append(ended, make([]byte, chunkHeader)...), records...)
		seal(ended[at:], salt, int64(at))
		return nil
	}
	if _, err := walkSegment(data, number, true, add); err != nil {
		return nil, err
	}
	return ended, add(nil)
}

// next returns where the next whole chunk begins, or -1.
func next(b []byte, salt uint32) int {
	mark := binary.BigEndian.AppendUint32(nil, salt)
	for at := 0; at+chunkHeader <= len(b); at++ {
		next := bytes.Index(b[at+chunkSalt:], mark)
		if next < 0 {
			return -1
		}
		if at += next; whole(b[at:], salt) > 0 {
			return at
		}
	}
	return -1
}

// Record is one mark: the layer that took the key, with the count that it then had, in one generation of a filter.
type Record struct {
	Generation uint64
	To         bloomslice.Layer
	Hash       bloomslice.Hash
}

func appendRecord(dst []byte, generation uint64, to *bloomslice.Layer, h *bloomslice.Hash) []byte {
	dst = binary.BigEndian.AppendUint64(dst, generation)
	dst = append(binary.BigEndian.AppendUint16(dst, to.ID.Index), byte(len(to.ID.Owner)))
	dst = append(dst, to.ID.Owner...)
	dst = binary.AppendUvarint(dst, to.Shape.Bytes)
	dst = binary.AppendUvarint(dst, uint64(to.Shape.K))
	dst = binary.AppendUvarint(dst, to.Shape.Capacity)
	dst = binary.AppendUvarint(dst, to.Count)
	for _, v := range h {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

// DecodeRecord decodes the record that b begins with, and returns what follows it.
func DecodeRecord(b []byte) (r Record, rest []byte, err error) {
	bad := fmt.Errorf("%w: not a mark", errBad)
	if len(b) < 11 || len(b) < 11+int(b[10]) {
		return r, nil, bad
	}
	r.Generation, r.To.ID.Index = binary.BigEndian.Uint64(b), binary.BigEndian.Uint16(b[8:])
	owner := b[11 : 11+int(b[10])]
	r.To.ID.Owner, b = string(owner), b[11+len(owner):]
	var k uint64
	for _, v := range []*uint64{&r.To.Shape.Bytes, &k, &r.To.Shape.Capacity, &r.To.Count} {
		n := 0
		if *v, n = binary.Uvarint(b); n <= 0 {
			return r, nil, bad
		}
		b = b[n:]
	}
	r.To.Shape.K = uint32(k)
	if uint64(r.To.Shape.K) != k || r.To.Shape.Validate() != nil || len(b) < 8*len(r.Hash) {
		return r, nil, bad
	}
	for i := range r.Hash {
		r.Hash[i], b = binary.BigEndian.Uint64(b), b[8:]
	}
	return r, b, nil
}

// readSegment reads a whole segment.
func readSegment(fs vfs.FS, path string) (data []byte, err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data = make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}
