package peer_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// triesSamples has requests with the numbers of their tries, or without an id, which have none.
func triesSamples() []sample {
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}
	return []sample{
		{"write", peer.Write{Set: []byte("set"), Ops: ops, Options: bigset.WriteOptions{Request: []byte("req-1"), Try: 0x0102030405060708}}},
		{"write-untried", peer.Write{Set: []byte("set"), Ops: ops, Options: bigset.WriteOptions{Request: []byte("req-1")}}},
		{"write-unnamed", peer.Write{Set: []byte("set"), Ops: ops, Options: bigset.WriteOptions{Request: []byte{}}}},
		{"knows", peer.Knows{Set: []byte("set"), Request: []byte("req-1"), Try: 1<<64 - 1}},
		{"knows-nothing", peer.Knows{Set: []byte("set"), Request: []byte{}}},
	}
}

// triesOf returns the number of a message's try.
func triesOf(m peer.Message) uint64 {
	switch m := m.(type) {
	case peer.Write:
		return m.Options.Try
	case peer.Knows:
		return m.Try
	}
	return 0
}

// TestTriesInFrames: the number of a try crosses the wire from version 4 on. In an older version it is left out, and the rest of the message is the same.
func TestTriesInFrames(t *testing.T) {
	t.Parallel()
	for _, s := range triesSamples() {
		for version := byte(peer.FrameVersion); version <= peer.FrameVersionMost; version++ {
			b, err := peer.AppendVersion(nil, version, alice, s.m)
			if err != nil {
				t.Fatalf("%s in version %d: %v", s.name, version, err)
			}
			got, _, err := peer.Decode(b)
			if err != nil {
				t.Fatalf("%s in version %d: %v", s.name, version, err)
			}
			want := s.m
			if version < peer.TriesVersion {
				switch m := want.(type) {
				case peer.Write:
					m.Options.Try = 0
					want = m
				case peer.Knows:
					m.Try = 0
					want = m
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s in version %d: %+v, want %+v", s.name, version, got, want)
			}
		}
	}
	taken := &peer.OvertakenError{Held: 1<<64 - 1}
	err := peer.Errors{}.Decode(peer.Errors{}.Append(nil, fmt.Errorf("%w: s", taken)))
	var got *peer.OvertakenError
	if !errors.Is(err, peer.ErrOvertaken) || !errors.Is(err, peer.ErrUnavailable) || !errors.As(err, &got) || *got != *taken {
		t.Errorf("%v", err)
	}
}
