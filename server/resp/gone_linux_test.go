package resp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/door"
)

// unending is a backend whose sets and lists have no end, unless ends is closed. It says when it begins to be read, and when it was read to its end.
type unending struct {
	door.Backend
	begun chan struct{} // gets a value at each part, if there is room
	ends  chan struct{}
	whole atomic.Int64
	away  bool // other nodes do the work
}

func (b *unending) Remote() bool { return b.away }

func (b *unending) part() (more bool) {
	select {
	case b.begun <- struct{}{}:
	default:
	}
	select {
	case <-b.ends:
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}

func (b *unending) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	if slices.Contains([]string{"to", "none"}, string(r.Set)) {
		return b.Backend.Read(ctx, r)
	}
	return func(yield func(door.Part, error) bool) {
		n := 0
		fmt.Sscanf(string(r.From), "e%d", &n)
		for given := 0; b.part(); given++ {
			if given == r.Limit && r.Limit > 0 {
				break
			}
			if !yield(door.Part{Elements: []door.Element{{Name: fmt.Appendf(nil, "e%020d", n+given)}}}, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
		b.whole.Add(1)
		yield(door.Part{Done: true}, nil)
	}
}

func (b *unending) Count(ctx context.Context, r door.Read) (door.Count, error) {
	for b.part() && ctx.Err() == nil {
		if !b.away {
			r.Part()
		}
	}
	return door.Count{}, ctx.Err()
}

func (b *unending) Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for n := 0; b.part(); n++ {
			for range namesPart {
				if !yield(bigset.SetInfo{Name: []byte("none"), Live: 1}, ctx.Err()) || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// serveUnending serves an unending backend. Its commands look for their clients at each part.
func serveUnending(t *testing.T) (b *unending, dial func() *peer, s *Server) {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b = &unending{Backend: alone.New(store), begun: make(chan struct{}, 1), ends: make(chan struct{})}
	dial, s = serve(t, b, Options{})
	s.lookPause = 0
	return b, dial, s
}

// goAway sends a command, and closes the connection while the command reads.
func (b *unending) goAway(t *testing.T, p *peer, args ...string) {
	t.Helper()
	if _, err := p.Write(request(args...)); err != nil {
		t.Fatal(err)
	}
	<-b.begun
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// connectionsEnd waits until a server has no connections.
func connectionsEnd(t *testing.T, s *Server, what string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); s.Counts().Connections > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what, "goes on without its client")
		}
	}
}

// TestReadsEndWithClient: a command that only reads ends when its client has gone.
func TestReadsEndWithClient(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"SINTERCARD 2 a b", "SCARD a", "SCARD away", "BS.COUNT a FROM e", "SRANDMEMBER a 5", "KEYS x", "EXISTS" + strings.Repeat(" a", 100_000)} {
		t.Run(strings.Fields(cmd)[0], func(t *testing.T) {
			t.Parallel()
			b, dial, s := serveUnending(t)
			defer close(b.ends)
			b.away = strings.HasSuffix(cmd, "away")
			b.goAway(t, dial(), strings.Fields(cmd)...)
			connectionsEnd(t, s, cmd)
			if n := s.Metrics().Errors; n > 0 {
				t.Errorf("%s counts as %d errors", cmd, n)
			}
		})
	}
}

// TestOthersEndWithoutClient: a change goes on when its client has gone, and so does a read that others may share.
func TestOthersEndWithoutClient(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"SUNIONSTORE to a", "SMEMBERS a"} {
		t.Run(strings.Fields(cmd)[0], func(t *testing.T) {
			t.Parallel()
			b, dial, s := serveUnending(t)
			b.goAway(t, dial(), strings.Fields(cmd)...)
			for range 50 { // the system has told the node by then
				select {
				case <-b.begun:
				case <-time.After(30 * time.Second):
					t.Fatal("it ended with its client")
				}
			}
			close(b.ends)
			connectionsEnd(t, s, cmd)
			if b.whole.Load() == 0 {
				t.Error("it was not read to its end")
			}
			if is := dial().do(t, "SISMEMBER", "to", fmt.Sprintf("e%020d", 0)); strings.HasPrefix(cmd, "SUNION") && is != ":1" {
				t.Error("nothing was stored")
			}
		})
	}
}
