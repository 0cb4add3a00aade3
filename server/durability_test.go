package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// afterCut opens a store as it is after a power cut, and reports which elements a set has, and whether the store may lack some.
func afterCut(t *testing.T, disk *testkit.Disk, dir, set string, elements ...string) (has []bool, lacks bool) {
	t.Helper()
	s, err := engine.Open(dir, &engine.Options{FS: disk.CrashClone(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var names [][]byte
	for _, e := range elements {
		names = append(names, []byte(e))
	}
	found, err := s.Subset(t.Context(), []byte(set), names)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	has = make([]bool, len(names))
	for i := range found {
		has[i] = found[i].Present
	}
	lacks, _ = s.Replica().MayLack()
	return has, lacks
}

// TestSetDurability cuts the power of a node alone: what is kept is what each durability says, and a request's own DW wins.
func TestSetDurability(t *testing.T) {
	for d, name := range setDurabilityNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := testkit.NewDisk()
			c := testConfig(t)
			c.DataDir, c.Store, c.Resp, c.SetDurability = "data", &engine.Options{FS: disk}, "127.0.0.1:0", SetDurability(d)
			n := startNode(t, c)
			redis(t, n, "CONFIG GET appendfsync", fmt.Sprintf("*2\r\n$11\r\nappendfsync\r\n$%d\r\n%s\r\n", len(name), name))
			count := 0
			lost := func(request string, tries int) bool { // whether of some elements one is lost that was acknowledged; what is synced beside takes others along
				for range tries {
					count++
					element := fmt.Sprintf("e%d", count)
					redis(t, n, strings.ReplaceAll(request, "@", element), map[bool]string{true: "*1\r\n", false: ":1\r\n"}[strings.HasPrefix(request, "BS")])
					if has, lacks := afterCut(t, disk, "data", "s", element); !has[0] {
						if !lacks {
							t.Error("what was acknowledged is lost, and the store says that nothing is missing")
						}
						return true
					}
				}
				return false
			}
			kept := tier.Pick(10, 10, 50)
			if d == int(SetsAlways) && lost("SADD s @", kept) || d != int(SetsAlways) && !lost("SADD s @", 50) {
				t.Error("what was acknowledged is lost, or all of it was synced")
			}
			if lost("BS.ADD s DW 1 ELEMENTS @", kept) {
				t.Error("what asked for a disk is lost")
			}
			if !lost("BS.ADD s DW 0 ELEMENTS @", 50) {
				t.Error("what asked for no disk has waited for one")
			}
			redis(t, n, "SADD s a b", ":2\r\n")
			if d == int(SetsEverySecond) {
				eventually(t, "it is on disk", func() bool {
					has, _ := afterCut(t, disk, "data", "s", "a")
					return has[0]
				})
			}
			redis(t, n, "SADD s last", ":1\r\n", "SREM s b", ":1\r\n")
			stopNode(t, n)
			if has, lacks := afterCut(t, disk, "data", "s", "a", "b", "last"); fmt.Sprint(has) != "[true false true]" || lacks {
				t.Errorf("after a stop in order it has %v, and may lack something: %v", has, lacks)
			}
		})
	}
}

// TestSetDurabilityInCluster has a member lose power whose clients did not wait for disks: it joins under another epoch, and is filled with what it has lost. Where they waited it is
// the member that it was.
func TestSetDurabilityInCluster(t *testing.T) {
	for _, d := range []SetDurability{SetsAlways, SetsNo} {
		t.Run(setDurabilityNames[d], func(t *testing.T) {
			t.Parallel()
			disks := make([]*testkit.Disk, 3)
			configs := make([]Config, 3)
			nodes := startCluster(t, 3, func(i int, c *Config) {
				disks[i] = testkit.NewDisk()
				c.Store, c.Resp, c.SetDurability = &engine.Options{FS: disks[i]}, "127.0.0.1:0", d
				configs[i] = *c
			})
			epoch := nodes[0].member.Status().Epoch
			redis(t, nodes[0], "SADD s a b c", ":3\r\n")
			eventually(t, "all have it", func() bool {
				s, err := nodes[2].store.Load().Replica().State(t.Context(), []byte("s"))
				return err == nil && s.Seen.Len() == 3
			})
			if d == SetsAlways {
				// Two disks of three are enough for the answer: the third syncs in its own time.
				eventually(t, "the third has it on disk", func() bool {
					has, _ := afterCut(t, disks[2], configs[2].DataDir, "s", "a", "b", "c")
					return fmt.Sprint(has) == "[true true true]"
				})
			}
			if _, lacks := afterCut(t, disks[2], configs[2].DataDir, "s"); lacks != (d == SetsNo) {
				t.Fatalf("it may lack something: %v", lacks)
			}
			after := vfs.FS(disks[2].CrashClone(0, 1))
			stopNode(t, nodes[2])
			configs[2].Store = &engine.Options{FS: after}
			n, err := Start(configs[2], slog.New(slog.NewTextHandler(t.Output(), nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer stopNode(t, n)
			eventually(t, "it is whole", func() bool { s := n.member.Status(); return s.Serves && s.Sets && s.Epoch > 0 })
			if now := n.member.Status().Epoch; (now > epoch) != (d == SetsNo) {
				t.Errorf("epoch %d, and before the power cut %d", now, epoch)
			}
			eventually(t, "it knows all events", func() bool {
				s, err := n.store.Load().Replica().State(t.Context(), []byte("s"))
				return err == nil && s.Seen.Len() == 3
			})
			awaitOthers(t, []*Node{n}, "a") // which it asks when b has stopped
			stopNode(t, nodes[1])
			redis(t, n, "SCARD s", ":3\r\n")
		})
	}
}
