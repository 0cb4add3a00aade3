package remote_test

import (
	"errors"
	"testing"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
)

// TestTriesCross: a node refuses a try that another one has overtaken, also if it answers twice, and the error says so at the other side. An older version of
// the protocol carries no numbers of tries: they are not refused, and a question does not refuse others.
func TestTriesCross(t *testing.T) {
	t.Parallel()
	for version := byte(1); version <= 3; version++ {
		n := newNode(t, remote.Open{})
		n.loop.version = version
		write := func(id string, try uint64, ahead bool) (bigset.Result, error) {
			o := bigset.WriteOptions{Request: []byte(id), Durability: bigset.Sync, Try: try}
			if ahead {
				o.Applied = func(bigset.Result, *bigset.Group) {}
			}
			r, _, err := n.far.Write(t.Context(), set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, o)
			return r, err
		}
		for _, ahead := range []bool{false, true} {
			id := map[bool]string{false: "once", true: "twice"}[ahead]
			if known, _, err := n.far.Knows(t.Context(), set, []byte(id), 2); known || err != nil {
				t.Fatalf("known %v, %v", known, err)
			}
			_, err := write(id, 1, ahead)
			if overtaken := errors.Is(err, peer.ErrOvertaken) && errors.Is(err, peer.ErrUnavailable); overtaken != (version == 3) || !overtaken && err != nil {
				t.Errorf("version %d, %s: %v", version, id, err)
			}
			done, err := write(id, 2, ahead)
			if err != nil || len(done.Dots) != 1 {
				t.Errorf("version %d, %s: the try that has asked: %+v, %v", version, id, done, err)
			}
			if r, err := write(id, 1, ahead); err != nil || r.Dots[0] != done.Dots[0] {
				t.Errorf("version %d, %s: again: %+v, %v", version, id, r, err)
			}
		}
	}
}
