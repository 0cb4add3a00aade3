package resp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/server/door"
)

// TestTogether has clients that change and ask the same sets in pipelines at the same time, each elements of its own: each has the answers that it would have alone.
func TestTogether(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 2, -1} {
		dial, _ := start(t, Options{Options: door.Options{Loops: loops}})
		var wg sync.WaitGroup
		for client := range 8 {
			p := dial()
			wg.Go(func() { talk(t, p, client) })
		}
		wg.Wait()
		if got := dial().do(t, "SADD", "filter", "x"); got != ":1" {
			t.Errorf("%d loops: %s", loops, got)
		}
	}
}

// talk sends pipelines and holds the answers against a model.
func talk(t *testing.T, p *peer, client int) {
	r := rand.New(rand.NewPCG(1, uint64(client)))
	model := map[string]bool{}
	for range tier.Pick(8, 15, 60) {
		var all []byte
		var want []string
		for range 1 + r.IntN(60) {
			key := string("abc"[r.IntN(3)])
			e, f := fmt.Sprint(client, "-", r.IntN(20)), fmt.Sprint(client, "-", r.IntN(20))
			has := model[key+e]
			bit := map[bool]string{false: ":0", true: ":1"}
			switch r.IntN(9) {
			case 0, 1, 2:
				all = append(all, request("SADD", key, e)...)
				want = append(want, bit[!has])
				model[key+e] = true
			case 3:
				all = append(all, request("SREM", key, e)...)
				want = append(want, bit[has])
				delete(model, key+e)
			case 4, 5:
				all = append(all, request("SISMEMBER", key, e)...)
				want = append(want, bit[has])
			case 6:
				all = append(all, request("SMISMEMBER", key, e, f)...)
				want = append(want, "*["+bit[has]+" "+bit[model[key+f]]+"]")
			case 7:
				all = append(all, "PING \"a b\"\r\n"...) // unquoted in its place, once
				want = append(want, `$"a b"`)
			case 8:
				all = append(all, request("SADD", key, strings.Repeat("x", 70_000))...)
				want = append(want, "-ERR element is 70000 bytes, the maximum is 65536")
			}
		}
		p.Write(all)
		for i, w := range want {
			if got, err := readReply(p.in); err != nil || got != w {
				t.Errorf("client %d: reply %d of %d is %.200s, %v; want %s", client, i, len(want), got, err, w)
				return
			}
		}
	}
}

// TestFlood: a client gets its answers while others flood the server, one of which reads no answers: as a rule each comes before many of their commands are executed.
func TestFlood(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{Options: door.Options{Loops: 1}})
	var wg sync.WaitGroup
	var floods []net.Conn
	for i, cmd := range []string{"SISMEMBER", "SADD"} {
		p := dial()
		floods = append(floods, p)
		some := []byte(strings.Repeat(string(request(cmd, "k", "element")), 500))
		wg.Go(func() {
			for {
				if _, err := p.Write(some); err != nil {
					return
				}
			}
		})
		if i > 0 { // the first one reads nothing
			wg.Go(func() { io.Copy(io.Discard, p.in) })
		}
	}
	defer wg.Wait()
	defer func() {
		for _, p := range floods {
			p.Close()
		}
	}()
	p := dial()
	executed := func() uint64 {
		return s.counters.commands["sismember"].Load() + s.counters.commands["sadd"].Load()
	}
	for executed() < 2_000 {
		time.Sleep(time.Millisecond)
	}
	var between []uint64
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); { // on a busy machine the client itself is late
		between = between[:0]
		for range tier.Pick(7, 7, 50) {
			before := executed()
			if got := p.do(t, "SISMEMBER", "k", "other"); got != ":0" {
				t.Fatal(got)
			}
			between = append(between, executed()-before)
		}
		slices.Sort(between)
		if between[len(between)/2] <= 10_000 {
			return
		}
	}
	t.Errorf("%d commands of others come before one of a client, in the middle; at most %d", between[len(between)/2], between[len(between)-1])
}

// TestCallBytes: a change of many elements of a key with a long name is a large call, though its request is short.
func TestCallBytes(t *testing.T) {
	g := group{key: make([]byte, 32<<10), ops: make([]door.Op, 1000), bytes: 2000}
	if got, want := g.callBytes(), 2000+(1000<<15); got != want {
		t.Errorf("changes have %d bytes, want %d", got, want)
	}
	if g := (group{key: g.key, asks: true, elements: make([][]byte, 1000), bytes: 2000}); g.callBytes() != 2000 {
		t.Errorf("questions have %d bytes", g.callBytes())
	}
}
