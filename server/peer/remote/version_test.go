package remote

import (
	"context"
	"errors"
	"net"
	"testing"

	"bigset"
	"bigset/server/peer"
	"bigset/server/wire"
)

// TestFramesOfAVersion: a request is encoded in the version that its connection has agreed on, also where the delta's frame is shared, and the side
// that knows less decides.
func TestFramesOfAVersion(t *testing.T) {
	t.Parallel()
	self := peer.Member{Node: "a", Incarnation: "a1", State: peer.Normal}
	for _, c := range []struct{ asks, answers, want byte }{{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {2, 2, peer.DeltasVersion}, {3, 3, peer.TriesVersion}, {9, 9, peer.FrameVersionMost}} {
		var got []byte
		s := wire.NewServer(wire.ServerOptions{Options: wire.Options{VersionMost: c.answers},
			Handler: func(_ context.Context, r *wire.Request, _ func([]byte) error) ([]byte, error) {
				got = append(got, r.Body[0], r.From.Version)
				_, from, err := peer.DecodeOwned(r.Body)
				if err != nil {
					return nil, err
				}
				return peer.AppendVersion(nil, r.Body[0], peer.Member{Node: "b", Incarnation: from.Incarnation, State: peer.Normal}, peer.Done{})
			}})
		here, there := net.Pipe()
		go func() { _ = s.ServeConn(t.Context(), there) }()
		caller, err := wire.NewClient(t.Context(), here, wire.ClientOptions{Options: wire.Options{VersionMost: c.asks}, Role: wire.RoleNode, Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Options{Member: peer.Member{Node: "b", Incarnation: "a1", State: peer.Normal}, Caller: caller, Self: func() peer.Member { return self }})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Knows(t.Context(), []byte("s"), []byte("r"), 0); !errors.Is(err, peer.ErrAnswer) { // the answer is a Done: the other way has been read too
			t.Errorf("versions %d and %d: %v", c.asks, c.answers, err)
		}
		agreed := min(c.asks, c.answers)
		if _, err := caller.Do(t.Context(), wire.Call{Verb: VerbKnows, Encode: func(version byte) ([]byte, error) {
			if version != agreed {
				t.Errorf("versions %d and %d: encoded for %d", c.asks, c.answers, version)
			}
			return nil, wire.ErrNotSent
		}}); !errors.Is(err, wire.ErrNotSent) || len(got) != 2 {
			t.Errorf("a call that can't be encoded: %v, %v", err, got)
		}
		if len(got) != 2 || got[0] != c.want || got[1] != agreed || caller.Remote().Version != agreed {
			t.Errorf("versions %d and %d: frame and version are %v, expected %d and %d", c.asks, c.answers, got, c.want, agreed)
		}
		_ = caller.Close()
		s.Cut(func(*wire.Remote) bool { return true })
	}
}

// TestFramesKeepVersions: a delta that goes to replicas of several versions has a frame of each.
func TestFramesKeepVersions(t *testing.T) {
	t.Parallel()
	items := make([]bigset.Item, framesItemsMin)
	d := &bigset.Delta{Items: items}
	var f Frames
	a := f.entry(deltaID{&d.Items[0], len(items), d.Actor, d.First, peer.Member{}, 1})
	if b := f.entry(deltaID{&d.Items[0], len(items), d.Actor, d.First, peer.Member{}, 2}); a == b {
		t.Error("frames of two versions are one")
	}
}
