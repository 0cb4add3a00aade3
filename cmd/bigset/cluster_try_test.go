//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
)

// trying is a trial in a process of its own.
type trying struct {
	t     *testing.T
	cmd   *exec.Cmd
	temp  string // its temporary folder
	said  string
	nodes []map[string]string // by the heads of the table's columns
	pids  []int
	errs  messages
	rest  chan string
}

// startTrying starts a trial and waits until it has printed how to talk to it.
func startTrying(t *testing.T, args ...string) *trying {
	t.Helper()
	r := &trying{t: t, temp: t.TempDir(), cmd: command(t, append([]string{"cluster", "try", "--free-ports"}, args...)...), rest: make(chan string, 1)}
	r.cmd.Env = append(r.cmd.Env, "TMPDIR="+r.temp)
	r.cmd.SysProcAttr = apart() // a group, as a shell gives a command in the foreground
	r.cmd.Stderr = &r.errs
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range r.pids { // none, unless the test failed
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = r.cmd.Process.Kill() // does nothing if it has ended
	})
	lines := bufio.NewReader(out)
	for !strings.Contains(r.said, "Ctrl-C ends them.\n") {
		line, err := lines.ReadString('\n')
		r.said += line
		if err != nil {
			t.Fatalf("%v after %q; %s", err, r.said, &r.errs)
		}
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		r.rest <- string(rest)
	}()
	_, table, _ := strings.Cut(r.said, "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	heads := strings.Split(strings.ReplaceAll(rows[0], "CLIENTS AND NODES", "CLIENTS"), " ")
	for _, row := range rows[1:] {
		node, cells := map[string]string{}, strings.Fields(row)
		for i, head := range strings.Fields(strings.Join(heads, " ")) {
			node[head] = cells[i]
		}
		pid, err := strconv.Atoi(node["PROCESS"])
		if err != nil {
			t.Fatalf("%v in\n%s", err, table)
		}
		r.nodes, r.pids = append(r.nodes, node), append(r.pids, pid)
	}
	return r
}

// end sends a signal to the group of the trial, as a terminal does, and wants nothing to be left.
func (r *trying) end(s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(-r.cmd.Process.Pid, s); err != nil {
		r.t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	if rest := <-r.rest; rest != "" {
		r.t.Errorf("at the end it says %q", rest)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("it ends with %v: %s", err, &r.errs)
	}
	for _, pid := range r.pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			r.t.Errorf("process %d of a node is left: %v", pid, err)
		}
	}
	if !r.t.Failed() {
		r.pids = nil // the system may give these numbers to other processes
	}
	if left, err := os.ReadDir(r.temp); err != nil || len(left) > 0 {
		r.t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// exchange sends bytes to a port and returns as many as are wanted.
func (r *trying) exchange(port, send, want string) string {
	r.t.Helper()
	nc, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, send); err != nil {
		r.t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(want))
	n, _ := io.ReadFull(nc, got)
	return string(got[:n])
}

// TestClusterTry starts a trial, does what it prints, in its order, and ends it by Ctrl-C. Every door of every node has the same sets.
func TestClusterTry(t *testing.T) {
	if testing.Short() {
		t.Skip("processes for some seconds")
	}
	t.Parallel()
	r := startTrying(t)
	if len(r.nodes) != 3 {
		t.Fatalf("it says\n%s", r.said)
	}
	const listed, members = "paul\n", "*1\r\n$4\r\npaul\r\n"
	ran := 0
	for line := range strings.Lines(r.said) {
		line, asked := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  ")
		if line, _, _ = strings.Cut(line, "#"); !asked {
			continue
		}
		ran++
		words := strings.Fields(line)
		switch what := strings.Join(words[:min(3, len(words))], " "); what {
		case "bigset set add", "bigset filter create":
			call(t, "", words[1:]...).want(t, exitOK)
		case "bigset set ls":
			if got := call(t, "", words[1:]...).want(t, exitOK); got != listed {
				t.Errorf("%s: %q", line, got)
			}
		case "bigset filter check":
			call(t, "", words[1:]...).want(t, exitAbsent)
		case "bigset cluster status":
			if got := call(t, "", words[1:]...).want(t, exitOK); strings.Count(got, "whole") != 3 {
				t.Errorf("%s:\n%s", line, got)
			}
		case "redis-cli -p " + r.nodes[2]["REDIS"]:
			if got := fmt.Sprint(words[3:]); got != "[smembers friends]" {
				t.Errorf("redis-cli: %s", got)
			}
		case "curl http://127.0.0.1:" + r.nodes[2]["HTTP"] + "/types/sets/buckets/default/datatypes/friends":
		case fmt.Sprintf("kill -9 %d", r.pids[2]):
			for i, node := range r.nodes { // before it is killed
				if got := r.exchange(node["REDIS"], "smembers friends\r\n", members); got != members {
					t.Errorf("node %d answers redis by %q", i, got)
				}
				r.http(node["HTTP"], "/types/sets/buckets/default/datatypes/friends", `"value":["paul"]`)
				r.http(node["HTTP"], "/console", "<html")
				r.http(node["ADMIN"], "/readyz", "")
				const ping, pong = "\x00\x00\x00\x01\x01", "\x00\x00\x00\x01\x02"
				if got := r.exchange(node["RIAK"], ping, pong); got != pong {
					t.Errorf("node %d answers Riak's ping by %q", i, got)
				}
				const check, answer = "check seen paul\n", "No\n"
				if got := r.exchange(node["BLOOMD"], check, answer); got != answer {
					t.Errorf("node %d answers bloomd's check by %q", i, got)
				}
				if got := call(t, "", "set", "ls", "friends", "--addr", "127.0.0.1:"+node["CLIENTS"]).want(t, exitOK); got != listed {
					t.Errorf("node %d has %q", i, got)
				}
			}
			first, last := "127.0.0.1:"+r.nodes[0]["CLIENTS"], "127.0.0.1:"+r.nodes[2]["CLIENTS"]
			watched := startWatching(t, "friends", "--addr", last+","+first)
			watched("+\tpaul")
			changes, token := r.changes(r.nodes[2]["REDIS"], "''")
			if !strings.Contains(changes, "reset\r\n$5\r\nbegin\r\n") || !strings.Contains(changes, "paul") {
				t.Errorf("the first changes are %q", changes)
			}
			if err := syscall.Kill(r.pids[2], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if log := filepath.Join(r.temp, "*", "c.log"); !globbed(log) {
				t.Errorf("no %s", log)
			}
			call(t, "", "set", "add", "friends", "ringo", "--addr", first).want(t, exitOK)
			if got := call(t, "", "set", "ls", "friends", "--addr", first).want(t, exitOK); got != listed+"ringo\n" {
				t.Errorf("with one node killed: %q", got)
			}
			watched("+\tringo")
			call(t, "", "set", "rm", "friends", "paul", "--addr", first).want(t, exitOK)
			watched("-\tpaul")
			r.followed(token)
			r.twice(first)
		default:
			t.Errorf("the test does not know %q", line)
		}
	}
	if ran != 8 {
		t.Errorf("%d commands in\n%s", ran, r.said)
	}
	for late := time.Now().Add(time.Minute); r.errs.String() == "" && time.Now().Before(late); time.Sleep(time.Millisecond) {
	}
	r.end(syscall.SIGINT)
	if got := r.errs.String(); !strings.HasPrefix(got, "a node has ended: node c (signal: killed), see ") || !strings.HasSuffix(got, "; the others continue\n") {
		t.Errorf("it says %q of the node that was killed", got)
	}
}

// changes asks redis's door of a node for changes of the set friends since a token, and returns its answer and the next token.
func (r *trying) changes(port, since string) (answer, next string) {
	r.t.Helper()
	nc, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	if _, err := fmt.Fprintf(nc, "BS.CHANGES friends %s\r\nPING\r\n", since); err != nil {
		r.t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	for lines := bufio.NewReader(nc); !strings.HasSuffix(answer, "+PONG\r\n"); {
		line, err := lines.ReadString('\n')
		if answer += line; err != nil {
			r.t.Fatalf("%v after %q", err, answer)
		}
	}
	if found := nextToken.FindStringSubmatch(answer); found != nil {
		next = found[1]
	}
	return answer, next
}

var nextToken = regexp.MustCompile("next\r\n\\$[0-9]+\r\n(.+)\r\n")

// followed wants other nodes to know what has happened since the token of the node that was killed, by redis's protocol and by HTTP: ringo was
// added, paul was removed, and nothing is void.
func (r *trying) followed(token string) {
	r.t.Helper()
	changes, next := r.changes(r.nodes[0]["REDIS"], token)
	added, removed, _ := strings.Cut(changes, "removed\r\n")
	removed, _, _ = strings.Cut(removed, "dead\r\n")
	if !strings.Contains(changes, "reset\r\n$-1\r\n") || !strings.Contains(added, "ringo") || strings.Contains(added, "paul") || !strings.Contains(removed, "paul") {
		r.t.Errorf("at another node, the changes are %q", changes)
	}
	if changes, _ = r.changes(r.nodes[1]["REDIS"], next); strings.Contains(changes, "paul") || strings.Contains(changes, "ringo") || strings.Contains(changes, "begin") {
		r.t.Errorf("after them come %q", changes)
	}
	r.http(r.nodes[1]["HTTP"], "/types/sets/buckets/default/datatypes/friends/changes?since="+token, `"ringo"`)
}

// twice makes a change with an id while a node is down: the first use needs no answer of that node, and the next one does nothing.
func (r *trying) twice(addr string) {
	r.t.Helper()
	add := []string{"set", "add", "others", "john", "--policy", "empty", "--addr", addr, "--request", "r1"}
	call(r.t, "", add...).want(r.t, exitOK)
	call(r.t, "", append(add, "--retry")...).want(r.t, exitOK)
	if got := call(r.t, "", "set", "stats", "others", "--json", "--addr", addr).want(r.t, exitOK); !strings.Contains(got, `"events":1,`) {
		r.t.Errorf("a change that was given twice: %s", got)
	}
}

func globbed(pattern string) bool {
	found, err := filepath.Glob(pattern)
	return err == nil && len(found) > 0
}

// http wants an answer that contains a text.
func (r *trying) http(port, path, want string) {
	r.t.Helper()
	answer, err := http.Get("http://127.0.0.1:" + port + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		r.t.Errorf("%s: %s, %v, %.200q", path, answer.Status, err, body)
	}
}

// TestClusterTryEnds ends trials as a closed terminal and a service manager do.
func TestClusterTryEnds(t *testing.T) {
	if !tier.Full() {
		t.Skip("starts two nodes; .ci/full runs it")
	}
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if signal.Ignored(s) { // as below nohup
			continue
		}
		r := startTrying(t, "--nodes", "1")
		r.end(s)
		if r.errs.String() != "" {
			t.Errorf("%v: it says %q", s, &r.errs)
		}
	}
}

// TestTrialPorts: a node has the usual ports, and a free one in place of a port in use.
func TestTrialPorts(t *testing.T) {
	t.Parallel()
	taken, errTaken := net.Listen("tcp", fmt.Sprintf("%s:%d", trialHost, trialPorts[riakPort].usual+4))
	if errTaken == nil { // or another program has it
		defer taken.Close()
	}
	for _, free := range []bool{false, true} {
		tr, seen := &trial{}, map[string]bool{}
		if err := tr.addresses(9, free); err != nil {
			t.Fatal(err)
		}
		for i, n := range tr.nodes {
			for p, at := range n.at {
				usual := fmt.Sprintf("%s:%d", trialHost, trialPorts[p].usual+i)
				if seen[at] || at == usual && (free || errTaken == nil && p == riakPort && i == 4) {
					t.Errorf("node %d, %s: %s, free %v", i, trialPorts[p].name, at, free)
				}
				seen[at] = true
				ln, err := net.Listen("tcp", at)
				if err != nil && at == usual { // another program has taken it since
					continue
				}
				if err != nil {
					t.Errorf("not free: %v", err)
					continue
				}
				defer ln.Close()
			}
		}
	}
}
