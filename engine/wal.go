package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble takes a bad chunk of its log for the end of it, unless a later chunk says that the bad one had been synced. It looks
// for one only from the next block of 32 KiB on, and it trusts the log's number in a chunk before it has checked the chunk: so
// a flipped bit may take acknowledged batches back without a word. The logs are read here before Pebble sees them. The log
// of a clean close must be whole. In one of a crash, damage is known where a later chunk tells that the log was on disk
// beyond it; behind that it can't be told from what the crash took back.

// A log is blocks of chunks like the MANIFEST's, with a longer header: checksum, length, kind, the log's number, and up to
// which offset the log was on disk when the chunk was written. A log that was closed ends in a header of another form.
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

// logNumber returns the number of a log, by its name.
func logNumber(name string) (number uint64, ok bool) {
	text, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil
}

// checkLogs returns an error that wraps ErrCorrupt if a log is damaged where it was on disk.
func checkLogs(fs vfs.FS, dir string, closed closedNote) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, ok := logNumber(name)
		if !ok {
			continue
		}
		path := fs.PathJoin(dir, name)
		w, err := walkLog(fs, path, uint32(number))
		if err != nil {
			return err
		}
		damaged := func(format string, args ...any) error {
			return &CorruptionError{Path: path, Err: fmt.Errorf("at byte %d: a bad record, and "+format+"; nothing was changed, bring the folder back from a copy", append([]any{w.bad}, args...)...)}
		}
		switch {
		case w.bad >= 0 && w.proof > w.bad:
			return damaged("byte %d was on disk", w.proof)
		case name == closed.log && !w.ended:
			return damaged("the log was closed")
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
	proof  int64  // up to where chunks behind the bad one say that the log was on disk
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

// chunk returns the size of the chunk that b begins with, 0 if it is not a whole one of this log.
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

// isTrailer reports whether the log was closed here. No flip of a bit makes a trailer of a chunk.
func (w *logWalk) isTrailer(b []byte) bool {
	return len(b) >= logTrailer && allZero(b[:6]) && b[6] == logKindTrailer &&
		binary.LittleEndian.Uint32(b[logNumberAt:]) == binary.LittleEndian.Uint32(w.number)+1
}
