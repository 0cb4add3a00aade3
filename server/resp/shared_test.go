package resp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/server/alone"
	"bigset/server/door"
)

// gated is a backend whose moments are shown when the test lets them go.
type gated struct {
	*alone.Backend
	moments chan struct{} // receives when a moment has begun
	free    chan struct{}
}

func newGated(t *testing.T) gated {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return gated{alone.New(store), make(chan struct{}), make(chan struct{})}
}

func (b gated) Moment(ctx context.Context, sets [][]byte) (door.Moment, error) {
	m, err := b.Backend.Moment(ctx, sets)
	b.moments <- struct{}{}
	<-b.free
	return m, err
}

// waits waits until a number of requests wait for the next read of a set.
func (s *Server) waits(t *testing.T, key string, n int32) {
	t.Helper()
	waiting := func() int32 {
		s.reads.mu.Lock()
		defer s.reads.mu.Unlock()
		if of := s.reads.of[nameShared("smembers", [][]byte{[]byte(key)})]; of != nil && of.next != nil {
			return of.next.users.Load()
		}
		return 0
	}
	eventually(t, fmt.Sprintf("%d requests that wait", n), func() bool { return waiting() == n })
}

// atMost sets how many reads of the same sets may be under way.
func (s *Server) atMost(reads int) {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	s.reads.most = reads
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// ask sends a request without waiting for the answer.
func (p *peer) ask(t *testing.T, args ...string) {
	t.Helper()
	if _, err := p.Write(request(args...)); err != nil {
		t.Fatal(err)
	}
}

// TestReadsAreShared: requests that come during a read share the next one. It shows what was acknowledged before the last of them came.
func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, -1} {
		b := newGated(t)
		dial, s := serve(t, b, Options{Options: door.Options{Loops: loops}})
		s.atMost(1)
		writer, first := dial(), dial()
		fill(t, writer, "k", "e%05d", 10)
		first.ask(t, "SMEMBERS", "k")
		<-b.moments
		peers := make([]*peer, 6)
		for i := range peers {
			p := dial()
			if i%2 == 1 {
				p.do(t, "HELLO", "3")
			}
			p.ask(t, "SMEMBERS", "k")
			s.waits(t, "k", int32(i+1))
			writer.do(t, "SREM", "k", fmt.Sprintf("e%05d", i))
			peers[i] = p
		}
		b.free <- struct{}{}
		if got := len(words(first.read(t))); got != 10 {
			t.Errorf("the first answer has %d elements", got)
		}
		<-b.moments
		writer.do(t, "SADD", "k", "late")
		last := dial()
		last.ask(t, "SMEMBERS", "k")
		s.waits(t, "k", 1)
		b.free <- struct{}{}
		for i, p := range peers {
			if got, want := p.read(t), `[$"e00006" $"e00007" $"e00008" $"e00009"]`; got != string("*~"[i%2])+want {
				t.Errorf("%d loops: client %d: %s", loops, i, got)
			}
		}
		<-b.moments
		b.free <- struct{}{}
		if got := last.read(t); !strings.Contains(got, "late") {
			t.Errorf("a request that came during a read shares it: %s", got)
		}
		eventually(t, "end of the reads", func() bool {
			s.reads.mu.Lock()
			defer s.reads.mu.Unlock()
			return len(s.reads.of) == 0
		})
	}
}

// TestReadsAtOnce: a few requests read at the same time; if many come, half as many reads are under way, each for several of them.
func TestReadsAtOnce(t *testing.T) {
	t.Parallel()
	r := newSharedReads()
	r.most = 4
	var name sharedName
	begun := map[*shared]int32{}
	var waiting *shared
	came := func(n int) {
		for range n {
			waiting, _ = r.join(name)
		}
	}
	check := func(when string, want ...int32) {
		t.Helper()
		var got []int32
		select {
		case <-waiting.begins:
			begun[waiting] = waiting.users.Load()
		default:
		}
		for _, n := range begun {
			got = append(got, n)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: reads of %d requests, want %d", when, got, want)
		}
	}
	ends := func(users int32) {
		for a, n := range begun {
			if n == users {
				delete(begun, a)
				r.end(name)
				return
			}
		}
		t.Fatalf("no read of %d requests", users)
	}
	for i := range 4 {
		came(1)
		check("few come", slices.Repeat([]int32{1}, i+1)...)
	}
	came(1)
	check("one more comes", 1, 1, 1, 1)
	ends(1)
	check("a read has ended", 1, 1, 1, 1)
	came(3)
	ends(1)
	check("many have come", 1, 1, 1, 3)
	came(2)
	ends(1)
	ends(1)
	check("reads of one request end", 1, 3)
	ends(1)
	check("one read of several is left", 2, 3)
	came(1)
	check("one comes while two reads are of several", 2, 3)
	ends(3)
	check("one waited", 1, 2)
	came(1)
	check("another comes", 1, 1, 2)
	for _, n := range []int32{1, 1, 2} {
		ends(n)
	}
	if len(r.of) > 0 {
		t.Error("reads are left")
	}
}

func TestSharedNames(t *testing.T) {
	t.Parallel()
	seen := map[sharedName]string{}
	for _, list := range []string{"smembers a", "smembers b", "sunion a", "sunion a b", "sunion b a", "sinter a b", "sunion ab", "sunion ab c", "sunion a bc"} {
		var keys [][]byte
		words := strings.Fields(list)
		for _, key := range words[1:] {
			keys = append(keys, []byte(key))
		}
		name := nameShared(words[0], keys)
		if other, ok := seen[name]; ok {
			t.Errorf("%q shares reads with %q", list, other)
		}
		seen[name] = list
	}
}

// narrow is a listener of connections that hold few bytes on the way.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		nc.(*net.TCPConn).SetWriteBuffer(64 << 10)
	}
	return nc, err
}

// TestSharerStalls: a client that does not take an answer holds up none of those that share it. The answer is in memory once, until the client has
// taken it or left.
func TestSharerStalls(t *testing.T) {
	t.Parallel()
	const budget = 4 << 20
	const elements = 8
	const answer = (elements - 1) * chunkBytes // the first chunk is free
	for _, leaves := range []bool{false, true} {
		b := newGated(t)
		limits := door.NewLimits(door.LimitsOptions{LongBytes: budget})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dial, s := serveOn(t, b, Options{Options: door.Options{Limits: limits, RequestBytesMax: RequestBytesLeast}}, narrow{ln})
		s.atMost(1)
		held := func(n int64) func() bool {
			return func() bool {
				if !limits.TakeLong(budget - n) {
					return false
				}
				defer limits.GiveLong(budget - n)
				if more := limits.TakeLong(1); more {
					limits.GiveLong(1)
					return false
				}
				return true
			}
		}
		writer, first, stalled := dial(), dial(), dial()
		stalled.Conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		for i := range elements {
			writer.do(t, "SADD", "k", strconv.Itoa(10+i)+strings.Repeat("x", 50_000))
		}
		first.ask(t, "SMEMBERS", "k")
		<-b.moments
		stalled.ask(t, "SMEMBERS", "k") // it reads for the others
		s.waits(t, "k", 1)
		sharers := []*peer{dial(), dial(), dial()}
		for i, p := range sharers {
			p.ask(t, "SMEMBERS", "k")
			s.waits(t, "k", int32(i+2))
		}
		b.free <- struct{}{}
		want := first.read(t)
		if n := len(words(want)); n != elements {
			t.Fatalf("%d elements", n)
		}
		<-b.moments
		b.free <- struct{}{}
		check := func(p *peer) {
			t.Helper()
			if got := p.read(t); got != want {
				t.Errorf("an answer of %d bytes differs from the first, of %d", len(got), len(want))
			}
		}
		for _, p := range sharers {
			check(p)
		}
		eventually(t, "memory of one answer", held(answer))
		go func() { // its memory would be that of the stalled client's answer
			<-b.moments
			b.free <- struct{}{}
		}()
		first.ask(t, "SINTER", "other", "k")
		if got := first.read(t); got != "*[]" {
			t.Errorf("%.100s", got)
		}
		if leaves {
			stalled.Close()
		} else {
			check(stalled)
		}
		eventually(t, "free memory", held(0))
	}
}

// TestAnswersOfTheirTime: while a client changes a set, others have answers that contain all that was added before they asked, and nothing that was
// removed before that.
func TestAnswersOfTheirTime(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{Options: door.Options{Loops: 2}})
	s.atMost(1)
	writer := dial()
	fill(t, writer, "k", "always-%d", 500)
	var added, removing, removed atomic.Int64 // elements: all that come before are
	stop := make(chan struct{})
	var writing, reading sync.WaitGroup
	writing.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			const kept = 5
			for _, args := range [][]string{{"SADD", "k", fmt.Sprint(i)}, {"SREM", "k", fmt.Sprint(i - kept)}} {
				if args[0] == "SREM" {
					removing.Store(i - kept + 1)
				}
				writer.Write(request(args...))
				if got, err := readReply(writer.in); err != nil || got != ":1" && i >= kept {
					t.Errorf("%q: %s, %v", args, got, err)
					return
				}
			}
			added.Store(i + 1)
			removed.Store(i - kept + 1)
		}
	})
	for range 6 {
		p := dial()
		reading.Go(func() {
			for range tier.Pick(8, 15, 300) {
				gone, come := removed.Load(), added.Load()
				p.Write(request("SMEMBERS", "k"))
				got, err := readReply(p.in)
				if err != nil {
					t.Error(err)
					return
				}
				going := removing.Load()
				has, always := map[int64]bool{}, 0
				for _, w := range words(got) {
					if n, err := strconv.ParseInt(w, 10, 64); err == nil {
						has[n] = true
					} else {
						always++
					}
				}
				if always != 500 {
					t.Errorf("%d elements that stay", always)
				}
				for n := going; n < come; n++ {
					if n >= 0 && !has[n] {
						t.Errorf("%d is missing: it was added before the request, and not removed before the answer", n)
					}
				}
				for n := range has {
					if n < gone {
						t.Errorf("%d was removed before the request", n)
					}
				}
			}
		})
	}
	reading.Wait()
	close(stop)
	writing.Wait()
}
