package lsm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Pebble treats any damage in its MANIFEST as its end, and then deletes the tables that only the records after the damage had
// named. So the MANIFEST is read here before Pebble sees it.
//
// Every record is synced before anything relies on it, and nothing is written after a record that is not synced. A power cut can
// therefore spoil only the last record, and only in the way of power cuts: bytes are missing at the end, or a sector of the disk
// was never written and reads as zeros. Everything else is damage. What looks like a power cut may still be a record that was once
// on disk, so a MANIFEST in that state is opened without deleting anything, see openTorn. And what the MANIFEST had when the store
// was closed cleanly is known by its length and checksum, see closedFile.

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

// closedFile records, since the last Close, how the MANIFEST began then, and which logs were closed. A MANIFEST only grows, or is
// replaced by one with a higher number, and a log that was closed is not written again under its number.
const closedFile = "CLOSED"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum is the checksum of a chunk from its kind on, masked, so that checksums within data do no harm.
func chunkSum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// checkManifest reports whether the MANIFEST ends in a record that a power cut took back, and returns its leastLog. If the MANIFEST
// is damaged, or lost, its error wraps bigset.ErrCorrupt.
func checkManifest(fs vfs.FS, dir string, closed closeRecord) (torn bool, least uint64, err error) {
	name, data, err := readManifest(fs, dir)
	if err != nil {
		return false, 0, err
	}
	if name == "" {
		written, err := isWritten(fs, dir)
		if err != nil || !written {
			return false, 0, err
		}
		return false, 0, damagedFile(dir, "no file marker.manifest names the MANIFEST")
	}
	path := fs.PathJoin(dir, name)
	if err := closed.check(path, name, data); err != nil {
		return false, 0, err
	}
	at, records, whole := walkManifest(data)
	least = leastLog(data)
	switch {
	case records == 0: // the first is on disk before a marker names the file
		err = damagedFile(path, "%d bytes without a whole record", len(data))
	case whole:
	case recordBehind(data, at):
		err = damagedFile(path, "at byte %d: a bad record with good ones after it", at)
	case !looksTorn(data, at):
		err = damagedFile(path, "at byte %d: a bad record that no power cut leaves", at)
	}
	return !whole, least, err
}

// forgetLostMarker removes a marker that a power cut has left without the MANIFEST that it names, if the one before still exists,
// or if the store was being made and was never written. Pebble syncs the folder for both at once: either may exist without the
// other, and then nothing relies on them yet.
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
	if len(markers) == 0 {
		return nil
	}
	slices.Sort(markers)
	exists := func(marker string) bool {
		_, manifest, _ := strings.Cut(strings.TrimPrefix(marker, markerPrefix), ".")
		return slices.Contains(names, manifest)
	}
	last := markers[len(markers)-1]
	switch {
	case exists(last):
		return nil
	case len(markers) > 1:
		if !exists(markers[len(markers)-2]) {
			return nil
		}
	case slices.ContainsFunc(names, saysWritten):
		return nil
	}
	if err := fs.Remove(fs.PathJoin(dir, last)); err != nil {
		return err
	}
	return SyncFolder(fs, dir)
}

// saysWritten reports whether a file of this name exists only in a store that has been written: the first write after an open first
// puts IDENTITY there, and tables and the note of a close come later.
func saysWritten(name string) bool {
	return name == identityFile || name == closedFile || strings.HasSuffix(name, ".sst") || strings.HasPrefix(name, "MANIFEST-")
}

// readManifest returns name and bytes of the MANIFEST in use; the name is empty if there is none.
func readManifest(fs vfs.FS, dir string) (name string, data []byte, err error) {
	name, err = atomicfs.ReadMarker(fs, dir, manifestMarker)
	if err != nil || name == "" {
		return "", nil, err
	}
	path := fs.PathJoin(dir, name)
	f, err := fs.Open(path)
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			err = damagedFile(path, "the MANIFEST is missing")
		}
		return "", nil, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return name, data, err
}

// walkManifest returns how many whole records the MANIFEST begins with, whether they are all of it, and where the first bad chunk
// is.
func walkManifest(data []byte) (at, records int, whole bool) {
	begun := -1 // where the current record began
	for at < len(data) {
		block := blockAt(data, at)
		if len(block) < chunkHeader && (at+len(block))%manifestBlock == 0 && allZero(block) { // no chunk fits there
			at += len(block)
			continue
		}
		n, kind := wholeChunk(block)
		starts := kind == chunkFull || kind == chunkFirst
		if n == 0 || starts != (begun < 0) {
			return at, records, false
		}
		if starts {
			begun = at
		}
		if at += n; kind == chunkFull || kind == chunkLast {
			begun = -1
			records++
		}
	}
	return at, records, begun < 0
}

// wholeChunk returns the size and the kind of the chunk that b begins with, 0 if it is damaged.
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

// recordBehind reports whether a record begins somewhere after a bad chunk, even if the length of the bad chunk is wrong.
func recordBehind(data []byte, at int) bool {
	for i := at + 1; i < len(data); i++ {
		if n, kind := wholeChunk(blockAt(data, i)); n > 0 && kind <= chunkFirst {
			return true
		}
	}
	return false
}

// looksTorn reports whether a bad chunk looks as a power cut may leave it: its end is missing, or a sector of it is zeros.
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
	return chunkSum(block[6:]) != binary.LittleEndian.Uint32(block) // or it is whole, and its length is wrong
}

// blockAt returns the rest of the block that contains the byte at that place.
func blockAt(data []byte, at int) []byte {
	return data[at:min(len(data), at-at%manifestBlock+manifestBlock)]
}

// leastLog returns the least number of a log that is needed: the keys of all logs below it are in tables. It reads the MANIFEST up
// to the first bad record. It relies on how Pebble encodes a version edit (internal/manifest/version_edit.go, v2.1.7): the name of
// the comparer comes first, then that number; both may be missing.
func leastLog(manifest []byte) (number uint64) {
	const tagOrder, tagLog = 1, 2
	records := record.NewReader(bytes.NewReader(manifest), 0)
	in := bufio.NewReaderSize(nil, 64)
	for {
		edit, err := records.Next()
		if err != nil {
			return number
		}
		in.Reset(edit)
		tag, _ := binary.ReadUvarint(in) // a tag that can't be read is 0
		if tag == tagOrder {
			n, _ := binary.ReadUvarint(in)
			_, _ = in.Discard(int(n))
			tag, _ = binary.ReadUvarint(in)
		}
		if tag == tagLog {
			number, _ = binary.ReadUvarint(in)
		}
	}
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// closeRecord is what the last Close recorded.
type closeRecord struct {
	manifest string
	length   int
	sum      uint32   // of the MANIFEST's first length bytes
	logs     []string // the logs that the store wrote after its open, and closed, and whose keys are not all in tables
}

// text returns the record as it is in closedFile: a line, and a checksum of that line.
func (n closeRecord) text() string {
	line := fmt.Sprintf("%s %d %08x", n.manifest, n.length, n.sum)
	for _, log := range n.logs {
		line += " " + log
	}
	line += "\n"
	return line + lineSum(line)
}

// lineSum returns a line with the checksum of another line.
func lineSum(line string) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum([]byte(line), castagnoli))
}

// readClosed returns the record. It is empty if there is none, or one in a form that only another program knows.
func readClosed(fs vfs.FS, dir string) (n closeRecord, err error) {
	path := fs.PathJoin(dir, closedFile)
	text, exists, err := readFile(fs, path)
	if err != nil || !exists {
		return n, err
	}
	if line, sum, _ := strings.Cut(text, "\n"); lineSum(line+"\n") != sum {
		return n, damagedFile(path, "its checksum does not fit (if you remove it, the store opens, and what the last close left is not checked)")
	}
	if _, err := fmt.Sscanf(text, "%s %d %x", &n.manifest, &n.length, &n.sum); err == nil {
		n.logs = strings.Fields(text)[3:]
		n.logs = n.logs[:len(n.logs)-1] // the last field is the checksum
	}
	if n.text() != text {
		return closeRecord{}, nil
	}
	return n, nil
}

// check compares the MANIFEST with the note.
func (n closeRecord) check(path, name string, data []byte) error {
	switch now, then := manifestNumber(name), manifestNumber(n.manifest); {
	case now > then:
		return nil
	case now < then:
		return damagedFile(path, "the store was last closed with %s, which is newer", n.manifest)
	case len(data) < n.length:
		return damagedFile(path, "%d bytes, but %d at the last close", len(data), n.length)
	case crc32.Checksum(data[:n.length], castagnoli) != n.sum:
		return damagedFile(path, "its first %d bytes are not those of the last close", n.length)
	}
	return nil
}

// writeClosed writes the record, unless it exists already. Pebble must be closed; firstLog is the first log that it wrote since its
// open.
func writeClosed(fs vfs.FS, dir string, firstLog uint64) error {
	name, data, err := readManifest(fs, dir)
	if err != nil || name == "" {
		return err
	}
	logs, err := listLogs(fs, dir)
	if err != nil {
		return err
	}
	n := closeRecord{manifest: name, length: len(data), sum: crc32.Checksum(data, castagnoli)}
	least := max(firstLog, leastLog(data))
	for _, log := range logs {
		if log.number >= least {
			n.logs = append(n.logs, log.name)
		}
	}
	if was, err := readClosed(fs, dir); err == nil && was.text() == n.text() {
		return nil
	}
	return WriteFile(fs, dir, closedFile, n.text())
}

func manifestNumber(name string) (n uint64) {
	_, _ = fmt.Sscanf(name, "MANIFEST-%d", &n)
	return n
}
