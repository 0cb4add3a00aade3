package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
	"bigset/server/certs"
	"bigset/server/coord"
)

// awayTime is how long a member that was away and missed little may take until it counts.
const awayTime = 10 * time.Second

// TestAway stops a member, adds elements and marks keys at the others, and starts it again: within awayTime it serves reads, the others
// know that, its own store has what it missed, and no hint is left.
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
			away := func(round int) {
				const missed = 200
				set := []byte(fmt.Sprint("missed", round))
				stopNode(t, nodes[2])
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
					if time.Since(began) > awayTime {
						t.Fatalf("after %v it does not count: %s", time.Since(began), why)
					}
					time.Sleep(5 * time.Millisecond)
				}
				t.Logf("counts after %v", time.Since(began))
			}
			talkAt(t, nodes[0].bloomdAddr(), "create f", "Done")
			for round := range tier.Pick(1, 1, 5) {
				away(round)
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
