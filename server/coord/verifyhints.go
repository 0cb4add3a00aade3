package coord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"bigset/server/peer"
)

// HintsReport is what VerifyHints has read.
type HintsReport struct {
	Nodes    map[string]int // hints that wait, by the node that they are for
	Problems []string       // what can't be read: its hints are lost, and anti-entropy brings what they would have brought
	Later    []string       // files of a later version of this program, which can send their hints
}

// VerifyHints reads all hints in a folder and changes nothing. It is no problem if the last record of a file is incomplete or damaged: a crash or
// a full disk leaves it so, and the hint was not acknowledged. Damage to that record later looks the same. Nothing else may use the folder.
func VerifyHints(f Folder) (rep HintsReport, err error) {
	rep.Nodes = map[string]int{}
	h := newHints(f, HintOptions{Events: func(e Event) {
		if errors.Is(e.Err, errSegmentVersion) {
			rep.Later = append(rep.Later, e.Err.Error())
		} else {
			rep.Problems = append(rep.Problems, e.Err.Error())
		}
	}})
	bad := map[uint64]error{} // by hint
	err = h.read(func(s *segment, at int64, payload []byte) {
		h.replayed(s, at, payload)
		if payload[0] != recordHint {
			return
		}
		e, frame, ok := parseHint(payload[1:])
		switch {
		case !ok:
			rep.Problems = append(rep.Problems, fmt.Sprintf("%s: %v at byte %d", segmentName(s.seq), errRecord, at))
		default:
			if _, _, err := peer.Decode(frame); err != nil {
				bad[e.id] = fmt.Errorf("%s: hint %d for %s: %w", segmentName(s.seq), e.id, e.node, err)
			} else {
				delete(bad, e.id) // it was moved, and the copy is whole
			}
		}
	})
	for id, e := range h.byID { // the others are done
		if bad[id] != nil {
			rep.Problems = append(rep.Problems, bad[id].Error())
			continue
		}
		rep.Nodes[e.node]++
	}
	slices.Sort(rep.Problems)
	return rep, err
}

// recordAfter reports whether a record begins anywhere after an offset of a file: then the bytes there are damaged, and no write ended there.
func recordAfter(f Folder, name string, at int64) (yes bool, err error) {
	file, err := f.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := io.ReadAll(io.NewSectionReader(file, at, math.MaxInt64-at))
	if err != nil {
		return false, err
	}
	for i := 1; i+recordHead < len(b); i++ {
		size, payload := binary.LittleEndian.Uint32(b[i:]), b[i+recordHead:]
		if size == 0 || uint64(size) > uint64(len(payload)) || payload[0] != recordHint && payload[0] != recordDone {
			continue
		}
		if crc32.Checksum(payload[:size], castagnoli) == binary.LittleEndian.Uint32(b[i+4:]) {
			return true, nil
		}
	}
	return false, nil
}
