package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Pebble takes any damage in its MANIFEST for the end of it, and then deletes the tables that only the records behind had
// named. So it is read here before Pebble sees it.
//
// Every record is synced before anything relies on it, and nothing is written behind one that is not. A power cut can
// therefore spoil the last record only, and only in the way of power cuts: bytes are missing at the end, or a sector of the
// disk was never written and reads as zeros. All else is damage. What looks like a power cut may still be a record that was
// there once, so a MANIFEST in that state is opened with nothing deleted, see openTorn; and what was there when the store
// was closed in order is known by its length and checksum, see closedFile.

// A MANIFEST is blocks of chunks. A chunk is a checksum, a length, a kind, and that many bytes; it does not cross blocks.
const (
	manifestBlock  = 32 << 10
	chunkHeader    = 7
	chunkFull      = 1 // a record in one chunk, or its first, middle and last
	chunkFirst     = 2
	chunkLast      = 4
	sectorBytes    = 512
	manifestMarker = "manifest"
	markerPrefix   = "marker." + manifestMarker + "." // then a number, a dot, and the MANIFEST's name
)

// closedFile says, since the last Close, how the MANIFEST began then, and which log was closed. A MANIFEST only grows, or gives
// way to one of a higher number, and a log that was closed is not written again under its number.
const closedFile = "CLOSED"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum is the checksum of a chunk from its kind on: masked, so that checksums within data do no harm.
func chunkSum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// checkManifest reports whether the MANIFEST ends in a record that a power cut took back. One that is damaged, or lost, is an
// error that wraps ErrCorrupt.
func checkManifest(fs vfs.FS, dir string, closed closedNote) (torn bool, err error) {
	name, data, err := readManifest(fs, dir)
	if err != nil {
		return false, err
	}
	if name == "" {
		if _, err := fs.Stat(fs.PathJoin(dir, identityFile)); err == nil {
			return false, &CorruptionError{Path: dir, Err: errors.New("no file names the MANIFEST, bring marker.manifest back from a copy")}
		}
		return false, nil
	}
	if err := closed.check(fs.PathJoin(dir, name), name, data); err != nil {
		return false, err
	}
	at, whole := walkManifest(data)
	if whole {
		return false, nil
	}
	damaged := func(what string) error {
		return &CorruptionError{Path: fs.PathJoin(dir, name), Err: fmt.Errorf("at byte %d: %s; nothing was changed, bring the folder back from a copy", at, what)}
	}
	if recordBehind(data, at) {
		return false, damaged("a bad record with good ones behind it")
	}
	if !looksTorn(data, at) {
		return false, damaged("a bad record that no power cut leaves")
	}
	return true, nil
}

// forgetLostMarker removes a marker that a power cut has left behind without the MANIFEST that it names, when there still is
// the one before. Pebble syncs the folder for both at once: either may be there without the other, and then nothing relies
// on them yet.
func forgetLostMarker(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	var markers []string
	for _, name := range names {
		if strings.HasPrefix(name, markerPrefix) {
			markers = append(markers, name)
		}
	}
	if len(markers) < 2 {
		return nil
	}
	slices.Sort(markers)
	exists := func(marker string) bool {
		_, manifest, _ := strings.Cut(strings.TrimPrefix(marker, markerPrefix), ".")
		return slices.Contains(names, manifest)
	}
	last := markers[len(markers)-1]
	if exists(last) || !exists(markers[len(markers)-2]) {
		return nil
	}
	if err := fs.Remove(fs.PathJoin(dir, last)); err != nil {
		return err
	}
	return syncFolder(fs, dir)
}

// readManifest returns name and bytes of the MANIFEST in use; the name is empty when there is none.
func readManifest(fs vfs.FS, dir string) (name string, data []byte, err error) {
	name, err = atomicfs.ReadMarker(fs, dir, manifestMarker)
	if err != nil || name == "" {
		return "", nil, err
	}
	path := fs.PathJoin(dir, name)
	f, err := fs.Open(path)
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			err = &CorruptionError{Path: path, Err: err}
		}
		return "", nil, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return name, data, err
}

// walkManifest returns whether all of it is whole records, and where the first chunk is that is not.
func walkManifest(data []byte) (at int, whole bool) {
	begun := -1 // where the record at hand began
	for at < len(data) {
		block := blockAt(data, at)
		if len(block) < chunkHeader && (at+len(block))%manifestBlock == 0 && allZero(block) { // no chunk fits there
			at += len(block)
			continue
		}
		n, kind := wholeChunk(block)
		starts := kind == chunkFull || kind == chunkFirst
		if n == 0 || starts != (begun < 0) {
			return at, false
		}
		if starts {
			begun = at
		}
		if at += n; kind == chunkFull || kind == chunkLast {
			begun = -1
		}
	}
	if begun >= 0 {
		return at, false
	}
	return at, true
}

// wholeChunk returns the bytes and the kind of the chunk that b begins with, 0 if it is damaged.
func wholeChunk(b []byte) (n int, kind byte) {
	if len(b) < chunkHeader {
		return 0, 0
	}
	n, kind = chunkHeader+int(binary.LittleEndian.Uint16(b[4:])), b[6]
	if n > len(b) || kind < chunkFull || kind > chunkLast || binary.LittleEndian.Uint32(b) != chunkSum(b[6:n]) {
		return 0, 0
	}
	return n, kind
}

// recordBehind reports whether a record begins somewhere behind a bad chunk, however its length may lie.
func recordBehind(data []byte, at int) bool {
	for i := at + 1; i < len(data); i++ {
		if n, kind := wholeChunk(blockAt(data, i)); n > 0 && kind <= chunkFirst {
			return true
		}
	}
	return false
}

// looksTorn reports whether a bad chunk is as a power cut may leave it: its end is missing, or a sector of it is zeros.
func looksTorn(data []byte, at int) bool {
	for i := at; i < len(data); {
		end := min(len(data), i-i%sectorBytes+sectorBytes)
		if allZero(data[i:end]) {
			return true
		}
		i = end
	}
	block := blockAt(data, at)
	if len(block) < chunkHeader {
		return true
	}
	if n := chunkHeader + int(binary.LittleEndian.Uint16(block[4:])); n <= len(block) || at+len(block) < len(data) {
		return false
	}
	return chunkSum(block[6:]) != binary.LittleEndian.Uint32(block) // or it is whole, and its length lies
}

// blockAt returns what is left of the block in which the byte at that place is.
func blockAt(data []byte, at int) []byte {
	return data[at:min(len(data), at-at%manifestBlock+manifestBlock)]
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// closedNote is what the last Close wrote down.
type closedNote struct {
	manifest string
	length   int
	sum      uint32 // of the MANIFEST's first length bytes
	log      string // the last log, which was closed too
}

// text is the note as it stands in closedFile: a line, and a checksum of that line.
func (n closedNote) text() string {
	line := fmt.Sprintf("%s %d %08x %s\n", n.manifest, n.length, n.sum, n.log)
	return line + fmt.Sprintf("%08x\n", crc32.Checksum([]byte(line), castagnoli))
}

// readClosed returns the note, an empty one when there is none. A damaged note is no evidence: it is taken for none.
func readClosed(fs vfs.FS, dir string) (n closedNote, err error) {
	text, err := readFile(fs, fs.PathJoin(dir, closedFile))
	if err != nil {
		return n, err
	}
	if _, err := fmt.Sscanf(text, "%s %d %x %s\n", &n.manifest, &n.length, &n.sum, &n.log); err != nil || n.text() != text {
		return closedNote{}, nil
	}
	return n, nil
}

// check compares the MANIFEST with the note.
func (n closedNote) check(path, name string, data []byte) error {
	damaged := func(format string, args ...any) error {
		return &CorruptionError{Path: path, Err: fmt.Errorf(format+"; nothing was changed, bring the folder back from a copy", args...)}
	}
	switch now, then := manifestNumber(name), manifestNumber(n.manifest); {
	case now > then:
		return nil
	case now < then:
		return damaged("the store was last closed with %s, which is newer", n.manifest)
	case len(data) < n.length:
		return damaged("%d bytes, at the last close they were %d", len(data), n.length)
	case crc32.Checksum(data[:n.length], castagnoli) != n.sum:
		return damaged("its first %d bytes are not those of the last close", n.length)
	}
	return nil
}

// noteClosed writes the note, unless it is there already. Pebble is closed.
func noteClosed(fs vfs.FS, dir string) error {
	name, data, err := readManifest(fs, dir)
	if err != nil || name == "" {
		return err
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	n := closedNote{manifest: name, length: len(data), sum: crc32.Checksum(data, castagnoli)}
	last := uint64(0)
	for _, name := range names {
		if number, ok := logNumber(name); ok && number >= last {
			last, n.log = number, name
		}
	}
	if was, err := readClosed(fs, dir); err == nil && was == n {
		return nil
	}
	return writeFile(fs, dir, closedFile, n.text())
}

func manifestNumber(name string) (n uint64) {
	_, _ = fmt.Sscanf(name, "MANIFEST-%d", &n)
	return n
}
