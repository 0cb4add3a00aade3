//go:build unix

package server

import (
	"bytes"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"bigset/server/bloomd"
)

// BenchmarkClusterFilters asks a node of a cluster of three, all in this process, by bloomd's protocol over loopback, and a node alone. It reports the CPU time of a request:
// that of the nodes and of the client, which a busy machine changes less than it changes how long a request takes.
func BenchmarkClusterFilters(b *testing.B) {
	const capacity = 1 << 20
	for _, nodes := range []int{1, 3} {
		at := benchNode(b, nodes)
		fill(b, at, requests("bulk", 1000, capacity))
		for _, load := range []struct {
			command            string
			keys, conns, depth int
		}{{"multi", 1000, 4, 2}, {"c", 1, 64, 16}, {"bulk", 1000, 4, 2}} {
			b.Run(fmt.Sprintf("%s/nodes=%d", load.command, nodes), func(b *testing.B) {
				clients := make([]*bloomd.Client, load.conns)
				for i := range clients {
					clients[i] = dialBench(b, at)
				}
				if load.command == "bulk" {
					recreate(b, clients[0], capacity)
				}
				lines := requests(load.command, load.keys, capacity)
				rounds := (b.N + load.conns*load.depth - 1) / (load.conns * load.depth)
				b.ResetTimer()
				began := cpuTime(b)
				var all sync.WaitGroup
				for i, c := range clients {
					all.Go(func() { drive(b, c, lines, i*len(lines)/load.conns, load.depth, rounds) })
				}
				all.Wait()
				b.ReportMetric(float64(cpuTime(b)-began)/1e3/float64(rounds*load.conns*load.depth), "cpu-µs/op")
			})
		}
	}
}

// benchNode starts a cluster, or a node alone that answers marks as late, and returns where it serves bloomd's protocol.
func benchNode(b *testing.B, nodes int) string {
	if nodes > 1 {
		return startCluster(b, nodes, nil)[0].bloomdAddr()
	}
	c := testConfig(b)
	if err := c.Set("durability", "log"); err != nil {
		b.Fatal(err)
	}
	return startNode(b, c).Addr().String()
}

func dialBench(b *testing.B, at string) *bloomd.Client {
	c, err := bloomd.Dial(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// recreate makes the filter, empty.
func recreate(b *testing.B, c *bloomd.Client, capacity int) {
	_, _ = c.Do([]byte("drop bench"))
	if got, err := c.Do(fmt.Appendf(nil, "create bench capacity=%d prob=0.0001", capacity)); err != nil || string(got) != "Done\n" {
		b.Fatalf("%q, %v", got, err)
	}
}

// fill makes the filter and adds all keys.
func fill(b *testing.B, at string, lines [][]byte) {
	c := dialBench(b, at)
	recreate(b, c, 1000*len(lines))
	drive(b, c, lines, 0, 2, len(lines)/2)
}

// requests returns lines of some keys each, of capacity keys together. Of two keys that are asked for one was never added.
func requests(command string, keys, capacity int) (lines [][]byte) {
	for from := 0; from+keys <= capacity; from += keys {
		line := append(make([]byte, 0, 20+17*keys), command+" bench"...)
		for n := from; n < from+keys; n++ {
			key := n
			if command != "bulk" && n%2 == 1 {
				key += capacity
			}
			line = fmt.Appendf(line, " %016d", key)
		}
		lines = append(lines, line)
	}
	return lines
}

// drive sends requests from one on, several at a time, and wants an answer to each.
func drive(b *testing.B, c *bloomd.Client, lines [][]byte, from, depth, rounds int) {
	for range rounds {
		for range depth {
			if err := c.Queue(lines[from%len(lines)]); err != nil {
				b.Error(err)
				return
			}
			from++
		}
		for range depth {
			if got, err := c.Receive(); err != nil || !bytes.ContainsAny(got, "YN") {
				b.Errorf("%.80q, %v", got, err)
				return
			}
		}
	}
}

// cpuTime returns the CPU time that this process has taken.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
