package peer_test

import (
	"errors"
	"reflect"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// deltasSamples has messages about several deltas of one set.
func deltasSamples() []sample {
	first, drop := bigset.Delta(samples()[0].m.(peer.Delta)), bigset.Delta(samples()[1].m.(peer.Delta))
	other := bigset.Delta{Set: []byte("set"), Request: []byte{}, Actor: "A1", First: 303, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("z"), Context: []clock.Dot{dot("C1", 4)}}}}
	gone := peer.Errors{}.Decode(peer.Errors{}.Append(nil, peer.ErrUnavailable))
	return []sample{
		{"deltas", peer.Deltas{first, other, drop}},
		{"deltas-one", peer.Deltas{other}},
		{"outcomes", peer.Outcomes{nil, gone, nil}},
		{"outcomes-none", peer.Outcomes{}},
	}
}

// TestDecodedDeltas: each delta has the set of the frame, and the memory of no other.
func TestDecodedDeltas(t *testing.T) {
	for _, s := range deltasSamples() {
		b := encode(t, alice, s.m)
		m, from, err := peer.Decode(b)
		if err != nil || from != alice {
			t.Fatalf("%s: from %v: %v", s.name, from, err)
		}
		clear(b)
		same(t, m, s.m)
		if got, ok := m.(peer.Deltas); ok {
			for i, want := range s.m.(peer.Deltas) {
				if string(got[i].Set) != "set" || !reflect.DeepEqual(got[i].Items, want.Items) || got[i].First != want.First || string(got[i].Request) != string(want.Request) {
					t.Errorf("%s: delta %d is %+v, want %+v", s.name, i, got[i], want)
				}
			}
		}
	}
}

// TestUnsendableDeltas: what could not be decoded is not sent.
func TestUnsendableDeltas(t *testing.T) {
	one := bigset.Delta{Set: []byte("s"), Actor: "A", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}}
	elsewhere, wide, large := one, one, one
	elsewhere.Set = []byte("t")
	wide.Items = []bigset.Item{{Kind: keyscheme.OpAdd, Wide: &clock.Clock{}}}
	large.Items = make([]bigset.Item, peer.DeltaItemsMax)
	many := make(peer.Deltas, peer.DeltasMax+1)
	for i := range many {
		many[i] = one
	}
	for _, c := range []struct {
		name string
		m    peer.Message
		want error
	}{
		{"none", peer.Deltas{}, peer.ErrFrame},
		{"of two sets", peer.Deltas{one, elsewhere}, peer.ErrFrame},
		{"too many", many, peer.ErrFrameTooLarge},
		{"too many items", peer.Deltas{one, large}, peer.ErrFrameTooLarge},
		{"a wide context", peer.Deltas{one, wide}, peer.ErrUnresolvedContexts},
		{"too many outcomes", make(peer.Outcomes, peer.DeltasMax+1), peer.ErrFrameTooLarge},
	} {
		if b, err := peer.AppendVersion([]byte("kept"), peer.DeltasVersion, alice, c.m); !errors.Is(err, c.want) || string(b) != "kept" {
			t.Errorf("%s: %d bytes, error %v, want %v", c.name, len(b), err, c.want)
		}
		if _, err := peer.Append(nil, alice, c.m); !errors.Is(err, peer.ErrFrameKind) {
			t.Errorf("%s in version %d: %v", c.name, peer.FrameVersion, err)
		}
	}
}

// TestEvery: an error of the call is that of each delta; a list of another length says nothing of any.
func TestEvery(t *testing.T) {
	lost, refused := errors.New("lost"), errors.New("refused")
	for _, c := range []struct {
		each []error
		err  error
		want []error
	}{
		{nil, nil, []error{nil, nil}},
		{[]error{nil, refused}, nil, []error{nil, refused}},
		{[]error{nil, refused}, lost, []error{lost, lost}},
		{[]error{nil}, nil, []error{peer.ErrAnswer, peer.ErrAnswer}},
	} {
		if got := peer.Every(2, c.each, c.err); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, %v: got %v, want %v", c.each, c.err, got, c.want)
		}
	}
}
