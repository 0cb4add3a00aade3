package marklog

import (
	"errors"
	"fmt"

	"bigset/engine/internal/lsm"
)

// Find returns how many segments a crash has left. It must be called before anything is appended.
func (l *Log) Find() (segments int, err error) {
	numbers, err := listSegments(l.db.FS(), l.db.Dir())
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	l.segments, l.last = numbers, numbers[len(numbers)-1]
	return len(numbers), nil
}

// Replay calls chunk with the content of the segments that Find has found: the records of each whole chunk, for DecodeRecord, in
// the order in which they were appended, and the index of their segment, from 0. For damaged bytes its error is a
// *lsm.CorruptionError, which wraps bigset.ErrCorrupt. The segments stay until they are removed.
func (l *Log) Replay(chunk func(segment int, records []byte) error) error {
	for i, number := range l.segments {
		path := l.path(number)
		data, err := readSegment(l.db.FS(), path)
		if err != nil {
			return err
		}
		torn, err := walkSegment(data, number, number == l.last, func(records []byte) error { return chunk(i, records) })
		if errors.Is(err, errBad) {
			return &lsm.CorruptionError{Path: path, Err: fmt.Errorf("%w; nothing was changed, restore the folder from a copy", err)}
		}
		if err != nil {
			return fmt.Errorf("log of marks %s: %w", path, err)
		}
		if torn {
			l.db.Logger().Warn("bigset: the log of marks ends in records that were being written when the power failed", "path", path)
		}
	}
	return nil
}

// Keep leaves the segments that Find has found to the next open. Other segments may follow the last, so it gets its end: it is read
// again, which happens only if a filter is damaged.
func (l *Log) Keep() error {
	path := l.path(l.last)
	data, err := readSegment(l.db.FS(), path)
	if err == nil {
		data, err = endedSegment(data, l.last)
	}
	if err == nil {
		err = lsm.WriteFile(l.db.FS(), l.db.Dir(), segmentName(l.last), string(data))
	}
	if err != nil {
		return fmt.Errorf("log of marks %s: %w", path, err)
	}
	l.segments = nil
	return nil
}

func (l *Log) path(number uint64) string { return l.db.FS().PathJoin(l.db.Dir(), segmentName(number)) }
