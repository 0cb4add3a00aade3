package server

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/server/certs"
	"bigset/server/cluster"
)

// TestClusterMetrics: what a member knows of the others is in /metrics: by member, by member and verb, and its events. A member is no peer of itself.
func TestClusterMetrics(t *testing.T) {
	s := cluster.Status{Node: "a", Epoch: 7, Serves: true, Copied: 300, Portion: 0.25, Events: map[string]uint64{"repaired": 5, "hint-overflow": 2}, Members: []cluster.MemberStatus{
		{ID: "a"},
		{ID: "b", Up: true, Milliseconds: 1.5, Verbs: []cluster.VerbCount{{Verb: "apply", Calls: 9, Failed: 2, Busy: 1, Seconds: 0.5}, {Verb: "read", Calls: 1}}, Calls: 10, Failed: 2, Busy: 1},
		{ID: "c", Hints: 3, HintBytes: 400, HintSeconds: 60, Compared: time.Unix(1000, 0), Verbs: []cluster.VerbCount{{Verb: "apply", Calls: 4, Seconds: 2}}},
	}}
	var b strings.Builder
	if err := WriteMetrics(&b, slices.Values(clusterMetrics(s))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"bigset_cluster_epoch 7", "bigset_cluster_serves 1", "bigset_cluster_copied_bytes 300", "bigset_cluster_copied_ratio 0.25",
		`bigset_cluster_events{event="hint-overflow"} 2`, `bigset_cluster_events{event="repaired"} 5`,
		`bigset_cluster_peer_up{peer="b"} 1`, `bigset_cluster_peer_up{peer="c"} 0`, `bigset_cluster_peer_latency_seconds{peer="b"} 0.0015`,
		`bigset_cluster_peer_hints{peer="c"} 3`, `bigset_cluster_peer_hint_age_seconds{peer="c"} 60`, `bigset_cluster_peer_compared_timestamp_seconds{peer="c"} 1000`,
		`bigset_cluster_peer_compared_timestamp_seconds{peer="b"} 0`, `bigset_cluster_peer_calls{peer="b"} 10`,
		`bigset_cluster_peer_verb_calls{peer="b",verb="apply"} 9`, `bigset_cluster_peer_verb_calls{peer="b",verb="read"} 1`, `bigset_cluster_peer_verb_calls{peer="c",verb="apply"} 4`,
		`bigset_cluster_peer_verb_failed{peer="b",verb="apply"} 2`, `bigset_cluster_peer_verb_busy{peer="b",verb="apply"} 1`, `bigset_cluster_peer_verb_seconds{peer="c",verb="apply"} 2`,
	} {
		if !strings.Contains(b.String(), "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), `peer="a"`) {
		t.Error("a member is a peer of itself")
	}
	for _, family := range []string{"cluster_events", "cluster_peer_up", "cluster_peer_verb_calls", "cluster_peer_verb_seconds"} {
		if n := strings.Count(b.String(), "# TYPE bigset_"+family+" "); n != 1 {
			t.Errorf("%s stands in %d places", family, n)
		}
	}
}

// TestMemberAlone: the folder of a member is not served without its cluster.
func TestMemberAlone(t *testing.T) {
	nodes := startCluster(t, 1, nil)
	stopNode(t, nodes[0])
	member := nodes[0].config
	alone := testConfig(t)
	alone.DataDir = member.DataDir
	for _, listen := range []string{"", "127.0.0.1:0"} {
		alone.Peers.Listen, alone.Peers.Insecure = listen, listen != ""
		n, err := Start(alone, slog.New(slog.DiscardHandler))
		if err == nil {
			stopNode(t, n)
		}
		if !errors.Is(err, ErrMember) || !strings.Contains(err.Error(), "cluster bigset of the nodes a,") {
			t.Errorf("with --listen %q: %v", listen, err)
		}
	}
	n := startNode(t, member)
	eventually(t, "the member serves", func() bool { return len(n.member.NotReady()) == 0 })
	stopNode(t, n)
}

// TestNodeOfCertificate: a node of a cluster takes its name from its certificate, unless it is given.
func TestNodeOfCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, b := filepath.Join(dir, "ca"), filepath.Join(dir, "b")
	err := certs.MakeCA(ca, certs.CAOptions{Cluster: "test"})
	if err == nil {
		_, err = certs.Issue(b, certs.IssueOptions{CA: ca, Role: certs.RoleNode, Name: "b"})
	}
	if err != nil {
		t.Fatal(err)
	}
	p := Peers{Peers: "a=10.0.0.1:8690,b=10.0.0.2:8690", TLS: b}
	if err := p.check(); err != nil || p.Node != "b" || p.Listen != "10.0.0.2:8690" {
		t.Errorf("node %q listens at %q: %v", p.Node, p.Listen, err)
	}
	p = Peers{Peers: "a=127.0.0.1:8690", Insecure: true}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "--peers without --node") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestLocalhostElsewhere: localhost that is not this machine alone, as a hosts file can make it, is neither served nor asked without TLS.
func TestLocalhostElsewhere(t *testing.T) {
	var opened net.Listener
	open := func(at string) func(_, _ string) (net.Listener, error) {
		return func(network, _ string) (l net.Listener, err error) {
			opened, err = net.Listen(network, at)
			return opened, err
		}
	}
	if _, err := listenBy(open("0.0.0.0:0"), "localhost:0", "a test", "--test"); !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "can't listen on localhost:0 for a test: it is ") {
		t.Errorf("localhost is all addresses: %v", err)
	} else if _, err := opened.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it still listens: %v", err)
	}
	for _, address := range []string{"localhost:0", "127.0.0.1:0"} {
		l, err := listen(address, "a test", "--test")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if l, err := listenBy(open("0.0.0.0:0"), "0.0.0.0:0", "a test", "--test"); err != nil {
		t.Errorf("all addresses, by their name: %v", err)
	} else {
		l.Close()
	}

	for address, remote := range map[string]string{"localhost:1": "10.0.0.1", "127.0.0.1:1": "127.0.0.1", "[::1]:1": "::1"} {
		nc := &ledConn{to: &net.TCPAddr{IP: net.ParseIP(remote), Port: 1}}
		_, err := plain(nc, address)
		if refused := remote == "10.0.0.1"; (err != nil) != refused || nc.closed != refused || refused && !strings.Contains(err.Error(), "localhost:1 leads to 10.0.0.1:1, which is not on this machine") {
			t.Errorf("%s led to %s: %v, closed %v", address, remote, err, nc.closed)
		}
	}
}

// ledConn is a connection to an address.
type ledConn struct {
	net.Conn
	to     net.Addr
	closed bool
}

func (c *ledConn) RemoteAddr() net.Addr { return c.to }
func (c *ledConn) Close() error         { c.closed = true; return nil }
