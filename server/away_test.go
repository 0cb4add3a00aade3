package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/coord"
)

// awayTime is how long a member that was away and missed little may take until it counts.
const awayTime = 10 * time.Second

// TestAway ends a member, adds elements and marks keys at the others, and starts it again: within awayTime it serves reads, the others
// know that, its own store has what it missed, and no hint is left. In every other round the member is a process, which kill -9 ends.
func TestAway(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", encrypted), func(t *testing.T) {
			t.Parallel()
			configs := make([]Config, 3)
			_, issue := issuer(t)
			nodes := startCluster(t, 3, func(i int, c *Config) {
				if encrypted {
					c.Peers.Insecure, c.Peers.TLS = false, issue(certs.RoleNode, string(rune('a'+i)))
				}
				configs[i] = *c
			})
			away := func(round int) (took time.Duration) {
				const missed = 200
				set := []byte(fmt.Sprint("missed", round))
				stopNode(t, nodes[2])
				awaitGone(t, nodes[:2], "c")
				if round%2 == 0 {
					kill := startProcess(t, configs[2])
					awaitOthers(t, nodes[:2], "c")
					kill()
				}
				for i := range missed {
					ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, i)}}
					if _, err := nodes[i%2].member.Coordinator().Write(t.Context(), coord.Write{Set: set, Ops: ops}); err != nil {
						t.Fatal(err)
					}
					if i%10 == 0 {
						talkAt(t, nodes[i%2].bloomdAddr(), fmt.Sprintf("set f key%d-%d", round, i), "Yes")
					}
				}
				began := time.Now()
				nodes[2] = startNode(t, configs[2])
				for {
					why := notCounted(t, nodes, set, missed)
					if why == "" {
						break
					}
					if time.Since(began) > time.Minute {
						t.Fatalf("after %v it does not count: %s", time.Since(began), why)
					}
					time.Sleep(5 * time.Millisecond)
				}
				took = time.Since(began)
				t.Logf("counts after %v", took)
				return took
			}
			talkAt(t, nodes[0].bloomdAddr(), "create f", "Done")
			late := 0 // rounds; this machine may be too busy to say
			for round := 0; round < tier.Pick(1, 1, 6)+late; round++ {
				if took := away(round); took > awayTime {
					if late++; late == 4 {
						t.Fatalf("it counts after %v, and the %d times before were not in time either", took, late-1)
					}
				}
			}
		})
	}
}

// notCounted returns why the last node does not count, or has not everything that it missed: "" if it does and has.
func notCounted(t *testing.T, nodes []*Node, set []byte, elements int) string {
	t.Helper()
	last := nodes[len(nodes)-1]
	if why := last.member.NotReady(); len(why) > 0 {
		return fmt.Sprint("it is not ready: ", why)
	}
	for _, n := range nodes {
		s := n.member.Status()
		for _, m := range s.Members {
			if !m.Up || !m.Sets || !m.Filters || m.Hints > 0 {
				return fmt.Sprintf("%s at %s: up %v, sets %v, filters %v, %d hints", m.ID, s.Node, m.Up, m.Sets, m.Filters, m.Hints)
			}
		}
	}
	c, err := last.store.Load().Count(context.Background(), set, engine.CountOptions{})
	if err != nil || int(c.Elements) != elements {
		return fmt.Sprintf("its store has %d of %d elements, %v", c.Elements, elements, err)
	}
	return ""
}

const (
	processConfig  = "BIGSET_TEST_NODE" // the variable with the configuration of a node's process
	processStarted = "the node has started"
)

// TestNodeProcess is no test: it is a node in a process of its own, which startProcess starts.
func TestNodeProcess(t *testing.T) {
	text := os.Getenv(processConfig)
	if text == "" {
		t.Skip("this is the process of another test")
	}
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	startNode(t, c)
	fmt.Println(processStarted)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the process that started it has ended
}

// startProcess starts a node in a process of its own, and returns the function that kills it.
func startProcess(t *testing.T, c Config) (kill func()) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNodeProcess$", "-test.v")
	cmd.Env = append(os.Environ(), processConfig+"="+string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it has ended if that fails, and Wait says how
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Errorf("the process of a node ended by itself: %v", err)
		}
	})
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == processStarted {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends; a full pipe would stop it
			return kill
		}
		fmt.Fprintln(t.Output(), lines.Text())
	}
	t.Fatal("the process of a node did not start")
	return nil
}

// awaitGone waits until nodes know that a member isn't up.
func awaitGone(t *testing.T, nodes []*Node, id string) {
	t.Helper()
	up := func(n *Node) bool {
		return slices.ContainsFunc(n.member.Status().Members, func(m cluster.MemberStatus) bool { return m.ID == id && m.Up })
	}
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(nodes, up); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is stopped, and still counts as up", id)
		}
	}
}

// awaitOthers waits until nodes are connected to a member, which has everything and is sent no hints.
func awaitOthers(t *testing.T, nodes []*Node, id string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		why := ""
		for _, n := range nodes {
			for _, m := range n.member.Status().Members {
				if m.ID == id && (!m.Up || !m.Sets || !m.Filters || m.Hints > 0) {
					why = fmt.Sprintf("%s at %s: %s, sets %v, filters %v, %d hints", id, n.config.Peers.Node, m.Why, m.Sets, m.Filters, m.Hints)
				}
			}
		}
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(why)
		}
	}
}
