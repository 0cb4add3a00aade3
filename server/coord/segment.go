package coord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"sync"

	"bigset/server/peer"
)

// The files of hints; see docs/format.md. These values are on disk.
const (
	segmentMark    = "bshint\x00"         // the start of every file
	segmentHead    = segmentMark + "\x01" // with the version
	recordHead     = 8                    // length and checksum
	recordBytesMax = peer.FrameBytesMax + 1024
	recordHint     = 'h'
	recordDone     = 'd'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRecord is the error for bytes that are not a record: the file was being written there when writing stopped.
var errRecord = errors.New("coord: not a record")

// errSegmentVersion is the error for a file of hints of another version of this program: it is left as it is.
var errSegmentVersion = errors.New("coord: a file of hints of another version")

// segment is one file of hints.
type segment struct {
	seq     uint64
	entries int // number of its hints that are not done
	size    int64

	// The segment being written.
	mu     sync.Mutex
	file   File
	end    int64 // end of the written data
	synced int64 // end of the data on disk
	err    error // a write or sync failed: the state of the unsynced data is unknown, and nothing more is written
}

func segmentName(seq uint64) string { return fmt.Sprintf("%016x.hints", seq) }

func segmentSeq(name string) (seq uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, ".hints")
	if !ok || len(digits) != 16 {
		return 0, false
	}
	_, err := fmt.Sscanf(digits, "%016x", &seq)
	return seq, err == nil && segmentName(seq) == name
}

// createSegment creates a file, and makes its existence durable.
func createSegment(f Folder, seq uint64) (*segment, error) {
	file, err := f.Create(segmentName(seq))
	if err != nil {
		return nil, err
	}
	s := &segment{seq: seq, file: file}
	_, _ = s.append([]byte(segmentHead)) // both record errors in s.err
	_ = s.sync(s.end)
	if err := errors.Join(s.err, f.Sync()); err != nil {
		err = errors.Join(err, file.Close())
		_ = f.Remove(segmentName(seq)) // on a full disk each write would leave another one
		return nil, err
	}
	return s, nil
}

// append writes at the end, and returns the offset. After an error nothing more can be appended: a record after a torn one would not be
// found.
func (s *segment) append(b []byte) (at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if _, s.err = s.file.Write(b); s.err != nil {
		return 0, s.err
	}
	at = s.end
	s.end += int64(len(b))
	s.size = s.end
	return at, nil
}

// sync returns when everything up to end is on disk. Concurrent callers share a sync.
func (s *segment) sync(end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced >= end {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	upTo := s.end
	if s.err = s.file.Sync(); s.err == nil {
		s.synced = upTo
	}
	return s.err
}

// close syncs and closes the file, which is no longer written.
func (s *segment) close() error {
	err := s.sync(s.end)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return err
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	if s.err == nil {
		s.err = ErrClosed
	}
	return err
}

// appendRecord appends a record: length and checksum of the rest, kind, body.
func appendRecord(dst []byte, kind byte, body ...[]byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recordHead)...)
	dst = append(dst, kind)
	for _, b := range body {
		dst = append(dst, b...)
	}
	payload := dst[at+recordHead:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(payload, castagnoli))
	return dst
}

// readRecord reads a record. The error is io.EOF at the end, and errRecord if there is no record.
func readRecord(r io.Reader) (payload []byte, err error) {
	var head [recordHead]byte
	if n, err := io.ReadFull(r, head[:]); err == io.EOF && n == 0 {
		return nil, io.EOF
	} else if err == io.ErrUnexpectedEOF {
		return nil, errRecord
	} else if err != nil {
		return nil, err
	}
	size, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if size == 0 || size > recordBytesMax {
		return nil, errRecord
	}
	payload, err = io.ReadAll(io.LimitReader(r, int64(size))) // memory grows with the data present, whatever size says
	if err != nil {
		return nil, err
	}
	if len(payload) < int(size) || crc32.Checksum(payload, castagnoli) != sum {
		return nil, errRecord
	}
	return payload, nil
}

// scan reads the records of a file in order, until the bytes are no record. It returns how far it got, and errRecord if such bytes follow.
func scan(f Folder, name string, each func(at int64, payload []byte)) (end int64, err error) {
	file, err := f.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, math.MaxInt64), 64<<10)
	head := make([]byte, len(segmentHead))
	if n, err := io.ReadFull(r, head); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, err
	} else if n == len(head) && string(head[:len(segmentMark)]) == segmentMark && string(head) > segmentHead {
		return 0, fmt.Errorf("%w: %d", errSegmentVersion, head[len(segmentMark)])
	} else if string(head[:n]) != segmentHead {
		return 0, errRecord
	}
	end = int64(len(head))
	for {
		payload, err := readRecord(r)
		if err == io.EOF {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		each(end, payload)
		end += recordHead + int64(len(payload))
	}
}
