package client_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/client"
	"bigset/clock"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/certs"
	"bigset/server/wire"
)

// newStore opens a store in memory.
func newStore(t testing.TB) *engine.Store {
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve serves requests on a port of this machine, and returns its address.
func serve(t testing.TB, o wire.ServerOptions, conf *tls.Config) string {
	o.Errors, o.Log = api.Errors{}, slog.New(slog.DiscardHandler)
	srv := wire.NewServer(o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if conf != nil {
		ln = tls.NewListener(ln, conf)
	}
	go func() { _ = srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return addr
}

func serveStore(t testing.TB, s *engine.Store) string {
	return serve(t, wire.ServerOptions{Handler: api.Handler(alone.New(s)), Name: "n"}, nil)
}

func open(t testing.TB, o client.Options) *client.Client {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute) // on a busy machine a large clock takes more than the default
	c, err := client.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// nobody is an address at which nobody listens.
const nobody = "127.0.0.1:1"

func TestSets(t *testing.T) {
	t.Parallel()
	c := open(t, client.Options{Addrs: []string{nobody, serveStore(t, newStore(t))}})
	ctx := t.Context()
	if _, err := c.Set("friends").Add(ctx, "paul", "ringo", "george"); err != nil {
		t.Fatal(err)
	}
	if w, err := c.Set("friends").Remove(ctx, "ringo", "yoko"); err != nil || w.Removed != 1 {
		t.Errorf("remove: %+v, %v", w, err)
	}
	for e, want := range map[string]bool{"paul": true, "ringo": false} {
		if has, err := c.Set("friends").Contains(ctx, e); err != nil || has != want {
			t.Errorf("%s: %v, %v", e, has, err)
		}
	}
	if n, err := c.Count(ctx, client.Read{Set: []byte("friends"), Prefix: []byte("g")}); err != nil || n.Elements != 1 || len(n.Context) == 0 {
		t.Errorf("count: %+v, %v", n, err)
	}
	if _, err := c.Count(ctx, client.Read{Set: []byte("friends"), Limit: 1 << 40}); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("a limit that does not fit: %v", err)
	}
	seen, err := c.Context(ctx, client.Whole{Set: []byte("friends")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set("friends").Add(ctx, "john"); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Drop(ctx, client.Drop{Set: []byte("friends"), Context: seen}); err != nil || left != 1 {
		t.Errorf("a drop of what was seen: %d left, %v", left, err)
	}
	if st, err := c.Stats(ctx, client.Whole{Set: []byte("friends"), R: 1}); err != nil || st.Live != 1 || st.Seen != 5 || st.Dead != 4 || st.Actors != 1 || st.Gaps != 0 || st.ClockBytes == 0 || st.TombstoneBytes == 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
	if _, err := c.Stats(ctx, client.Whole{Set: []byte("enemies")}); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("stats of no set: %v", err)
	}
	if _, err := c.Stats(ctx, client.Whole{Set: []byte("friends"), R: 2}); !errors.Is(err, client.ErrQuorum) {
		t.Errorf("stats by more replicas than there are: %v", err)
	}
	var names []string
	for n, err := range c.Sets(ctx, client.SetsOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, string(n.Name))
	}
	if fmt.Sprint(names) != "[friends]" {
		t.Errorf("names %v", names)
	}
	if n, err := c.CountSets(ctx); err != nil || n.Sets != 1 || n.Apart != 0 {
		t.Errorf("%+v sets, %v", n, err)
	}
	if left, err := c.Drop(ctx, client.Drop{Set: []byte("friends")}); err != nil || left != 0 {
		t.Errorf("a drop of everything: %d left, %v", left, err)
	}
	if _, err := c.Drop(ctx, client.Drop{Set: []byte("enemies")}); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("a drop of no set: %v", err)
	}
}

// TestLargeClock: a set whose clock takes megabytes, for it is full of gaps, is read, counted and dropped as others are.
func TestLargeClock(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	gaps := &clock.Clock{}
	for n := uint64(1); n < 3<<22; n += 9 { // a page of 2^16 counters with every ninth takes some 15 KB
		gaps.Add(clock.Dot{Actor: "gone", Counter: n + n%3})
	}
	set := []byte("s")
	if _, err := s.Replica().ApplyFacts(t.Context(), bigset.Facts{Set: set, Dead: gaps}, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
		t.Fatal(err)
	}
	c, ctx := open(t, client.Options{Addrs: []string{serveStore(t, s)}}), t.Context()
	if _, err := c.Set("s").Add(ctx, "a", "b"); err != nil {
		t.Fatal(err)
	}
	var seen client.Token
	var names []string
	for p, err := range c.Read(ctx, client.Read{Set: set}) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, p.Context...)
		for _, e := range p.Elements {
			names = append(names, string(e.Name))
		}
	}
	if fmt.Sprint(names) != "[a b]" || len(seen) < 1<<20 {
		t.Errorf("%v with a context of %d bytes", names, len(seen))
	}
	if n, err := c.Count(ctx, client.Read{Set: set}); err != nil || n.Elements != 2 || len(n.Context) != len(seen) {
		t.Errorf("%d elements with a context of %d bytes, %v", n.Elements, len(n.Context), err)
	}
	if st, err := c.Stats(ctx, client.Whole{Set: set}); err != nil || st.Live != 2 || st.Dead != gaps.Len() || st.Gaps < 1<<20 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := c.Write(ctx, client.Write{Set: set, Context: seen, Ops: []client.Op{{Kind: client.OpRemove, Element: []byte("a")}}}); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("a remove with a context that large: %v", err)
	}
	if _, err := c.Set("s").Add(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Drop(ctx, client.Drop{Set: set, Context: seen}); err != nil || left != 1 {
		t.Errorf("a drop of what was seen leaves %d, %v", left, err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	c := open(t, client.Options{Addrs: []string{serveStore(t, newStore(t))}})
	var elements []string
	for i := range 1000 {
		elements = append(elements, fmt.Sprintf("e%03d", i))
	}
	if _, err := c.Set("s").Add(t.Context(), elements...); err != nil {
		t.Fatal(err)
	}
	for _, reverse := range []bool{false, true} {
		r := client.Read{Set: []byte("s"), Limit: 300, Reverse: reverse, Contexts: true}
		var sizes, got []string
		for {
			p, err := c.Page(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, fmt.Sprint(len(p.Elements)))
			for _, e := range p.Elements {
				if len(e.Context) == 0 {
					t.Fatalf("%s came without its context", e.Name)
				}
				got = append(got, string(e.Name))
			}
			if len(p.Context) == 0 {
				t.Fatal("a page without the context of the set")
			}
			if r.After = p.After; len(p.After) == 0 {
				break
			}
		}
		if reverse {
			for i := range got[:500] {
				got[i], got[999-i] = got[999-i], got[i]
			}
		}
		if strings.Join(sizes, " ") != "300 300 300 100" || strings.Join(got, " ") != strings.Join(elements, " ") {
			t.Errorf("reverse %v: pages of %v, %d elements", reverse, sizes, len(got))
		}
	}
	if _, err := c.Page(t.Context(), client.Read{Set: []byte("s")}); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("a page without a limit: %v", err)
	}
	n := 0
	for e, err := range c.Elements(t.Context(), client.Read{Set: []byte("s"), From: []byte("e990")}) {
		if err != nil || string(e.Name) != elements[990+n] {
			t.Fatalf("element %d is %q, %v", n, e.Name, err)
		}
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d elements before the loop was left", n)
	}
}

// TestManyElements asks about more elements than one request may.
func TestManyElements(t *testing.T) {
	t.Parallel()
	c := open(t, client.Options{Addrs: []string{serveStore(t, newStore(t))}})
	const n = 2*api.SubsetMax + 5
	s := client.Subset{Set: []byte("s")}
	w := client.Write{Set: s.Set}
	for i := range n {
		s.Elements = append(s.Elements, fmt.Append(nil, i))
		if i%3 == 0 {
			w.Ops = append(w.Ops, client.Op{Kind: client.OpAdd, Element: s.Elements[i]})
		}
	}
	if _, err := c.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	found, err := c.Subset(t.Context(), s)
	if err != nil || len(found) != n {
		t.Fatalf("%d answers, %v", len(found), err)
	}
	for i := range found {
		if found[i].Present != (i%3 == 0) {
			t.Fatalf("element %d: %v", i, found[i].Present)
		}
	}
	if found, err := c.Subset(t.Context(), client.Subset{Set: s.Set}); err != nil || len(found) != 0 {
		t.Errorf("no elements: %v, %v", found, err)
	}
	if _, err := c.Subset(t.Context(), client.Subset{}); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("no set: %v", err)
	}
}

// TestReadStops leaves a loop: the node's handler ends, too, although it has more to send.
func TestReadStops(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	addr := serve(t, wire.ServerOptions{Handler: func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		part := client.Part{Elements: []client.Element{{Name: []byte("e")}}}
		for {
			if err := send(api.AppendPart(nil, &part)); err != nil {
				ended <- err
				return nil, err
			}
		}
	}}, nil)
	c := open(t, client.Options{Addrs: []string{addr}})
	for _, err := range c.Read(t.Context(), client.Read{Set: []byte("s")}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the node goes on")
	}
}

// TestNobody wants a client that has never reached a node to say so at once: it has an hour.
func TestNobody(t *testing.T) {
	t.Parallel()
	c := open(t, client.Options{Addrs: []string{nobody, "127.0.0.1:2"}, Timeout: time.Hour})
	_, err := c.Set("s").Add(t.Context(), "e")
	if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) || !strings.Contains(err.Error(), nobody) || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("add: %v", err)
	}
	for _, err := range c.Read(t.Context(), client.Read{Set: []byte("s")}) {
		if !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("read: %v", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Set("s").Contains(t.Context(), "e"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a client that is closed: %v", err)
	}
}

// TestClosed closes a client that has reached a node. Its calls must not ask again: a closed client reaches no node any more.
func TestClosed(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	store := api.Handler(alone.New(newStore(t)))
	addr := serve(t, wire.ServerOptions{Name: "n", Handler: func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == api.VerbWrite {
			close(begun)
			<-release
		}
		return store(ctx, r, send)
	}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := open(t, client.Options{Addrs: []string{addr}, Timeout: time.Hour, Again: func(_ time.Time, err error) {
		t.Errorf("a client that is closed asks again after: %v", err)
		cancel()
	}})
	if _, err := c.Set("s").Contains(ctx, "e"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := c.Set("s").Add(ctx, "e")
		ended <- err
	}()
	<-begun
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, client.ErrUnknown) {
		t.Errorf("a write that was in progress: %v", err)
	}
	close(release)
	if _, err := c.Set("s").Contains(ctx, "e"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a read afterwards: %v", err)
	}
	if _, err := c.Set("s").Add(ctx, "e"); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
		t.Errorf("a write afterwards: %v", err)
	}
}

// TestForeign asks what is no node.
func TestForeign(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(nc, "Client Error: Command not supported\n")
			go func() { _, _ = io.Copy(io.Discard, nc) }()
		}
	}()
	c := open(t, client.Options{Addrs: []string{ln.Addr().String()}, Timeout: time.Hour})
	if _, err := c.Count(t.Context(), client.Read{Set: []byte("s")}); !errors.Is(err, client.ErrForeign) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a server of another protocol: %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    client.Options
		says string
	}{
		{client.Options{}, "no address"},
		{client.Options{Addrs: []string{"nonsense"}}, "not HOST:PORT"},
		{client.Options{Addrs: []string{"127.0.0.1:"}}, "not HOST:PORT"},
		{client.Options{Addrs: []string{":8690"}}, "not HOST:PORT"},
		{client.Options{Addrs: []string{nobody}, Name: strings.Repeat("n", 256)}, "256 bytes"},
		{client.Options{Addrs: []string{nobody}, Timeout: -1}, "timeout -1ns"},
		{client.Options{Addrs: []string{nobody, "10.0.0.1:8690"}}, "without TLS"},
		{client.Options{Addrs: []string{"0.0.0.0:8690"}}, "without TLS"},
		{client.Options{Addrs: []string{"example.com:8690"}}, "without TLS"},
		{client.Options{Addrs: []string{"10.0.0.1:8690"}, TLS: &tls.Config{}}, ""},
		{client.Options{Addrs: []string{"localhost:8690", "[::1]:8690", "127.5.5.5:8690"}}, ""},
	} {
		c, err := client.Open(tt.o)
		if tt.says == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt.o, err)
			} else {
				c.Close()
			}
			continue
		}
		if !errors.Is(err, client.ErrOptions) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
}

// TestTLS asks a node that wants certificates: with that of a client, whatever name the options say, with none, and with that of another cluster.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	folder := func(cluster, name string) string { return filepath.Join(dir, cluster, name) }
	for _, cluster := range []string{"prod", "test"} {
		must(certs.MakeCA(folder(cluster, "ca"), certs.CAOptions{Cluster: cluster}))
		for name, role := range map[string]certs.Role{"a": certs.RoleNode, "paul": certs.RoleClient} {
			_, err := certs.Issue(folder(cluster, name), certs.IssueOptions{CA: folder(cluster, "ca"), Role: role, Name: name})
			must(err)
		}
	}
	config := func(cluster string) *tls.Config {
		c, err := certs.ClientConfig(folder(cluster, "paul"))
		must(err)
		return c
	}
	conf, err := certs.ServerConfig(folder("prod", "a"))
	must(err)
	name := make(chan string, 10)
	h := api.Handler(alone.New(newStore(t)))
	addr := serve(t, wire.ServerOptions{
		Handler: func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			name <- r.From.Name
			return h(ctx, r, send)
		},
		Identify: func(ctx context.Context, nc net.Conn) (wire.Role, string, error) {
			c := nc.(*tls.Conn)
			if err := c.HandshakeContext(ctx); err != nil {
				return 0, "", err
			}
			_, _, name, err := certs.RoleOf(c.ConnectionState())
			return wire.RoleClient, name, err
		}}, conf)
	if _, err := open(t, client.Options{Addrs: []string{addr}, TLS: config("prod"), Name: "ringo"}).Set("s").Add(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	if got := <-name; got != "paul" {
		t.Errorf("the node calls the client %q", got)
	}
	if _, err := open(t, client.Options{Addrs: []string{addr}, TLS: config("test"), Timeout: time.Hour}).Set("s").Add(t.Context(), "e"); !errors.Is(err, certs.ErrCluster) {
		t.Errorf("a node of another cluster: %v", err)
	}
	if _, err := open(t, client.Options{Addrs: []string{addr}, Timeout: time.Hour}).Set("s").Add(t.Context(), "e"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without TLS: %v", err)
	}
}

// TestRequestIDs: later ids follow earlier ones, and no two are equal.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	last, known := []byte{}, map[string]bool{}
	for ms := range 1000 {
		var latest []byte
		for range 2 {
			id := client.NewRequestID(time.UnixMilli(1<<40 + int64(ms)*77))
			if len(id) != 16 || known[string(id)] || bytes.Compare(id, last) <= 0 {
				t.Fatalf("id %x after %x", id, last)
			}
			known[string(id)] = true
			if bytes.Compare(id, latest) > 0 {
				latest = id
			}
		}
		last = latest
	}
}

// TestTokenChangeUnread: after an answer that can't be read nobody may take the change of a token for one that was not made.
func TestTokenChangeUnread(t *testing.T) {
	c := client.Over(callerFunc(func(wire.Call) ([]byte, error) { return []byte{1, 1, 9}, nil }))
	_, err := c.ChangeAccessToken(t.Context(), client.AccessToken{})
	if !errors.Is(err, client.ErrUnknown) || !errors.Is(err, client.ErrAnswer) {
		t.Errorf("%v", err)
	}
}
