package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/certs"
	"bigset/server/door"
	"bigset/server/tokens"
)

// makeToken adds a token at a node and returns its secret.
func makeToken(t *testing.T, n *Node, verbs tokens.Verbs, prefix string, away ...string) (tokens.Entry, string) {
	t.Helper()
	e, secret, err := tokens.New("app", verbs, []byte(prefix), time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	changeToken(t, n, e, away...)
	return e, secret
}

// changeToken adds or removes a token at a node. It tries again until no others are away than these: a member that is slow to answer counts as
// away, and a change that was done before does nothing.
func changeToken(t *testing.T, n *Node, e tokens.Entry, away ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the members but %q know of a token", away), func() bool {
		got, err := n.tokenKeeper().ChangeAccessToken(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(got, away)
	})
}

// TestTokensOfAFailedStore: a change of tokens that the disk may have is unknown. Later ones have not happened, and another node may be asked.
func TestTokensOfAFailedStore(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	s, err := engine.Open("db", &engine.Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := tokens.Open(TokenDisk(s), true)
	if err != nil {
		t.Fatal(err)
	}
	add := func() error {
		e, _, err := tokens.New("app", tokens.Read, nil, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		_, err = aloneTokens{list}.ChangeAccessToken(t.Context(), e)
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	if failed := disk.FailWrites(".log", 0, syscall.EIO); failed.Load() > 0 {
		t.Fatal("the log is written too early")
	}
	if err := add(); !errors.Is(err, door.ErrUnknown) || errors.Is(err, door.ErrUnavailable) || !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("the change with which the store fails: %v", err)
	}
	if err := add(); !errors.Is(err, door.ErrUnavailable) || errors.Is(err, door.ErrUnknown) || !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("a change after it has failed: %v", err)
	}
	if n := len(list.Active()); n != 1 {
		t.Errorf("%d tokens", n)
	}
	disk.Heal()
	_ = s.Close()
	s, err = engine.Open("other", &engine.Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if list, err = tokens.Open(TokenDisk(s), true); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	disk.SetHook("room", func(op errorfs.Op) error {
		if testkit.NeedsRoom(op) && strings.Contains(op.Path, "IDENTITY") { // which is written before the first change
			return syscall.ENOSPC
		}
		return nil
	})
	if err := add(); !errors.Is(err, door.ErrUnavailable) || errors.Is(err, door.ErrUnknown) || s.Failed() != nil {
		t.Errorf("a change that finds no room: %v; the store: %v", err, s.Failed())
	}
	disk.SetHook("room", nil)
	if err := add(); err != nil {
		t.Error(err)
	}
}

// TestTokensOfANode has tokens of a node alone over a restart, at the port for clients of redis and not at bloomd's.
func TestTokensOfANode(t *testing.T) {
	const noAuth, wrongPass, noPerm = "-NOAUTH Authentication required.\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
	c := testConfig(t)
	c.Resp = "127.0.0.1:0"
	n := startNode(t, c)
	redis(t, n, "SADD users/1 a", ":1\r\n")
	e, secret := makeToken(t, n, tokens.Read, "users/")
	redis(t, n, "SADD users/1 a", noAuth, "AUTH "+secret, "+OK\r\n", "SCARD users/1", ":1\r\n", "SADD users/1 b", noPerm)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	stopNode(t, n)
	n = startNode(t, c)
	redis(t, n, "SCARD users/1", noAuth, "AUTH "+secret, "+OK\r\n", "SCARD users/1", ":1\r\n")
	changeToken(t, n, tokens.Entry{ID: e.ID, Removed: true})
	redis(t, n, "AUTH "+secret, wrongPass, "SCARD users/1", noAuth)
	talk(t, n, "check f a", "Yes")
}

// nodeFolder makes certificates of node a and returns their folder.
func nodeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := certs.MakeCA(filepath.Join(dir, "ca"), certs.CAOptions{Cluster: "test"})
	if err == nil {
		_, err = certs.Issue(filepath.Join(dir, "a"), certs.IssueOptions{CA: filepath.Join(dir, "ca"), Role: certs.RoleNode, Name: "a"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "a")
}

// TestClientTLS: where others reach the port clients speak TLS, and the port is closed while there are no tokens.
func TestClientTLS(t *testing.T) {
	folder := nodeFolder(t)
	c := testConfig(t)
	c.Resp, c.ClientTLS = "0.0.0.0:0", filepath.Join(filepath.Dir(folder), "b")
	if _, err := Start(c, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--client-tls") {
		t.Errorf("without certificates: %v", err)
	}
	c.ClientTLS = folder
	n := startNode(t, c)
	ask := func(pairs ...string) {
		t.Helper()
		address := strings.Replace(n.doors[1].listener.Addr().String(), "0.0.0.0", "127.0.0.1", 1)
		nc, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(cs tls.ConnectionState) error {
			if uris := cs.PeerCertificates[0].URIs; len(uris) != 1 || uris[0].String() != "bigset://test/node/a" {
				return fmt.Errorf("it is %v", uris)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(nc)
		for i := 0; i < len(pairs); i += 2 {
			fmt.Fprintf(nc, "%s\r\n", pairs[i])
			if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, pairs[i+1]) {
				t.Fatalf("%q: %q, %v, want %q", pairs[i], line, err, pairs[i+1])
			}
		}
	}
	ask("SADD s a", "-NOAUTH ", "AUTH x", "-WRONGPASS ", "SCARD s", "-NOAUTH ")
	_, secret := makeToken(t, n, tokens.Read|tokens.Write, "")
	ask("SADD s a", "-NOAUTH ", "AUTH "+secret, "+OK", "SADD s a", ":1")
	stopNode(t, n)
	c.InsecureClients = true
	c.DataDir += "2"
	n = startNode(t, c)
	ask("SADD s a", ":1")
}

// TestTokensOfThreeNodes removes a token at one node while connections to all are open.
func TestTokensOfThreeNodes(t *testing.T) {
	nodes := startCluster(t, 3, func(_ int, c *Config) { c.Resp = "127.0.0.1:0" })
	e, secret := makeToken(t, nodes[0], tokens.Read|tokens.Write, "")
	type open struct {
		io.Writer
		in *bufio.Reader
	}
	var conns []open
	ask := func(c open, request, want string) {
		t.Helper()
		fmt.Fprintf(c, "%s\r\n", request)
		if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("%q: %q, %v, want %q", request, line, err, want)
		}
	}
	for _, n := range nodes {
		redis(t, n, "SADD s a", "-NOAUTH ")
		for _, d := range n.doors {
			if d.name == "resp" {
				nc, err := net.Dial("tcp", d.listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(time.Minute))
				conns = append(conns, open{nc, bufio.NewReader(nc)})
			}
		}
	}
	for _, c := range conns {
		ask(c, "AUTH "+secret, "+OK")
		ask(c, "SADD s a", ":")
	}
	removed := time.Now()
	changeToken(t, nodes[2], tokens.Entry{ID: e.ID, Removed: true})
	for _, c := range conns {
		ask(c, "SADD s b", "-NOAUTH ")
		ask(c, "AUTH "+secret, "-WRONGPASS ")
	}
	t.Logf("a removed token permits nothing at any node after %v", time.Since(removed))
}

// TestTokenAtACutOffMember: a member that reaches no other still takes a token that was removed elsewhere, as docs/server.md says, until it is removed there, too.
func TestTokenAtACutOffMember(t *testing.T) {
	nodes := startCluster(t, 3, func(_ int, c *Config) { c.Resp = "127.0.0.1:0" })
	e, secret := makeToken(t, nodes[0], tokens.Read|tokens.Write, "")
	as := func(n *Node, request, want string) {
		t.Helper()
		redis(t, n, "AUTH "+secret, "+OK\r\n", request, want)
	}
	as(nodes[0], "BS.ADD s W 3 ELEMENTS a", "*1\r\n")
	stopNode(t, nodes[0])
	stopNode(t, nodes[1])
	last := nodes[2]
	as(last, "SCARD s", "-TRYAGAIN ") // too few members answer
	as(last, "BS.COUNT s R 1", ":1\r\n")
	as(last, "KEYS *", "*1\r\n$1\r\ns\r\n")
	as(last, "BS.ADD s W 1 DW 1 ELEMENTS b", "*1\r\n")
	as(last, "SADD s c", "-UNKNOWN ")
	as(last, "BS.COUNT s R 1", ":3\r\n")
	changeToken(t, last, tokens.Entry{ID: e.ID, Removed: true}, "a", "b")
	redis(t, last, "AUTH "+secret, "-WRONGPASS ")
	redis(t, last, "KEYS *", "-NOAUTH ")
}

// TestWarnsOfInsecure: the log of a node warns where clients need tokens and the port for nodes and clients has no certificates.
func TestWarnsOfInsecure(t *testing.T) {
	c := testConfig(t)
	c.Resp, c.Peers.Listen, c.Peers.Insecure = "127.0.0.1:0", "127.0.0.1:0", true
	started := func(c Config, warns bool, during func(*Node)) {
		t.Helper()
		var log strings.Builder
		n, err := Start(c, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if during != nil {
			during(n)
		}
		stopNode(t, n)
		if strings.Contains(log.String(), "which asks for no certificates") != warns {
			t.Errorf("warns %v, logged %q", !warns, log.String())
		}
	}
	alone, open, closed := c, c, c
	alone.Peers = Peers{}
	open.DataDir, open.Resp, open.InsecureClients = c.DataDir+"2", "0.0.0.0:0", true
	closed.DataDir, closed.Resp, closed.ClientTLS = c.DataDir+"3", "0.0.0.0:0", nodeFolder(t)
	started(closed, true, nil)
	started(open, false, nil)
	var e tokens.Entry
	started(c, false, func(n *Node) { e, _ = makeToken(t, n, tokens.Read, "") })
	started(c, true, func(n *Node) { changeToken(t, n, tokens.Entry{ID: e.ID, Removed: true}) })
	started(c, true, nil) // clients still need one
	started(alone, false, nil)
}
