package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset/bench/probe"
	"bigset/bench/system"
	"bigset/internal/testkit/tier"
)

// plainBloomd answers as bloomd does, from maps. deny is a key that it says is not there, silent one that it gives no answer to. It reports the
// first changes as failed, as many as faults says, and makes some of them all the same.
type plainBloomd struct {
	mu           sync.Mutex
	filters      map[string]map[string]bool
	created      int
	faults       int
	deny, silent string
}

func servePlain(t *testing.T, s *plainBloomd) string {
	t.Helper()
	s.filters = map[string]map[string]bool{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				w := bufio.NewWriter(conn)
				for in := bufio.NewScanner(conn); in.Scan(); {
					_, _ = w.WriteString(s.answer(strings.Fields(in.Text())))
					_ = w.Flush()
				}
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func (s *plainBloomd) answer(words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	command, filter := words[0], s.filters[words[1]]
	answer := "Done\n"
	if (command == "create" || command == "drop") && s.faults > 0 {
		answer = "Internal Error\n"
		if s.faults--; s.faults%2 == 0 {
			return answer
		}
	}
	switch {
	case command == "create" && filter != nil:
		return "Exists\n"
	case command == "create":
		s.filters[words[1]] = map[string]bool{}
		s.created++
		return answer
	case filter == nil:
		return "Filter does not exist\n"
	case command == "drop":
		delete(s.filters, words[1])
		return answer
	}
	var answers []string
	for _, key := range words[2:] {
		if key == s.silent {
			return "Client Error: Bad arguments\n"
		}
		there := filter[key]
		if command == "set" || command == "bulk" {
			filter[key] = true
			there = !there
		} else if s.deny != "" && strings.HasSuffix(key, s.deny) {
			there = false
		}
		answers = append(answers, map[bool]string{true: "Yes", false: "No"}[there])
	}
	return strings.Join(answers, " ") + "\n"
}

func tinyBloomd(a string) BloomdConfig {
	return BloomdConfig{A: BloomdServer{Addr: a, PID: os.Getpid()}, Connections: []int{1, 3}, Depths: tier.Pick([]int{16}, []int{16}, []int{1, 16}),
		Passes: 2, Span: 20 * time.Millisecond, Keys: 10_100}
}

func TestRunBloomd(t *testing.T) {
	var a, b plainBloomd
	c := tinyBloomd(servePlain(t, &a))
	c.B = BloomdServer{Addr: servePlain(t, &b)}
	if _, err := probe.ProcessCPU(os.Getpid()); err != nil { // no Linux
		c.A.PID = 0
	}
	report, err := RunBloomd(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	points := len(c.Connections) * len(c.Depths)
	if want := 2 * points * len(bloomdModes); len(report.Results) != want {
		t.Errorf("got %d rows, want %d", len(report.Results), want)
	}
	for _, r := range report.Results {
		if len(r.Rounds) != 2 || r.OpsPerSecond <= 0 || r.P50 == nil || (r.CPUMicros != nil) != (r.System == systemA && c.A.PID != 0) {
			t.Errorf("got row %+v", r)
		}
	}
	for _, s := range []*plainBloomd{&a, &b} {
		// in each of two passes one for each of the loads that write, and one that is asked
		if s.created != 2*2*points+1 || len(s.filters) != 0 {
			t.Errorf("%d filters were made, %d are left", s.created, len(s.filters))
		}
	}
	var text bytes.Buffer
	if err := report.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "-> bloomd/bulk-1-16 throughput, of b's: ") || strings.Contains(text.String(), "bulk-1-16 p50") {
		t.Errorf("got\n%s", text.String())
	}
}

func TestRunBloomdWrong(t *testing.T) {
	for _, s := range []*plainBloomd{{deny: "8"}, {silent: "000000000008"}} {
		c := tinyBloomd(servePlain(t, s))
		c.Modes = []string{"set"} // where nothing but the number of words tells
		if s.deny != "" {
			c.Modes = []string{"check"}
		}
		report, err := RunBloomd(context.Background(), c)
		if !errors.Is(err, system.ErrWrong) || report == nil {
			t.Fatalf("deny %q, silent %q: got %v", s.deny, s.silent, err)
		}
		if report.Repeated[systemA] != bloomdTries-1 {
			t.Errorf("tried again %d times", report.Repeated[systemA])
		}
		if len(s.filters) != 0 {
			t.Errorf("%d filters are left", len(s.filters))
		}
	}
}

// TestBloomdFaults: a create or a drop that fails is tried again, and one that was done although it was reported as failed counts as done.
func TestBloomdFaults(t *testing.T) {
	for _, faults := range []int{1, 2} {
		s := &plainBloomd{}
		r := &bloomdRunner{ctx: t.Context(), cfg: BloomdConfig{}.withDefaults(), run: "x"}
		server, err := r.connect("a", BloomdServer{Addr: servePlain(t, s)})
		if err != nil {
			t.Fatal(err)
		}
		s.faults = faults
		name, err := r.create(server)
		if err != nil || s.filters[name] == nil || s.created != 1 {
			t.Errorf("%d faults: %v, created %d", faults, err, s.created)
		}
		server.full, s.faults = name, faults
		if err := r.leave(server); err != nil || len(s.filters) != 0 {
			t.Errorf("%d faults: %v, %d filters are left", faults, err, len(s.filters))
		}
	}
	// Without a fault, a filter that exists already is a wrong answer.
	s := &plainBloomd{}
	r := &bloomdRunner{ctx: t.Context(), cfg: BloomdConfig{}.withDefaults(), run: "x"}
	server, err := r.connect("a", BloomdServer{Addr: servePlain(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	s.filters["bench-x-000001"] = map[string]bool{}
	if _, err := r.create(server); !errors.Is(err, system.ErrWrong) {
		t.Errorf("a filter that exists is created: %v", err)
	}
}

func TestBloomdLoad(t *testing.T) {
	l := newBloomdLoad(bloomdMode{"multi", 100, false}, "f", 10_100)
	part, n := l.part(100, 5)
	words := strings.Fields(string(part))
	if n != 1 || l.count != 101 || len(words) != 102 || !slices.Equal(words[:4], []string{"multi", "f", "000000010000", "000000020101"}) {
		t.Errorf("got %d: %v", n, words)
	}
	if part, n = l.part(101, 2); n != 2 || !bytes.Equal(part, l.requests[:2*l.length]) {
		t.Errorf("got %d: %q", n, part)
	}
}

// TestDepth holds a connection to the number of requests that may be in flight, and to the time after which it sends no more.
func TestDepth(t *testing.T) {
	client, server := net.Pipe()
	l := newBloomdLoad(bloomdMode{"check", 1, false}, "f", 10_100)
	c := &bloomdConn{conn: client, buf: make([]byte, 100), hist: newHistogram()}
	done := make(chan error, 1)
	go func() { done <- c.drive(l, 10_099, 3, 8, time.Now().Add(time.Minute)) }()
	// The server reads some requests and answers some of them. For each answer it is sent another request, until eight wait for their answers.
	for _, step := range []struct{ reads, answers int }{{3, 1}, {1, 2}, {2, 3}, {2, 2}} {
		b := make([]byte, step.reads*l.length)
		_ = server.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := io.ReadFull(server, b); err != nil {
			t.Fatalf("was sent %d bytes, want %d requests: %v", n, step.reads, err)
		}
		_ = server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := server.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("was sent %d bytes more than %d requests: %v", n, step.reads, err)
		}
		_ = server.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprint(server, strings.Repeat("Yes\n", step.answers)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil || c.requests != 8 || c.yes != 8 || c.hist.TotalCount() != 8 || len(c.sent) != 0 {
		t.Errorf("got %d answers, %d Yes, %d measured, %d not measured: %v", c.requests, c.yes, c.hist.TotalCount(), len(c.sent), err)
	}
}

func TestBloomdConfig(t *testing.T) {
	for _, c := range []BloomdConfig{
		{}, {A: BloomdServer{Addr: "x"}, Modes: []string{"sets"}}, {A: BloomdServer{Addr: "x"}, Depths: []int{0}},
		{A: BloomdServer{Addr: "x"}, Connections: []int{1 << 20}}, {A: BloomdServer{Addr: "x"}, Keys: 150_050 + 1}, {A: BloomdServer{Addr: "x"}, Probability: 0.1},
	} {
		if _, err := RunBloomd(context.Background(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestGoalsBesideBloomd(t *testing.T) {
	one, two := BloomdReport{Config: BloomdConfig{Workers: 1}}, BloomdReport{Config: BloomdConfig{Workers: 2}}
	for _, c := range []struct {
		r                  *BloomdReport
		mode               int
		connections, depth int
		want               string
	}{
		{&one, 0, 16, 1, "0.8 1.3"}, {&one, 1, 1, 64, "1.5 0.7"}, {&one, 2, 64, 16, "1 1"}, {&one, 3, 1, 64, ""}, {&two, 1, 64, 16, "1"}, {&two, 1, 16, 16, ""},
	} {
		var limits []string
		p := bloomdPoint{mode: bloomdModes[c.mode], connections: c.connections, depth: c.depth}
		for _, g := range c.r.goals(p) {
			limits = append(limits, fmt.Sprint(g.Limit))
		}
		if got := strings.Join(limits, " "); got != c.want {
			t.Errorf("%s: got goals %q, want %q", p.name(), got, c.want)
		}
	}
}
