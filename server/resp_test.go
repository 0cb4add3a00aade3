package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// redis sends inline commands to a node's port for clients of redis, and wants answers that begin so, for each pair. A | stands between
// answers of one length of which each will do.
func redis(t *testing.T, n *Node, pairs ...string) {
	t.Helper()
	if err := askRedis(n, pairs); err != nil {
		t.Error(err)
	}
}

// redisSoon asks again until the answers are as wanted: a listing comes from one member, which may not have heard of the last changes.
func redisSoon(t *testing.T, n *Node, pairs ...string) {
	t.Helper()
	err := askRedis(n, pairs)
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = askRedis(n, pairs) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

func askRedis(n *Node, pairs []string) error {
	for _, d := range n.doors {
		if d.name != "resp" {
			continue
		}
		nc, err := net.Dial("tcp", d.listener.Addr().String())
		if err != nil {
			return err
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(nc)
		for i := 0; i < len(pairs); i += 2 {
			wants := strings.Split(pairs[i+1], "|")
			answer := make([]byte, len(wants[0]))
			fmt.Fprintf(nc, "%s\r\n", pairs[i])
			if got, err := io.ReadFull(in, answer); err != nil || !slices.Contains(wants, string(answer)) {
				rest, _ := in.Peek(in.Buffered())
				return fmt.Errorf("%q: got %q %.200q, %v, want %q", pairs[i], answer[:got], rest, err, wants)
			}
		}
		return nil
	}
	return errors.New("no port for clients of redis")
}

// TestResp has sets and filters of a node alone over a restart, in one key space with bloomd's.
func TestResp(t *testing.T) {
	c := testConfig(t)
	c.Resp = "127.0.0.1:0"
	n := startNode(t, c)
	redis(t, n,
		"SADD s a b", ":2\r\n",
		"SADD s b c", ":1\r\n",
		"BF.ADD f x", ":1\r\n",
		"SADD f a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
		"BF.ADD s a", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
		"DBSIZE", ":2\r\n")
	talk(t, n, "check f x", "Yes", "create g", "Done", "list g", "START\ng 0.000100 300046 100000 0\nEND")
	redis(t, n, "TYPE g", "+MBbloom--\r\n")
	stopNode(t, n)
	n = startNode(t, c)
	redis(t, n, "SCARD s", ":3\r\n", "BF.EXISTS f x", ":1\r\n", "DEL s f g", ":3\r\n", "KEYS *", "*0\r\n")
	found := false
	for _, m := range n.doors.metrics() {
		found = found || m.Name == "resp_commands" && m.Of == "del" && fmt.Sprint(m.Value) == "1"
	}
	if !found {
		t.Error("DEL was not counted")
	}
}

// TestRespAddress: what others could reach has to be asked for.
func TestRespAddress(t *testing.T) {
	for address, good := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": false, "0.0.0.0:1": false, "192.0.2.1:1": false, "example.org:1": false} {
		c := Defaults()
		c.Resp = address
		if err := c.Validate(); (err == nil) != good || !good && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "--insecure-clients")) {
			t.Errorf("%s: %v", address, err)
		}
		c.InsecureClients = true
		if err := c.Validate(); err != nil {
			t.Errorf("%s, insecure: %v", address, err)
		}
	}
}

// TestRespInCluster asks every node of three for the same keys, then with one of them away.
func TestRespInCluster(t *testing.T) {
	nodes := startCluster(t, 3, func(_ int, c *Config) { c.Resp = "127.0.0.1:0" })
	for i, n := range nodes {
		if i > 0 { // an add's reply is of what this node knows
			redisSoon(t, n, "DBSIZE", ":2\r\n")
		}
		redis(t, n,
			fmt.Sprintf("SADD s a b own%d", i), map[int]string{0: ":3\r\n", 1: ":1\r\n", 2: ":1\r\n"}[i],
			"WAIT 1 0", ":1\r\n|:2\r\n", // W is 2, and the third may have been as quick
			"SISMEMBER s a", ":1\r\n",
			"SCARD s", fmt.Sprintf(":%d\r\n", 3+i),
			fmt.Sprintf("BF.ADD f k%d", i), ":1\r\n",
			"BF.EXISTS f k0", ":1\r\n",
			"SADD f a", "-WRONGTYPE",
		)
		redisSoon(t, n, "DBSIZE", ":2\r\n")
		redis(t, n, "TYPE f", "+MBbloom--\r\n",
			fmt.Sprintf("SADD big%d 1 2 3", i), ":3\r\n", fmt.Sprintf("SUNIONSTORE to%d s big%d", i, i), fmt.Sprintf(":%d\r\n", 6+i), "SINTERCARD 2 s big0", ":0\r\n",
			fmt.Sprintf("DEL big%d to%d", i, i), ":2\r\n")
	}
	redisSoon(t, nodes[1], "SCAN 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\ns\r\n$1\r\nf\r\n")
	redis(t, nodes[1], "SMEMBERS s", "*5\r\n$1\r\na\r\n$1\r\nb\r\n$4\r\nown0\r\n")
	stopNode(t, nodes[2])
	for _, n := range nodes[:2] {
		redis(t, n, "SISMEMBER s own2", ":1\r\n", "SREM s b nothing", map[bool]string{true: ":1\r\n", false: ":0\r\n"}[n == nodes[0]], "SADD s c", map[bool]string{true: ":1\r\n", false: ":0\r\n"}[n == nodes[0]])
	}
	stopNode(t, nodes[1])
	redis(t, nodes[0], "SADD s d", "-", "PING", "") // one of three can't do it, and says so
}

// TestBatchMemory: a change of a set with a long name takes memory for its batch, alone and in a cluster.
func TestBatchMemory(t *testing.T) {
	c := testConfig(t)
	c.Resp = "127.0.0.1:0"
	nodes := append(startCluster(t, 1, func(_ int, c *Config) { c.Resp = "127.0.0.1:0" }), startNode(t, c))
	key := strings.Repeat("k", 30_000)
	for i, n := range nodes {
		if !n.limits.TakeLong(longBytesLeast) {
			t.Fatalf("node %d: requests use memory", i)
		}
		redis(t, n, "SADD "+key+" a b c", "-TRYAGAIN ")
		n.limits.GiveLong(longBytesLeast)
		redis(t, n, "SADD "+key+" a b c", ":3\r\n", "SCARD "+key, ":3\r\n")
	}
}
