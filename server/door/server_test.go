package door

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// running is a server with a listener of its own.
type running struct {
	*Server
	t    *testing.T
	ln   net.Listener
	done chan error // what Serve returned
}

// run runs a server until the test ends, and then wants it to end well, with no connection left.
func run(t *testing.T, s *Server, err error) *running {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{s, t, ln, make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := s.Counts().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return r
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	r.t.Cleanup(func() { nc.Close() })
	return nc
}

// ask sends text, and wants it to come back.
func ask(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
	want(t, nc, text)
}

func want(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(nc, got); err != nil || string(got) != text {
		t.Fatalf("got %.80q, %v, want %.80q", got[:n], err, text)
	}
}

// wantEnd wants the connection to be closed in order, with nothing more to read.
func wantEnd(t *testing.T, nc net.Conn) {
	t.Helper()
	if rest, err := io.ReadAll(nc); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %.80q, %v", rest, err)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

var noLog = slog.New(slog.DiscardHandler)

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert = a.make("authority", true).Leaf
	a.pool.AddCert(a.cert)
	return a
}

// make returns a certificate for a name, and for 127.0.0.1.
func (a *authority) make(name string, isCA bool) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: isCA, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := a.cert, a.key
	if isCA {
		parent, by, a.key = c, key, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// named is echo, which also answers who the client is.
type named struct{ echo }

func newNamed(c *Conn) Handler {
	name := c.TLS().PeerCertificates[0].Subject.CommonName
	if name == "stranger" {
		return nil
	}
	c.Out = append(c.Out, name...)
	c.Out = append(c.Out, '\n')
	return named{}
}

// TestTLS has clients with certificates and without, and a server whose certificate changes while it runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var own atomic.Pointer[tls.Certificate]
	own.Store(a.make("before", false))
	o := Options{Log: noLog, IdleTime: time.Minute, RequestBytesMax: 1 << 20, TLS: &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.Load(), nil },
	}}
	s, err := New(newNamed, o)
	r := run(t, s, err)
	dial := func(c *tls.Certificate) *tls.Conn {
		config := &tls.Config{RootCAs: a.pool}
		if c != nil {
			config.Certificates = []tls.Certificate{*c}
		}
		config.ServerName = "127.0.0.1"
		return tls.Client(r.dial(), config)
	}
	paul := a.make("paul", false)
	first := dial(paul)
	if _, err := io.WriteString(first, "hello\n"); err != nil {
		t.Fatal(err)
	}
	want(t, first, "paul\nhello\n")
	if name := first.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "before" {
		t.Errorf("the server is %q", name)
	}
	long := strings.Repeat("x", 300_000) + "\n"
	ask(t, first, long)
	own.Store(a.make("after", false))
	second := dial(paul)
	if _, err := io.WriteString(second, "hello\n"); err != nil {
		t.Fatal(err)
	}
	want(t, second, "paul\nhello\n")
	if name := second.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "after" {
		t.Errorf("after a change the server is %q", name)
	}
	ask(t, first, "still here\n")
	for _, c := range []*tls.Certificate{nil, a.make("stranger", false), newAuthority(t).make("paul", false)} {
		nc := dial(c)
		_, _ = io.WriteString(nc, "hello\n")
		if got, _ := io.ReadAll(nc); len(got) > 0 {
			t.Errorf("%v: got %q", c, got)
		}
	}
	plain := r.dial()
	_, _ = io.WriteString(plain, "hello, without TLS\n")
	if got, _ := io.ReadAll(plain); strings.Contains(string(got), "hello") {
		t.Errorf("without TLS: got %q", got)
	}
	eventually(t, "all of them are gone", func() bool { return r.Counts().Connections == 2 })
	if c := r.Counts(); c.Handshakes != 3 || c.Accepted != 6 || c.Settled != 0 {
		t.Errorf("got %+v", c)
	}
	if err := r.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	wantEnd(t, first)
	wantEnd(t, second)
}

// TestHandshakeTime has a client that never begins its handshake, and a server that stops during it.
func TestHandshakeTime(t *testing.T) {
	t.Parallel()
	o := Options{Log: noLog, TLS: &tls.Config{}, HandshakeTime: 20 * time.Millisecond}
	s, err := New(newEcho, o)
	r := run(t, s, err)
	wantEnd(t, r.dial())
	eventually(t, "it is counted", func() bool { return r.Counts().Handshakes == 1 && r.Counts().Connections == 0 })
	o.HandshakeTime = time.Hour
	s, err = New(newEcho, o)
	r = run(t, s, err)
	nc := r.dial()
	eventually(t, "it is accepted", func() bool { return r.Counts().Connections == 1 })
	if err := r.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	wantEnd(t, nc)
}

// TestDrainTLS has requests at the handler and in the socket when the server is shut down.
func TestDrainTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	e := echo{make(chan bool)}
	s, err := New(func(*Conn) Handler { return e }, Options{Log: noLog, TLS: &tls.Config{Certificates: []tls.Certificate{*a.make("server", false)}}})
	r := run(t, s, err)
	nc := tls.Client(r.dial(), &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
	if _, err := io.WriteString(nc, "wait\n"); err != nil {
		t.Fatal(err)
	}
	<-e.wait
	if _, err := io.WriteString(nc, "on its way\nunfinished"); err != nil {
		t.Fatal(err)
	}
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(context.Background()) }()
	eventually(t, "it accepts no more", func() bool {
		late, err := net.Dial("tcp", r.ln.Addr().String())
		if err == nil {
			late.Close()
		}
		return err != nil
	})
	e.wait <- true
	want(t, nc, "wait\non its way\n")
	wantEnd(t, nc)
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestLastWords: a connection above the limits ends with the words of the protocol, which a client of TLS could not read.
func TestLastWords(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := Options{Log: noLog, Full: "full\n", Limits: NewLimits(LimitsOptions{Connections: 1})}
	s, err := New(newEcho, o)
	r := run(t, s, err)
	nc := r.dial()
	ask(t, nc, "a\n")
	for range 3 {
		late := r.dial()
		want(t, late, "full\n")
		wantEnd(t, late)
	}
	ask(t, nc, "b\n")
	if n := r.Counts().Refused; n != 3 {
		t.Errorf("%d are refused", n)
	}
	o.Limits, o.TLS = NewLimits(LimitsOptions{Connections: 1}), &tls.Config{Certificates: []tls.Certificate{*a.make("server", false)}}
	s, err = New(newEcho, o)
	r = run(t, s, err)
	r.dial()
	eventually(t, "it is accepted", func() bool { return r.Counts().Connections == 1 })
	wantEnd(t, r.dial())
}

// roomy is an echo that has words of its own for a lack of memory.
type roomy struct{ echo }

func (roomy) NoRoom(c *Conn, buf []byte) { c.Out = fmt.Appendf(c.Out, "no room for %.5s\n", buf) }

// TestNoRoom: a Handler that can say so says whether a request is too long or finds no memory.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		open          func(*Conn) Handler
		noRoom, other string
	}{
		{func(*Conn) Handler { return roomy{} }, "no room for begun\n", "too long\n"},
		{newEcho, "too long\n", "too long\n"},
	} {
		o := Options{Log: noLog, Limits: NewLimits(LimitsOptions{LongBytes: 256 << 10}), RequestBytesMax: 256 << 10}
		s, err := New(tt.open, o)
		r := run(t, s, err)
		long := "x\nbegun" + strings.Repeat("y", 200<<10)
		if !o.Limits.TakeLong(256 << 10) {
			t.Fatal("memory is taken")
		}
		nc := r.dial()
		go io.WriteString(nc, long)
		want(t, nc, "x\n"+tt.noRoom)
		wantEnd(t, nc)
		o.Limits.GiveLong(256 << 10)
		nc = r.dial()
		go io.WriteString(nc, long+strings.Repeat("y", 200<<10))
		want(t, nc, "x\n"+tt.other)
		wantEnd(t, nc)
	}
}

// TestSharedLimits has two doors; one keeps a connection for itself.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	l := NewLimits(LimitsOptions{Connections: 3, LongBytes: 256 << 10})
	o := Options{Log: noLog, Limits: l, RequestBytesMax: 256 << 10, Name: "first"}
	s, err := New(newEcho, o)
	first := run(t, s, err)
	o.Name, o.Kept = "second", 1
	s, err = New(newEcho, o)
	second := run(t, s, err)
	a, b := first.dial(), first.dial()
	ask(t, a, "a\n")
	ask(t, b, "b\n")
	wantEnd(t, first.dial())
	c := second.dial()
	ask(t, c, "c\n")
	wantEnd(t, second.dial())
	if f, s := first.Counts(), second.Counts(); f.Connections != 2 || f.Refused != 1 || s.Connections != 1 || s.Refused != 1 {
		t.Errorf("got %+v and %+v", f, s)
	}
	a.Close()
	eventually(t, "one is gone", func() bool { return first.Counts().Connections == 1 })
	d := second.dial()
	ask(t, d, "d\n")
	wantEnd(t, first.dial())

	long := strings.Repeat("x", 200_000)
	if _, err := io.WriteString(c, long); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it was read", func() bool { return second.Counts().BytesRead > 200_000 })
	if _, err := io.WriteString(b, long[:140_000]); err != nil {
		t.Fatal(err)
	}
	want(t, b, "too long\n")
	ask(t, c, "\n"[:0])
	if _, err := io.WriteString(c, "\n"); err != nil {
		t.Fatal(err)
	}
	want(t, c, long+"\n")
	o.Kept = 3
	if _, err := New(newEcho, o); err == nil || !strings.Contains(err.Error(), "second: at most 3 connections") {
		t.Errorf("a door that keeps too many: %v", err)
	}
}

// TestIdleIsCounted has one connection closed because it is idle, and one because its long request does not end.
func TestIdleIsCounted(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, -1} {
		s, err := New(newEcho, Options{Log: noLog, Loops: loops, IdleTime: 50 * time.Millisecond})
		r := run(t, s, err)
		wantEnd(t, r.dial())
		if c := r.Counts(); c.Idle != 1 || c.Slow != 0 {
			t.Errorf("got %+v", c)
		}
		for tries := 1; ; tries++ { // on a busy machine the time may be over before the request is long
			s, err = New(newEcho, Options{Log: noLog, Loops: loops, RequestTime: 50 * time.Millisecond})
			r = run(t, s, err)
			nc := r.dial()
			_, _ = io.WriteString(nc, strings.Repeat("x", 100_000))
			_, _ = io.ReadAll(nc)
			if c := r.Counts(); c.Idle == 0 && c.Slow == 1 {
				break
			} else if tries == 20 || c.Idle+c.Slow != 1 {
				t.Fatalf("got %+v", c)
			}
		}
	}
}

// TestOptions has options that can't be met.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{RequestBytesMax: -1}, {OutputBytesMax: -1}, {IdleTime: -1}, {RequestTime: -1}, {WriteTime: -1}, {HandshakeTime: -1}, {Kept: -1}, {Kept: 10_001},
		{Limits: NewLimits(LimitsOptions{Connections: -1})}, {Limits: NewLimits(LimitsOptions{LongBytes: 100})},
	} {
		o.Name = "resp"
		if _, err := New(newEcho, o); err == nil || !strings.HasPrefix(err.Error(), "resp: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// chat is a Link: it greets, and answers lines.
type chat struct {
	stopped chan struct{}
	once    sync.Once
	conns   sync.WaitGroup
	deaf    bool // its connections go on during a stop, which waits for them
}

// ServeConn implements Link.
func (c *chat) ServeConn(ctx context.Context, nc net.Conn) error {
	c.conns.Add(1)
	defer c.conns.Done()
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if !c.deaf {
		go func() {
			<-c.stopped
			fmt.Fprintln(nc, "bye")
			nc.Close()
		}()
	}
	fmt.Fprintln(nc, "welcome")
	for r := bufio.NewReader(nc); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		fmt.Fprint(nc, line)
	}
}

// Shutdown implements Link.
func (c *chat) Shutdown(context.Context) error {
	c.once.Do(func() { close(c.stopped) })
	c.conns.Wait()
	return nil
}

// TestLink has a protocol that serves its connections itself, with TLS and without, and ends them itself, or does not.
func TestLink(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{*a.make("server", false)}}
	for _, c := range []struct{ tls, deaf bool }{{false, false}, {true, false}, {false, true}} {
		l := &chat{stopped: make(chan struct{}), deaf: c.deaf}
		o := Options{Log: noLog, Limits: NewLimits(LimitsOptions{Connections: 1})}
		if c.tls {
			o.TLS = config
		}
		s, err := NewLink(l, o)
		r := run(t, s, err)
		nc := r.dial()
		if c.tls {
			nc = tls.Client(nc, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
		}
		if c.tls {
			if err := nc.(*tls.Conn).Handshake(); err != nil {
				t.Fatal(err)
			}
		}
		want(t, nc, "welcome\n")
		ask(t, nc, "hello\n")
		wantEnd(t, r.dial())
		var counts Counts
		eventually(t, "bytes counted, after the client has them", func() bool {
			counts = r.Counts()
			return counts.BytesWritten >= 14
		})
		if plain := counts.BytesRead == 6 && counts.BytesWritten == 14; counts.Connections != 1 || counts.Refused != 1 || plain == c.tls || counts.BytesRead < 6 {
			t.Errorf("got %+v", counts)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if c.deaf {
			cancel()
		}
		if err := r.Shutdown(ctx); errors.Is(err, context.Canceled) != c.deaf || err != nil && !c.deaf {
			t.Errorf("Shutdown: %v", err)
		}
		cancel()
		if c.deaf {
			_, _ = io.ReadAll(nc)
		} else {
			want(t, nc, "bye\n")
		}
	}
}

// flood is a handler that answers each byte with a MiB.
type flood struct{}

func (flood) Execute(_ context.Context, c *Conn, buf []byte) int {
	c.MayWait()
	c.Out = append(c.Out, make([]byte, len(buf)<<20)...)
	return len(buf)
}

func (flood) TooLong(*Conn) {}

// TestStopUnread: a client that does not read its answers is cut off when the time of a stop ends.
func TestStopUnread(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for what, o := range map[string]Options{"loop": {Loops: 1}, "goroutine": {Loops: -1}, "TLS": {TLS: &tls.Config{Certificates: []tls.Certificate{*a.make("server", false)}}}} {
		o.Log, o.WriteTime = noLog, time.Hour
		s, err := New(func(*Conn) Handler { return flood{} }, o)
		r := run(t, s, err)
		nc := r.dial()
		if o.TLS != nil {
			nc = tls.Client(nc, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
		}
		if _, err := io.WriteString(nc, strings.Repeat("x", 64)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it writes", func() bool { return r.Counts().BytesWritten > 0 })
		ctx, cancel := context.WithCancel(context.Background())
		down := make(chan error, 1)
		go func() { down <- r.Shutdown(ctx) }()
		eventually(t, "it stops", r.isClosed)
		cancel()
		if err := <-down; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Shutdown: %v", what, err)
		}
		eventually(t, what+": the connection ends", func() bool { return r.Counts().Connections == 0 })
	}
}
