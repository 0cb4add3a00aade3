package netfault

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bed is a net with one link, from a to b, and b's listener.
type bed struct {
	t    *testing.T
	n    *Net
	link *Link
	b    net.Listener
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := New(1)
	l, err := n.Link("a", "b", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); n.Close() })
	return &bed{t, n, l, b}
}

// dial returns both sides of a connection through the link.
func (b *bed) dial() (dialer, dialed *net.TCPConn) {
	b.t.Helper()
	c, err := net.Dial("tcp", b.link.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	d, err := b.b.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range []net.Conn{c, d} {
		b.t.Cleanup(func() { s.Close() })
		if err := s.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			b.t.Fatal(err)
		}
	}
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// passes sends some bytes and reads them at the other side.
func passes(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v, want %q", got, err, text)
	}
}

// silent requires that nothing arrives for a while.
func silent(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	if n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("got %d bytes, %v, want silence", n, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
}

const moment = 30 * time.Millisecond

// TestExact sends megabytes in both directions of several connections at once, with delay and jitter and half-closed ends: every byte
// arrives, in order, once.
func TestExact(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.link.Delay(Back, time.Millisecond, 2*time.Millisecond)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		c, d := b.dial()
		for j, pair := range [][2]*net.TCPConn{{c, d}, {d, c}} {
			want := make(chan [32]byte, 1)
			wg.Go(func() {
				h, r := sha256.New(), rand.New(rand.NewPCG(i, uint64(j)))
				for sent := 0; sent < 3<<20; {
					p := make([]byte, 1+r.IntN(100_000))
					for k := range p {
						p[k] = byte(r.Uint32())
					}
					h.Write(p)
					if _, err := pair[0].Write(p); err != nil {
						t.Error(err)
						break
					}
					sent += len(p)
				}
				if err := pair[0].CloseWrite(); err != nil {
					t.Error(err)
				}
				want <- [32]byte(h.Sum(nil))
			})
			wg.Go(func() {
				h := sha256.New()
				if _, err := io.Copy(h, pair[1]); err != nil {
					t.Error(err)
				}
				if got := [32]byte(h.Sum(nil)); got != <-want {
					t.Error("other bytes arrived than were sent")
				}
			})
		}
	}
	wg.Wait()
}

// TestHold: a held direction passes nothing, the other one goes on, and afterwards everything arrives.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, dir := range []Direction{Forth, Back} {
		b := newBed(t)
		c, d := b.dial()
		from, to := c, d
		if dir == Back {
			from, to = d, c
		}
		passes(t, from, to, "before")
		b.link.Hold(dir, true)
		if _, err := io.WriteString(from, "held"); err != nil {
			t.Fatal(err)
		}
		silent(t, to, moment)
		passes(t, to, from, "the other way")
		b.link.Hold(dir, false)
		passes(t, from, to, "")
		got := make([]byte, 4)
		if _, err := io.ReadFull(to, got); err != nil || string(got) != "held" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// TestHoldEnds: neither an end nor a reset passes a held direction.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		b := newBed(t)
		c, d := b.dial()
		passes(t, c, d, "x")
		b.link.Hold(Forth, true)
		if reset {
			_ = c.SetLinger(0)
		}
		c.Close()
		silent(t, d, moment)
		b.link.Hold(Forth, false)
		if _, err := d.Read(make([]byte, 1)); reset == errors.Is(err, io.EOF) {
			t.Errorf("reset %v: got %v", reset, err)
		}
	}
}

// TestFullBuffers: a sender into a held direction is stopped when buffers are full, and nothing is lost.
func TestFullBuffers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, d := b.dial()
	b.link.Pause(true)
	const total = 64 << 20
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, total))
		done <- errors.Join(err, c.CloseWrite())
	}()
	select {
	case err := <-done:
		t.Fatalf("%d bytes were taken: %v", total, err)
	case <-time.After(2 * moment):
	}
	b.link.Pause(false)
	if n, err := io.Copy(io.Discard, d); n != total || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSwallow: what is swallowed never arrives, the other direction passes, and the connection is reset when the fault ends; a
// connection that lost nothing lives on.
func TestSwallow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, d := b.dial()
	quiet, quietD := b.dial()
	b.link.Swallow(Forth, true)
	if _, err := c.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	silent(t, d, moment)
	passes(t, d, c, "the other way")
	b.link.Swallow(Forth, false)
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a loss: got %v", err)
	}
	passes(t, quiet, quietD, "lives")
}

// TestCut closes both sides, by an end or by an error.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, how := range []How{FIN, RST} {
		b := newBed(t)
		c, d := b.dial()
		c2, d2 := b.dial()
		passes(t, c, d, "x")
		passes(t, d2, c2, "x")
		if n := b.link.Cut(how); n != 2 {
			t.Errorf("%d connections were cut", n)
		}
		for _, s := range []net.Conn{c, d, c2, d2} {
			_, err := s.Read(make([]byte, 1))
			if how == FIN && err != io.EOF || how == RST && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v: got %v", how, err)
			}
			s.Close()
		}
		c, d = b.dial()
		passes(t, c, d, "a new one passes")
	}
}

// TestRefuse: dials fail while the port is closed, and existing connections stay; afterwards the address is the same.
func TestRefuse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, d := b.dial()
	if err := b.link.Refuse(true); err != nil {
		t.Fatal(err)
	}
	if e, err := net.Dial("tcp", b.link.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, %v", e, err)
	}
	passes(t, c, d, "stays")
	if err := b.link.Refuse(false); err != nil {
		t.Fatal(err)
	}
	c, d = b.dial()
	passes(t, c, d, "again")
}

// TestDown: a connection to a side that does not listen is reset, and Target leads elsewhere.
func TestDown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	addr := b.b.Addr().String()
	nobody, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	b.link.Target(nobody)
	c, err := net.Dial("tcp", b.link.Addr())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
	b.link.Target(addr)
	c2, d := b.dial()
	passes(t, c2, d, "x")
}

// TestPace: a delay and a limit apply, in their direction only.
func TestPace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, d := b.dial()
	b.link.Delay(Forth, 2*moment, 0)
	for tries := 1; ; tries++ { // this machine may be too busy to say
		began := time.Now()
		passes(t, d, c, "fast")
		if took := time.Since(began); took < 2*moment {
			break
		} else if tries == 20 {
			t.Fatalf("the other direction took %v", took)
		}
	}
	began := time.Now()
	passes(t, c, d, "slow")
	if took := time.Since(began); took < 2*moment {
		t.Errorf("a delay of %v took %v", 2*moment, took)
	}
	b.link.Delay(Forth, 0, 0)
	b.link.Limit(Back, 1<<20)
	began = time.Now()
	passes(t, d, c, strings.Repeat("x", 100<<10))
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("100 KiB at 1 MiB a second took %v", took)
	}
}

// TestFragile: connections are reset after bytes that the seed determines.
func TestFragile(t *testing.T) {
	t.Parallel()
	lives := func() (all []int64) {
		b := newBed(t)
		b.link.Fragile(50_000)
		for range 5 {
			c, d := b.dial()
			go func() { _, _ = c.Write(make([]byte, 10<<20)) }()
			n, err := io.Copy(io.Discard, d)
			if err == nil {
				t.Fatal("it lives")
			}
			all = append(all, n)
			c.Close()
		}
		return all
	}
	var sum int64
	for _, n := range lives() {
		sum += n
	}
	if sum == 0 || sum > 5*500_000 {
		t.Errorf("5 connections passed %d bytes, with a mean of 50000 each", sum)
	}
}

// TestNet: faults between two names affect the links of both, and only those.
func TestNet(t *testing.T) {
	t.Parallel()
	n := New(1)
	defer n.Close()
	names := []string{"a", "b", "c"}
	for _, from := range names {
		for _, to := range names {
			if from != to {
				if _, err := n.Link(from, to, "127.0.0.1:1"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := n.Link("a", "b", ""); err == nil {
		t.Error("two links of one pair")
	}
	held := func() (all string) {
		for _, from := range names {
			for _, to := range names {
				if l := n.Get(from, to); l != nil {
					for dir, mark := range map[Direction]string{Forth: ">", Back: "<"} {
						if r, _ := l.rule(dir); r.held {
							all += from + mark + to + " "
						}
					}
				}
			}
		}
		return all
	}
	n.OneWay("a", "b", true)
	if got := held(); got != "a>b b<a " {
		t.Errorf("one way: %s", got)
	}
	n.OneWay("a", "b", false)
	n.Part("a", "c", true)
	if got := held(); len(strings.Fields(got)) != 4 || strings.Contains(got, "b") {
		t.Errorf("part: %s", got)
	}
	n.Isolate("b", true)
	if got := held(); len(strings.Fields(got)) != 12 {
		t.Errorf("isolate: %s", got)
	}
	if err := n.Heal(); err != nil || held() != "" {
		t.Errorf("heal: %s, %v", held(), err)
	}
}

// TestCloseEndsAll leaves no goroutine, whatever connections do.
func TestCloseEndsAll(t *testing.T) {
	b := newBed(t)
	before := runtime.NumGoroutine()
	held, _ := b.dial()
	b.link.Pause(true)
	if _, err := held.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	waits, err := net.Dial("tcp", b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	b.n.Close()
	if _, err := held.Read(make([]byte, 1)); err == nil {
		t.Error("a connection lives")
	}
	if _, err := b.n.Link("x", "y", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := b.link.Refuse(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) { // they are about to end
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
