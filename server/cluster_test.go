package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset/internal/netfault"
	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
)

// startCluster starts nodes that are a cluster, with bloomd's protocol at each, and waits until they serve and all are connected.
func startCluster(t testing.TB, count int, change func(i int, c *Config)) []*Node {
	t.Helper()
	var peers []string
	for i := range count {
		address, err := netfault.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, fmt.Sprintf("%c=%s", 'a'+i, address))
	}
	var nodes []*Node
	for i := range count {
		c := testConfig(t)
		c.Peers.Node, c.Peers.Peers, c.Peers.Insecure = string(rune('a'+i)), strings.Join(peers, ","), true
		if err := c.Listen("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(i, &c)
		}
		nodes = append(nodes, startNode(t, c))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var not []string
		for _, n := range nodes {
			not = append(not, n.member.NotReady()...)
			for _, m := range n.member.Status().Members { // some requests don't wait for a member that is not connected
				if !m.Up {
					not = append(not, m.ID+" is not connected")
				}
			}
		}
		if len(not) == 0 {
			return nodes
		}
		if time.Now().After(end) {
			t.Fatalf("not ready: %q", not)
		}
	}
}

// bloomdAddr returns where a node of a cluster serves bloomd's protocol.
func (n *Node) bloomdAddr() string { return n.doors[1].listener.Addr().String() }

// TestReplayInCluster holds the conversations that were recorded at a real bloomd with nodes of a cluster. Answers differ by the bytes that filters take, for each owner of
// each slice has a layer of its own, and in that there are no filters in memory only.
func TestReplayInCluster(t *testing.T) {
	files, err := filepath.Glob("bloomd/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	share := tier.ShareOf(t, 3, 2)
	for i, file := range files {
		for at := range 3 {
			if (at != i%3 || !share.Has(i)) && !tier.Full() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%c", filepath.Base(file), 'a'+at), func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				script, err := bloomdtest.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				c, err := bloomd.Dial(t.Context(), startCluster(t, 3, nil)[at].bloomdAddr())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := script.InCluster().Replay(func(line []byte) ([]byte, error) {
					answer, err := c.Do(line)
					return bloomdtest.InCluster(answer), err
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCopyLimit: the bound of copies that a node is started with is that of its member.
func TestCopyLimit(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 1, func(_ int, c *Config) {
		if err := c.Set("cluster_copy_bytes_per_second", "5000000"); err != nil {
			t.Fatal(err)
		}
	})
	if s := nodes[0].member.Status(); s.CopyLimit != 5_000_000 {
		t.Errorf("%+v", s)
	}
	c := testConfig(t)
	if err := c.Set("cluster_copy_bytes_per_second", "-1"); err == nil {
		t.Error("a negative bound is taken")
	}
}
