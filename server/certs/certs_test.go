package certs

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// birth is when the clusters of tests are made.
var birth = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// hands is a clock that tests set.
type hands struct{ at atomic.Int64 }

func newHands() *hands {
	h := &hands{}
	h.at.Store(birth.UnixNano())
	return h
}

func (h *hands) now() time.Time          { return time.Unix(0, h.at.Load()) }
func (h *hands) forward(d time.Duration) { h.at.Add(int64(d)) }

// kit is a cluster's certificates in folders: ca, and one for each name that was asked for.
type kit struct {
	t       *testing.T
	dir     string
	cluster string
	clock   *hands
}

func newKit(t *testing.T, cluster string, clock *hands) *kit {
	t.Helper()
	k := &kit{t, t.TempDir(), cluster, clock}
	k.must(MakeCA(k.ca(), CAOptions{Cluster: cluster, Now: clock.now}))
	return k
}

func (k *kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) ca() string                { return filepath.Join(k.dir, "ca") }
func (k *kit) folder(name string) string { return filepath.Join(k.dir, name) }

// issue makes the pair of a name.
func (k *kit) issue(role Role, name string, valid time.Duration) string {
	k.t.Helper()
	_, err := Issue(k.folder(name), IssueOptions{CA: k.ca(), Role: role, Name: name, Valid: valid, Now: k.clock.now})
	k.must(err)
	return k.folder(name)
}

func (k *kit) load(role Role, name string) *Folder {
	k.t.Helper()
	f, err := Load(k.folder(name), role, FolderOptions{Now: k.clock.now, Report: func(err error) { k.t.Log("reported:", err) }})
	k.must(err)
	return f
}

// pipe is a connection over loopback.
func pipe(t *testing.T) (dialed, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dialed, err = net.Dial("tcp", l.Addr().String()); err == nil {
		accepted, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialed, accepted} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return dialed, accepted
}

// ends are both ends of a connection after its handshake, and what each says of it.
type ends struct {
	client, server       *tls.Conn
	clientErr, serverErr error
}

// shake connects two configurations. The client reads a byte, since only then it learns that the server has refused it.
func shake(t *testing.T, client, server *tls.Config) ends {
	t.Helper()
	dialed, accepted := pipe(t)
	e := ends{client: tls.Client(named{dialed}, client), server: tls.Server(accepted, server)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if e.serverErr = e.server.Handshake(); e.serverErr == nil {
			_, e.serverErr = e.server.Write([]byte{1})
		}
		if e.serverErr != nil {
			accepted.Close()
		}
	}()
	if e.clientErr = e.client.Handshake(); e.clientErr == nil {
		_, e.clientErr = io.ReadFull(e.client, make([]byte, 1))
	}
	if e.clientErr != nil {
		dialed.Close()
	}
	<-done
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return e
}

// named has one remote address for all connections, as connections to one server have.
type named struct{ net.Conn }

func (named) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (e ends) good(t *testing.T) {
	t.Helper()
	if e.clientErr != nil || e.serverErr != nil {
		t.Fatalf("refused: the client says %v, the server %v", e.clientErr, e.serverErr)
	}
}

// works sends a byte over a connection that exists.
func (e ends) works(t *testing.T) {
	t.Helper()
	if _, err := e.client.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(e.server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// TestRoles: the holder of a certificate of the cluster is who the certificate says.
func TestRoles(t *testing.T) {
	t.Parallel()
	k := newKit(t, "prod", newHands())
	k.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 0)
	k.issue(RoleClient, "paul", 0)
	server := k.load(RoleNode, "b").Server()
	for _, c := range []struct {
		name   string
		config *tls.Config
		want   Identity
	}{
		{"node", k.load(RoleNode, "a").Peer("b"), Identity{"prod", RoleNode, "a"}},
		{"node, of any name", k.load(RoleNode, "a").Client(), Identity{"prod", RoleNode, "a"}},
		{"client", k.load(RoleClient, "paul").Client(), Identity{"prod", RoleClient, "paul"}},
	} {
		e := shake(t, c.config, server)
		e.good(t)
		cluster, role, name, err := RoleOf(e.server.ConnectionState())
		if got := (Identity{cluster, role, name}); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
		cluster, role, name, err = RoleOf(e.client.ConnectionState())
		if got := (Identity{cluster, role, name}); err != nil || got != (Identity{"prod", RoleNode, "b"}) {
			t.Errorf("%s: the server is %v, %v", c.name, got, err)
		}
		if v := e.server.ConnectionState().Version; v != tls.VersionTLS13 {
			t.Errorf("%s: version %x", c.name, v)
		}
	}
	if _, _, _, err := RoleOf(tls.ConnectionState{HandshakeComplete: true}); !errors.Is(err, ErrName) {
		t.Errorf("no certificate: got %v", err)
	}
}

// TestConfigs: the functions over a folder alone read the clock of the machine.
func TestConfigs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, node, client := filepath.Join(dir, "ca"), filepath.Join(dir, "a"), filepath.Join(dir, "paul")
	if err := MakeCA(ca, CAOptions{Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	for folder, o := range map[string]IssueOptions{node: {CA: ca, Role: RoleNode, Name: "a"}, client: {CA: ca, Role: RoleClient, Name: "paul"}} {
		if _, err := Issue(folder, o); err != nil {
			t.Fatal(err)
		}
	}
	server, err1 := ServerConfig(node)
	fromClient, err2 := ClientConfig(client)
	fromPeer, err3 := PeerConfig(node, "a")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	shake(t, fromClient, server).good(t)
	shake(t, fromPeer, server).good(t)
	for _, err := range []error{second(ServerConfig(client)), second(PeerConfig(client, "a")), second(ClientConfig(node))} {
		if !errors.Is(err, ErrMissing) {
			t.Errorf("the folder of another role: got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestRefused has everyone who is to be refused, with the side that refuses and the reason it gives.
func TestRefused(t *testing.T) {
	t.Parallel()
	clock, late := newHands(), newHands()
	k := newKit(t, "prod", clock)
	foreign, other := newKit(t, "prod", clock), newKit(t, "test", clock)
	for _, c := range []*kit{k, foreign, other} {
		c.issue(RoleNode, "a", 0)
		c.issue(RoleNode, "b", 0)
		c.issue(RoleClient, "paul", 0)
	}
	k.issue(RoleNode, "brief", time.Hour)
	brief := k.load(RoleNode, "brief")
	late.forward(2 * time.Hour)
	lateA, err := Load(k.folder("a"), RoleNode, FolderOptions{Now: late.now})
	k.must(err)
	early := newHands()
	early.forward(-2 * skew)
	earlyA := k.load(RoleNode, "a")
	earlyA.o.Now = early.now
	paul := k.load(RoleClient, "paul")
	// A client that serves: what only a hostile one does.
	asServer := &tls.Config{Certificates: []tls.Certificate{paul.now.Load().own}, ClientAuth: tls.RequireAnyClientCert}
	ownCA := tls.Certificate{Certificate: nil}
	auth, err := openAuthority(k.ca())
	k.must(err)
	ownCA.Certificate, ownCA.PrivateKey = [][]byte{auth.cert.Raw}, auth.key
	withCA := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{ownCA}}
	a := func() *Folder { return k.load(RoleNode, "a") }
	for _, c := range []struct {
		name           string
		client, server *tls.Config
		byClient       error // the reason at the client, or nil
		byServer       error
	}{
		{"a server of a foreign CA", a().Client(), foreign.load(RoleNode, "b").Server(), ErrAuthority, nil},
		{"a client of a foreign CA", trusting(foreign.load(RoleClient, "paul")), a().Server(), nil, ErrAuthority},
		{"a node of a foreign CA", trusting(foreign.load(RoleNode, "b")), a().Server(), nil, ErrAuthority},
		{"a server of another cluster", a().Client(), other.load(RoleNode, "b").Server(), ErrCluster, nil},
		{"a client of another cluster", trusting(other.load(RoleClient, "paul")), a().Server(), nil, ErrCluster},
		{"a client that serves", a().Client(), asServer, ErrRole, nil},
		{"a client that serves as a peer", a().Peer("paul"), asServer, ErrRole, nil},
		{"another node", a().Peer("b"), a().Server(), ErrNode, nil},
		{"an expired server", lateA.Peer("brief"), brief.Server(), ErrExpired, nil},
		{"an expired client", trusting(brief), lateA.Server(), nil, ErrExpired},
		{"a server that begins later", earlyA.Peer("b"), k.load(RoleNode, "b").Server(), ErrNotYet, nil},
		{"a client that begins later", trusting(k.load(RoleClient, "paul")), earlyA.Server(), nil, ErrNotYet},
		{"no certificate", &tls.Config{InsecureSkipVerify: true}, a().Server(), nil, errAny},
		{"a CA as a client", withCA, a().Server(), nil, errAny},
		{"TLS 1.2", &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, Certificates: withCA.Certificates}, a().Server(), nil, errAny},
	} {
		e := shake(t, c.client, c.server)
		if e.clientErr == nil {
			t.Errorf("%s: the client goes on", c.name)
		}
		if c.byClient != nil && !errors.Is(e.clientErr, c.byClient) {
			t.Errorf("%s: the client says %v, want %v", c.name, e.clientErr, c.byClient)
		}
		if c.byServer == errAny && e.serverErr == nil || c.byServer != nil && c.byServer != errAny && !errors.Is(e.serverErr, c.byServer) {
			t.Errorf("%s: the server says %v, want %v", c.name, e.serverErr, c.byServer)
		}
	}
}

var errAny = errors.New("any")

// trusting is a dialing side that accepts everybody, so that only the server can refuse.
func trusting(f *Folder) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, GetClientCertificate: f.Client().GetClientCertificate}
}

// TestBadFolders: what is wrong with a folder is said when it is read.
func TestBadFolders(t *testing.T) {
	t.Parallel()
	clock := newHands()
	k, other := newKit(t, "prod", clock), newKit(t, "test", clock)
	other.issue(RoleNode, "a", 0)
	k.issue(RoleNode, "b", 0)
	for _, c := range []struct {
		name  string
		spoil func(dir string)
		want  error
		says  string
	}{
		{"nothing", func(string) {}, nil, ""},
		{"no ca.crt", func(dir string) { remove(t, dir, "ca.crt") }, ErrMissing, "ca.crt"},
		{"no node.crt", func(dir string) { remove(t, dir, "node.crt") }, ErrMissing, "bigset cert node"},
		{"no node.key", func(dir string) { remove(t, dir, "node.key") }, ErrMissing, "node.key"},
		{"an open key", func(dir string) { k.must(os.Chmod(filepath.Join(dir, "node.key"), 0o640)) }, ErrTooOpen, "chmod 600"},
		{"another key", func(dir string) { copyFile(t, dir, k.folder("b"), "node.key") }, ErrKey, "node.key"},
		{"another cluster's CA", func(dir string) { copyFile(t, dir, other.folder("a"), "ca.crt") }, ErrCluster, "prod"},
		{"another cluster's pair", func(dir string) {
			copyFile(t, dir, other.folder("a"), "node.crt")
			copyFile(t, dir, other.folder("a"), "node.key")
		}, ErrCluster, "prod"},
		{"an empty certificate", func(dir string) { spoilFile(t, dir, "node.crt", nil) }, ErrForm, "node.crt"},
		{"a cut certificate", func(dir string) { spoilFile(t, dir, "node.crt", []byte("-----BEGIN CERTIFICATE-----\nMIIB")) }, ErrForm, "node.crt"},
		{"a certificate as key", func(dir string) { copyAs(t, dir, "node.crt", "node.key") }, ErrForm, "PRIVATE KEY"},
		{"a CA without a certificate", func(dir string) { spoilFile(t, dir, "ca.crt", []byte("hello\n")) }, ErrForm, "ca.crt"},
		{"a node as CA", func(dir string) { copyAs(t, dir, "node.crt", "ca.crt") }, ErrRole, "is not a CA"},
		{"a huge file", func(dir string) { spoilFile(t, dir, "ca.crt", make([]byte, fileBytesMax+1)) }, ErrForm, "bytes"},
		{"expired", func(string) { clock.forward(ValidOther + time.Hour) }, ErrExpired, "ended on"},
		{"CA expired", func(string) { clock.forward(ValidCA) }, ErrExpired, "bigset cert"},
	} {
		clock.at.Store(birth.UnixNano())
		dir := k.folder("a")
		k.must(os.RemoveAll(dir))
		k.issue(RoleNode, "a", 0)
		c.spoil(dir)
		_, err := Load(dir, RoleNode, FolderOptions{Now: clock.now})
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.want, c.says)
		}
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func spoilFile(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, dir, from, name string) {
	t.Helper()
	spoilFile(t, dir, name, readText(t, from, name))
}

func copyAs(t *testing.T, dir, from, to string) {
	t.Helper()
	spoilFile(t, dir, to, readText(t, dir, from))
}

// TestNames: names that certificates may have make good certificates, the longest too, and others are refused.
func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", NameBytesMax)
	for _, cluster := range []string{"c", "prod-1.example", long, "0"} {
		k := newKit(t, cluster, newHands())
		for _, name := range []string{"a", "A.b_c-9..", long} {
			k.issue(RoleNode, name, 0)
			if got := k.load(RoleNode, name).Identity(); got != (Identity{cluster, RoleNode, name}) {
				t.Errorf("got %v", got)
			}
		}
	}
	for _, cluster := range []string{"", "A", "a_b", "-a", "a-", "a.", ".a", "a..b", "a.-b", "a b", "ä", long + "x", "a/b", "a:1", "u@a", "%61"} {
		if err := MakeCA(t.TempDir(), CAOptions{Cluster: cluster}); !errors.Is(err, ErrName) {
			t.Errorf("cluster %q: got %v", cluster, err)
		}
	}
	k := newKit(t, "c", newHands())
	for _, name := range []string{"", ".", "..", "-a", "a/b", "a b", "ä", long + "x", "a?", "a#", "%61", "a\x00"} {
		if _, err := Issue(t.TempDir(), IssueOptions{CA: k.ca(), Role: RoleNode, Name: name}); !errors.Is(err, ErrName) {
			t.Errorf("name %q: got %v", name, err)
		}
	}
	for _, host := range []string{"", "a:1", "[::1]", "a b", "a/b", "ä", "u@a"} {
		if _, err := Issue(t.TempDir(), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Hosts: []string{host}}); !errors.Is(err, ErrName) {
			t.Errorf("host %q: got %v", host, err)
		}
	}
	if _, err := Issue(t.TempDir(), IssueOptions{CA: k.ca(), Role: RoleCA, Name: "a"}); !errors.Is(err, ErrRole) {
		t.Errorf("got %v", err)
	}
	info, err := Issue(t.TempDir(), IssueOptions{CA: k.ca(), Role: RoleNode, Name: "a", Hosts: []string{"a.example", "10.0.0.1", "::1"}, Now: k.clock.now})
	if err != nil || !slices.Equal(info.Hosts, []string{"a.example", "10.0.0.1", "::1"}) {
		t.Errorf("got %v, %v", info.Hosts, err)
	}
}

func TestParseIdentity(t *testing.T) {
	t.Parallel()
	for _, id := range []Identity{{"c", RoleCA, ""}, {"c", RoleNode, "a"}, {"a.b-c", RoleClient, "Paul_1.x-"}} {
		if got, err := parseIdentity(id.String()); err != nil || got != id {
			t.Errorf("%s: got %v, %v", id, got, err)
		}
	}
	for _, uri := range []string{
		"", "bigset:", "bigset://", "bigset://c", "bigset://c/", "bigset://c/node", "bigset://c/node/", "bigset://c/node/a/", "bigset://c/node/a/b",
		"bigset://c/ca/", "bigset://c/ca/a", "bigset://c//a", "bigset://c/Node/a", "bigset://c/admin/a", "bigset:///node/a", "bigset://C/node/a",
		"BIGSET://c/node/a", "bigset://c:1/node/a", "bigset://u@c/node/a", "bigset://c/node/a?", "bigset://c/node/a#", "bigset://c/node/%61",
		"bigset://c/node/..", "https://c/node/a", " bigset://c/node/a", "bigset://c/node/a ", "bigset://c/node/a\n",
	} {
		if id, err := parseIdentity(uri); !errors.Is(err, ErrName) {
			t.Errorf("%q: got %v, %v", uri, id, err)
		}
	}
}

// FuzzParseIdentity: what is read is written the same, and nothing panics.
func FuzzParseIdentity(f *testing.F) {
	for _, s := range []string{"bigset://c/node/a", "bigset://c/client/paul", "bigset://c/ca", "bigset://c/node/a/b", "bigset://c:1/ca", "bigset://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		id, err := parseIdentity(uri)
		if err != nil {
			if !errors.Is(err, ErrName) || id != (Identity{}) {
				t.Fatalf("%q: got %v, %v", uri, id, err)
			}
			return
		}
		if id.String() != uri || checkCluster(id.Cluster) != nil || id.Role != RoleCA && checkName(id.Name) != nil {
			t.Fatalf("%q is %v, which is written %q", uri, id, id.String())
		}
	})
}
