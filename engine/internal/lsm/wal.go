package lsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble treats a bad chunk of its log as the end of the log, unless a later chunk says that the bad one had been synced. It looks
// for such a chunk only from the next block of 32 KiB on, and it trusts the log's number in a chunk before it has checked the
// chunk. So a flipped bit may silently take back acknowledged batches. Therefore the logs are read here before Pebble sees them.
// The log of a clean close must be whole. In a log of a crash, damage is recognized if a later chunk says that the log was on disk
// beyond it; after that point damage can't be distinguished from what the crash took back.

// A log consists of blocks of chunks like the MANIFEST's, with a longer header: checksum, length, kind, the log's number, and the
// offset up to which the log was on disk when the chunk was written. A log that was closed ends in a header of another form.
const (
	logBlock       = 32 << 10
	logHeader      = 19
	logTrailer     = 11
	logKindFirst   = 9 // to 12: whole, first, middle and last
	logKindLast    = 12
	logKindTrailer = 5
	logNumberAt    = 7
	logSyncedAt    = 11
)

// logFile is a log of Pebble's.
type logFile struct {
	name   string
	number uint64
}

// listLogs returns the logs in a folder, by number.
func listLogs(fs vfs.FS, dir string) (logs []logFile, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if number, ok := logNumber(name); ok {
			logs = append(logs, logFile{name, number})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int { return cmp.Compare(a.number, b.number) })
	return logs, nil
}

// lastLog returns the last log in a folder; its name is empty if there is none.
func lastLog(fs vfs.FS, dir string) (last logFile, err error) {
	logs, err := listLogs(fs, dir)
	if len(logs) > 0 {
		last = logs[len(logs)-1]
	}
	return last, err
}

// logNumber returns the number of a log, by its name.
func logNumber(name string) (number uint64, ok bool) {
	text, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil
}

// checkLogs returns an error that wraps bigset.ErrCorrupt if a log is damaged where it was on disk, or if a needed log is missing.
// Two files name logs that have existed: the note of the last close, and the identity file, which names marked, the last log at the
// first write after an open. Such a log may be missing if its number is below least, the MANIFEST's leastLog: then its keys are in
// tables.
func checkLogs(fs vfs.FS, dir string, closed closeRecord, marked string, least uint64) error {
	logs, err := listLogs(fs, dir)
	if err != nil {
		return err
	}
	walks := map[string]logWalk{}
	for _, log := range logs {
		path := fs.PathJoin(dir, log.name)
		w, err := walkLog(fs, path, uint32(log.number))
		if err != nil {
			return err
		}
		if w.bad >= 0 && w.proof > w.bad {
			return damagedFile(path, "at byte %d: a bad record, and byte %d was on disk", w.bad, w.proof)
		}
		walks[log.name] = w
	}
	if _, ok := logNumber(marked); ok && least == 0 { // a new store flushes its identity before it is written
		return damagedFile(dir, "the MANIFEST is older than the last write")
	}
	for _, name := range append(closed.logs, marked) {
		if number, ok := logNumber(name); !ok || number < least {
			continue
		}
		w, exists := walks[name]
		path := fs.PathJoin(dir, name)
		switch {
		case !exists:
			return damagedFile(path, "the log is missing, but the MANIFEST needs it")
		case w.ended || !slices.Contains(closed.logs, name):
		case w.bad >= 0:
			return damagedFile(path, "at byte %d: a bad record, and the log was closed", w.bad)
		default:
			return damagedFile(path, "the log ends after %d bytes, and it was closed after more", w.offset)
		}
	}
	return nil
}

func walkLog(fs vfs.FS, path string, number uint32) (w logWalk, err error) {
	w = logWalk{number: binary.LittleEndian.AppendUint32(nil, number), bad: -1}
	f, err := fs.Open(path)
	if err != nil {
		return w, err
	}
	defer f.Close()
	buf := make([]byte, logBlock)
	for !w.ended {
		n, err := io.ReadFull(f, buf)
		if n == 0 && err == io.EOF {
			return w, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return w, err
		}
		w.block(buf[:n])
		w.offset += int64(n)
	}
	return w, nil
}

// logWalk goes through a log block by block.
type logWalk struct {
	number []byte // the log's, as in its chunks
	offset int64  // of the block
	bad    int64  // where the first bad chunk is, -1 before there is one
	proof  int64  // up to where chunks after the bad one say that the log was on disk
	ended  bool   // the log was closed here
}

func (w *logWalk) block(b []byte) {
	i := 0
	for w.bad < 0 && i < len(b) {
		n := w.chunk(b[i:])
		switch {
		case n > 0:
			i += n
		case w.isTrailer(b[i:]):
			w.ended = true
			return
		case len(b)-i < logHeader && allZero(b[i:]):
			return
		default:
			w.bad = w.offset + int64(i)
		}
	}
	for w.bad >= 0 {
		next := bytes.Index(b[i:], w.number)
		if next < 0 {
			return
		}
		if at := i + next - logNumberAt; at >= 0 && w.chunk(b[at:]) > 0 {
			w.proof = max(w.proof, int64(binary.LittleEndian.Uint64(b[at+logSyncedAt:])))
		}
		i += next + 1
	}
}

// chunk returns the size of the chunk that b begins with, or 0 if it is not a whole one of this log.
func (w *logWalk) chunk(b []byte) int {
	if len(b) < logHeader {
		return 0
	}
	n := logHeader + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) || b[6] < logKindFirst || b[6] > logKindLast || !bytes.Equal(b[logNumberAt:logSyncedAt], w.number) ||
		binary.LittleEndian.Uint32(b) != chunkSum(b[6:n]) {
		return 0
	}
	return n
}

// isTrailer reports whether the log was closed here. No flipped bit turns a chunk into a trailer.
func (w *logWalk) isTrailer(b []byte) bool {
	return len(b) >= logTrailer && allZero(b[:6]) && b[6] == logKindTrailer &&
		binary.LittleEndian.Uint32(b[logNumberAt:]) == binary.LittleEndian.Uint32(w.number)+1
}
