package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/server/api"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/door"
	"bigset/server/wire"
)

// TestPeerVerbsOfAClient sends every verb of peers to a node of a cluster with a client's certificate: each is refused, whatever the frame, and the connection goes on. Nobody
// can say that it is something else than its certificate says, and a client can't name an epoch.
func TestPeerVerbsOfAClient(t *testing.T) {
	t.Parallel()
	dir, issue := issuer(t)
	nodes := startCluster(t, 3, func(i int, c *Config) {
		c.Peers.Insecure, c.Peers.TLS = false, issue(certs.RoleNode, string(rune('a'+i)))
	})
	client, err := certs.ClientConfig(issue(certs.RoleClient, "paul"))
	if err != nil {
		t.Fatal(err)
	}
	asNode, err := certs.PeerConfig(filepath.Join(dir, "node-b"), "a")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, conf *tls.Config, o wire.ClientOptions) (*wire.Client, error) {
		nc, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", nodes[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		o.Errors = api.Errors{}
		if conf == asNode {
			o.Errors = cluster.Errors
		}
		return wire.NewClient(ctx, nc, o)
	}
	for what, liar := range map[string]struct {
		conf *tls.Config
		o    wire.ClientOptions
	}{
		"a client as a node":         {client, wire.ClientOptions{Role: wire.RoleNode, Name: "b"}},
		"a client as another client": {client, wire.ClientOptions{Name: "ringo"}},
		"a node as another node":     {asNode, wire.ClientOptions{Role: wire.RoleNode, Name: "c"}},
	} {
		if c, err := dial(t.Context(), liar.conf, liar.o); err == nil || !strings.Contains(err.Error(), "its certificate says") {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				_ = c.Close()
			}
		}
	}
	before := nodes[0].doors[0].protocol.Counts().Handshakes
	if nc, err := tls.Dial("tcp", nodes[0].Addr().String(), &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		_ = nc.Close()
		t.Error("a handshake that trusts nobody")
	}
	for end := time.Now().Add(time.Minute); nodes[0].doors[0].protocol.Counts().Handshakes == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a handshake that failed is not counted")
		}
	}
	c, err := dial(t.Context(), client, wire.ClientOptions{Name: "paul"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	question := api.AppendSubset(nil, &door.Subset{Set: []byte("s")})
	ask := func(call wire.Call) error {
		_, err := c.Do(t.Context(), call)
		return err
	}
	for v := wire.FirstPeerVerb; ; v++ {
		for _, body := range [][]byte{nil, question} {
			if err := ask(wire.Call{Verb: v, Body: body}); !errors.Is(err, wire.ErrRefused) || !strings.Contains(err.Error(), "of a client") {
				t.Errorf("verb %d: %v", v, err)
			}
		}
		if v == 255 {
			break
		}
	}
	if err := ask(wire.Call{Verb: api.VerbContext, Epoch: 1, Body: question}); !errors.Is(err, wire.ErrRefused) {
		t.Errorf("with an epoch: %v", err)
	}
	if err := ask(wire.Call{Verb: api.VerbContext, Priority: wire.PriorityCopy, Body: question}); !errors.Is(err, wire.ErrRefused) {
		t.Errorf("as a copy: %v", err)
	}
	if err := ask(wire.Call{Verb: api.VerbContext, Body: question}); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("a client's own verb: %v", err)
	}
}

// issuer makes an authority, and returns a function that issues certificates. Each has the folder ROLE-NAME below dir.
func issuer(t *testing.T) (dir string, issue func(role certs.Role, name string) string) {
	t.Helper()
	dir = t.TempDir()
	ca := filepath.Join(dir, "ca")
	if err := certs.MakeCA(ca, certs.CAOptions{Cluster: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir, func(role certs.Role, name string) string {
		folder := filepath.Join(dir, string(role)+"-"+name)
		if _, err := certs.Issue(folder, certs.IssueOptions{CA: ca, Role: role, Name: name, Hosts: []string{"127.0.0.1"}}); err != nil {
			t.Fatal(err)
		}
		return folder
	}
}
