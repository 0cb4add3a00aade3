//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/server/bloomd"
)

// serving is a server in a process of its own.
type serving struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string // of bloomd's protocol
	node string // of the port for nodes and clients, if any
	log  *lastLines
}

// lastLines collects what the server says on standard error; it is complete when the process has ended.
type lastLines struct {
	done chan struct{}
	text strings.Builder
}

var (
	servingAt   = regexp.MustCompile(`msg="bigset: serving".* bloomd=(\S+)`)
	servingNode = regexp.MustCompile(` peers=(\S+)`)
)

// startServing starts a command and waits until it serves.
func startServing(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	s := &serving{t: t, cmd: cmd, log: &lastLines{done: make(chan struct{})}}
	found := make(chan string, 1)
	go func() {
		defer close(s.log.done)
		defer close(found)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			s.log.text.WriteString(lines.Text() + "\n")
			if m := servingAt.FindStringSubmatch(lines.Text()); m != nil {
				if node := servingNode.FindStringSubmatch(lines.Text()); node != nil {
					s.node = node[1]
				}
				found <- m[1]
			}
		}
	}()
	var ok bool
	if s.addr, ok = <-found; !ok {
		<-s.log.done
		t.Fatalf("it does not serve: %v\n%s", cmd.Wait(), s.log.text.String())
	}
	return s
}

func serveCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	return command(t, append([]string{"serve", "--dir", dir, "--bloomd", "127.0.0.1:0", "--log-level", "info"}, args...)...)
}

// talk sends a line and wants an answer, for each pair.
func (s *serving) talk(pairs ...string) {
	s.t.Helper()
	c, err := bloomd.Dial(s.t.Context(), s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	for i := 0; i < len(pairs); i += 2 {
		got, err := c.Do([]byte(pairs[i]))
		if err != nil || strings.TrimSuffix(string(got), "\n") != pairs[i+1] {
			s.t.Errorf("%q: got %q, %v, want %q", pairs[i], got, err, pairs[i+1])
		}
	}
}

// end sends a signal and returns the exit status, -1 for a process that was killed.
func (s *serving) end(sig os.Signal) int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	<-s.log.done
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// TestServeStops ends servers by the signals that stop them: the next one has what was set, though nothing flushed it before.
func TestServeStops(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		dir := newDir(t)
		s := startServing(t, serveCommand(t, dir))
		s.talk("create f", "Done", "set f a", "Yes")
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil { // does nothing
			t.Fatal(err)
		}
		s.talk("set f b", "Yes")
		if code := s.end(sig); code != exitOK || !strings.Contains(s.log.text.String(), "bigset: stopped") {
			t.Errorf("%v: status %d\n%s", sig, code, s.log.text.String())
		}
		s = startServing(t, serveCommand(t, dir))
		s.talk("multi f a b c", "Yes Yes No")
		s.end(sig)
		call(t, "", "--dir", dir, "verify").want(t, exitOK)
	}
}

// TestServeKilled kills servers: afterwards the server has what was answered by the durability, or flushed.
func TestServeKilled(t *testing.T) {
	for _, c := range []struct {
		durability string
		flush      []string
	}{
		{"interval", []string{"flush", "Done"}},
		{"log", nil},
		{"sync", nil},
	} {
		t.Run(c.durability, func(t *testing.T) {
			dir := newDir(t)
			s := startServing(t, serveCommand(t, dir, "--bloomd-durability", c.durability))
			keys, yes := "", ""
			for i := range 1000 {
				keys += fmt.Sprintf(" key%d", i)
				yes += " Yes"
			}
			s.talk("create f", "Done", "bulk f"+keys, yes[1:], "set f last", "Yes")
			s.talk(c.flush...)
			if code := s.end(os.Kill); code != -1 {
				t.Fatalf("it ended with %d", code)
			}
			s = startServing(t, serveCommand(t, dir))
			s.talk("multi f"+keys, yes[1:], "check f last", "Yes")
			if code := s.end(syscall.SIGTERM); code != exitOK {
				t.Errorf("status %d\n%s", code, s.log.text.String())
			}
		})
	}
}

// TestServeRefused wants the status and a plain word where a server can't start.
func TestServeRefused(t *testing.T) {
	dir := newDir(t)
	s := startServing(t, serveCommand(t, dir))
	defer s.end(os.Kill)
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte("[bloomd]\nscale_size = 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(t.TempDir(), "huge") // in bounds, but no filter can be so large
	if err := os.WriteFile(huge, []byte("[bloomd]\ninitial_capacity = 4503599627370496\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.MkdirAll(filepath.Join(foreign, "bloomd.f"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"serve", "--dir", foreign, "--bloomd", "127.0.0.1:0"}, exitError, "a bloomd has its filters there, start with another folder"},
		{[]string{"serve", "--dir", dir, "--bloomd", "127.0.0.1:0"}, exitError, "only one process at a time may have a store open"},
		{[]string{"serve", "--dir", newDir(t), "--bloomd", s.addr}, exitError, "another program listens there"},
		{[]string{"serve", "--dir", newDir(t), "--bloomd", "127.0.0.1:0", "--admin", s.addr}, exitError, "for the admin port"},
		{[]string{"serve", "--config", conf}, exitAbsent, "line 2: scale_size = 3: it is 2 or 4"},
		{[]string{"serve", "--config", conf, "--check-config"}, exitAbsent, "scale_size"},
		{[]string{"serve", "--config", huge, "--check-config"}, exitAbsent, "initial_capacity"},
		{[]string{"serve", "--check-config", "--record", "odd"}, exitError, "--record"},
		{[]string{"serve", "--config", conf + "2"}, exitAbsent, "no such file"},
		{[]string{"serve", "--bloomd", "here"}, exitAbsent, "HOST:PORT"},
		{[]string{"serve", "--log-level", "loud"}, exitAbsent, "log_level = loud"},
		{[]string{"serve", "now"}, exitError, "wrong number of arguments"},
	} {
		r := call(t, "", c.args...)
		if r.code != c.code || !strings.Contains(r.errs, c.text) || r.out != "" {
			t.Errorf("%q: got status %d, %q, %q, want %d with %q", c.args, r.code, r.out, r.errs, c.code, c.text)
		}
	}
}

// TestServeTLS makes certificates, serves with them, and asks by commands with a client's certificate, with a foreign one, and without.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	of := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"ca", of("ca"), "--cluster", "prod"}, {"node", "a", of("a"), "--ca", of("ca")}, {"client", "paul", of("paul"), "--ca", of("ca")},
		{"ca", of("other"), "--cluster", "prod"}, {"client", "paul", of("stranger"), "--ca", of("other")}, {"client", "paul", of("liar"), "--ca", of("other")},
	} {
		call(t, "", append([]string{"cert"}, args...)...).want(t, exitOK)
	}
	if authority, err := os.ReadFile(filepath.Join(of("ca"), "ca.crt")); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(filepath.Join(of("liar"), "ca.crt"), authority, 0o644); err != nil { // a certificate beside the CA of another
		t.Fatal(err)
	}
	s := startServing(t, serveCommand(t, of("data"), "--peers", "a=127.0.0.1:1", "--listen", "127.0.0.1:0", "--tls", of("a")))
	ask := func(certificates, line string) result {
		args := append(strings.Fields(line), "--addr", s.node)
		if certificates != "" {
			args = append(args, "--tls", of(certificates))
		}
		return call(t, "", args...)
	}
	for _, c := range []struct{ line, out string }{
		{"set add friends paul", "added 1 element\n"}, {"set ls friends", "paul\n"},
		{"filter create seen", "created \"seen\"\n"}, {"filter set seen paul", "yes\tpaul\n"}, {"filter check seen paul", "yes\tpaul\n"},
		{"cluster lookup friends", ""}, {"cluster status", ""},
	} {
		if out := ask("paul", c.line).want(t, exitOK); c.out != "" && out != c.out || c.line == "cluster status" && (!strings.Contains(out, "cluster prod, ") || !strings.Contains(out, "whole")) {
			t.Errorf("%s: %q", c.line, out)
		}
	}
	for certificates, says := range map[string][2]string{
		"stranger": {"not signed by a CA of this cluster: bigset://prod/node/a: ", "check that ca.crt and the certificate are of the same CA: "},
		"liar":     {"client.crt: not signed by a CA of this cluster: bigset://prod/client/paul: ", "check that ca.crt and the certificate are of the same CA: "},
		"":         {": it closed the connection ", ""},
	} {
		for _, line := range []string{"set ls friends", "set add friends john", "filter check seen paul", "filter create other", "cluster status"} {
			if certificates == "" && strings.HasPrefix(line, "filter ") { // it says the same after five seconds, see TestFilterAway
				continue
			}
			r := ask(certificates, line)
			if r.code != exitError || r.out != "" || !strings.Contains(r.errs, says[0]) || !strings.Contains(r.errs, "\nhint: "+says[1]) || certificates == "" && !strings.Contains(r.errs, "--tls") {
				t.Errorf("with %q, %s: %+v", certificates, line, r)
			}
		}
	}
	if out := ask("paul", "set ls friends").want(t, exitOK); out != "paul\n" {
		t.Errorf("at last %q", out)
	}
	if code := s.end(syscall.SIGTERM); code != exitOK {
		t.Errorf("status %d\n%s", code, s.log.text.String())
	}
}

// TestServeRefusesCluster wants a plain word about flags of a cluster, and certificates, that do not fit together.
func TestServeRefusesCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, b := filepath.Join(dir, "ca"), filepath.Join(dir, "b")
	call(t, "", "cert", "ca", ca, "--cluster", "prod").want(t, exitOK)
	call(t, "", "cert", "node", "b", b, "--ca", ca).want(t, exitOK)
	for _, c := range []struct{ args, text string }{
		{"--node a", "--node, --tls and --insecure are for the port of --listen or --peers: give one of these"},
		{"--insecure", "--node, --tls and --insecure are for the port of --listen or --peers: give one of these"},
		{"--tls B", "--node, --tls and --insecure are for the port of --listen or --peers: give one of these"},
		{"--n 3", "--n, --r, --w, --dw, --buckets and --slices are chosen when a cluster is created: give its --peers too"},
		{"--listen 127.0.0.1:0 --insecure --w 9", "--n, --r, --w, --dw, --buckets and --slices are chosen when a cluster is created"},
		{"--bloomd 127.0.0.1:0 --client-tls B", "--client-tls is for --resp, --http and --riak: give one of these"},
		{"--bloomd 127.0.0.1:0 --http 127.0.0.1:0 --client-tls B/none", "--client-tls: "},
		{"--bloomd 127.0.0.1:0 --listen 127.0.0.1:0 --tls B/none", "--tls: "},
		{"--peers a=:1,b=127.0.0.1:2 --node a --insecure", `--peers: "a=:1" is not ID=HOST:PORT`},
		{"--peers a=127.0.0.1:1,b=127.0.0.1: --node a --insecure", `--peers: "b=127.0.0.1:" is not ID=HOST:PORT`},
		{"--peers a=127.0.0.1:1 --node a --insecure --cluster " + strings.Repeat("x", 256), "--cluster has 256 bytes, at most 255"},
		{"--peers a=127.0.0.1:1,b --node a --insecure", `--peers: "b" is not ID=HOST:PORT, for instance a=10.0.0.1:8690`},
		{"--peers =127.0.0.1:1 --node a --insecure", `--peers: "=127.0.0.1:1" is not ID=HOST:PORT`},
		{"--peers a=127.0.0.1 --node a --insecure", `--peers: "a=127.0.0.1" is not ID=HOST:PORT`},
		{"--peers a=127.0.0.1:1 --insecure", "--peers without --node: which of them is this one?"},
		{"--peers a=127.0.0.1:1,b=127.0.0.1:2 --node c --insecure", "node c is not among the peers, which are a, b"},
		{"--peers a=127.0.0.1:1,a=127.0.0.1:2 --node a --insecure", "node a is named twice"},
		{"--peers a=127.0.0.1:1,b=127.0.0.1:1 --node a --insecure", "nodes a and b have one address, 127.0.0.1:1"},
		{"--peers a=127.0.0.1:1 --node a --n 2 --insecure", "n is 2, and there are 1 members"},
		{"--listen 127.0.0.1:0", "the port 127.0.0.1:0 needs certificates: --tls DIR, which `bigset cert` makes; --insecure goes without, on this machine alone"},
		{"--listen 0.0.0.0:0 --insecure", "--insecure, and 0.0.0.0:0 can be reached from elsewhere: give 127.0.0.1 or --tls DIR"},
		{"--listen :0 --insecure", "--insecure, and :0 can be reached from elsewhere"},
		{"--listen name.example:0 --insecure", "--insecure, and name.example:0 can be reached from elsewhere"},
		{"--peers a=127.0.0.1:1,b=10.0.0.1:1 --node a --insecure", "--insecure, and 10.0.0.1:1 can be reached from elsewhere"},
		{"--peers a=10.0.0.1:1 --listen 127.0.0.1:0 --node a --insecure", "--insecure, and 10.0.0.1:1 can be reached from elsewhere"},
		{"--peers b=127.0.0.1:1 --tls B --insecure", "--tls and --insecure contradict each other"},
		{"--peers b=127.0.0.1:1 --tls B/none", "--tls: "},
		{"--peers b=127.0.0.1:1 --tls CA", "--tls: "},
		{"--peers a=127.0.0.1:1,b=127.0.0.1:2 --node a --listen 127.0.0.1:0 --tls B", "the certificate in B is of node b of cluster prod, and this is node a of cluster prod"},
		{"--peers b=127.0.0.1:1 --cluster test --listen 127.0.0.1:0 --tls B", "the certificate in B is of node b of cluster prod, and this is node b of cluster test"},
		{"--node a --listen 127.0.0.1:0 --tls B --bloomd 127.0.0.1:0", "the certificate in B is of node b of cluster prod, and this is node a of cluster prod"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a node that starts nevertheless ends
		folder := newDir(t)
		r := callContext(ctx, "", append([]string{"serve", "--dir", folder}, strings.Fields(strings.NewReplacer("CA", ca, "B", b).Replace(c.args))...)...)
		cancel()
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: a store was made nevertheless", c.args)
		}
		if r.code != exitAbsent || r.out != "" || !strings.Contains(r.errs, "bigset: bad configuration: ") || !strings.Contains(r.errs, strings.ReplaceAll(c.text, " B ", " "+b+" ")) {
			t.Errorf("%s: %+v, want %q", c.args, r, c.text)
		}
	}
}

// TestCheckConfig prints what counts: flags before the environment before the file.
func TestCheckConfig(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte("[bloomd]\nport = 1\nworkers = 3\nflush_interval = 7\ncold_interval = 8\nodd = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BIGSET_CONFIG", conf)
	t.Setenv("BIGSET_FLUSH_INTERVAL", "9")
	t.Setenv("BIGSET_MAX_LINE", "5000")
	r := call(t, "", "--dir", "there", "serve", "--check-config", "--max-line", "6000", "--bloomd-durability", "sync")
	out := r.want(t, exitOK)
	for _, want := range []string{
		"tcp_port = 1", "workers = 3", "flush_interval = 9", "cold_interval = 8", "data_dir = there", "max_line = 6000", "durability = sync",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if !strings.Contains(r.errs, `no key "odd"`) {
		t.Errorf("got %q", r.errs)
	}
	if _, err := os.Stat("there"); err == nil {
		t.Error("the folder was made")
	}
}

// bloomdCommand is the program under the name bloomd, by a link.
func bloomdCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "bloomd")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// TestCalledBloomd starts the program as a bloomd is started, with its flags and its file.
func TestCalledBloomd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, conf := newDir(t), filepath.Join(t.TempDir(), "bloomd.conf")
	text := fmt.Sprintf("[bloomd]\ntcp_port = 0\nbind_address = 127.0.0.1\ndata_dir = %s\nlog_level = INFO\nlog = text\ninitial_capacity = 20000\n", dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServing(t, bloomdCommand(t, "surplus", "-w2", "-f", conf))
	s.talk("create f", "Done", "list", "START\nf 0.000100 60419 20000 0\nEND", "set f a", "Yes")
	if code := s.end(syscall.SIGTERM); code != 0 || strings.Contains(s.log.text.String(), "it has no effect") {
		t.Errorf("status %d\n%s", code, s.log.text.String())
	}
	open := filepath.Join(t.TempDir(), "open.conf") // with bloomd's default of what it does not say
	if err := os.WriteFile(open, []byte(strings.Replace(text, "bind_address = 127.0.0.1\n", "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	s = startServing(t, bloomdCommand(t, "-w", "0", "-f"+open))
	s.talk("check f a", "Yes")
	if !strings.HasPrefix(s.addr, "0.0.0.0:") {
		t.Errorf("it listens on %s", s.addr)
	}
	s.end(os.Interrupt)

	// Without arguments it takes bloomd's defaults: the folder and the port, which another may have, come from the environment.
	bare := bloomdCommand(t)
	bare.Env = append(bare.Env, "BIGSET_DATA_DIR="+dir, "BIGSET_TCP_PORT=0", "BIGSET_LOG=text")
	s = startServing(t, bare)
	s.talk("check f a", "Yes", "create g", "Done", "list g", "START\ng 0.000100 300046 100000 0\nEND")
	if !strings.HasPrefix(s.addr, "0.0.0.0:") {
		t.Errorf("it listens on %s", s.addr)
	}
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("status %d\n%s", code, s.log.text.String())
	}

	taken := filepath.Join(t.TempDir(), "taken.conf")
	text = strings.Replace(text, "tcp_port = 0", fmt.Sprintf("tcp_port = %d", l.Addr().(*net.TCPAddr).Port), 1)
	if err := os.WriteFile(taken, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"-h"}, "usage: bloomd"},
		{[]string{"-x"}, "Unknown option `-x'."},
		{[]string{"-f"}, "requires an argument"},
		{[]string{"-f", "/nonexistent"}, "no such file"},
		{[]string{"-f", conf, "-w", "-1"}, "workers = -1"},
		{[]string{"-f", taken}, "another program listens there"},
	} {
		out, err := bloomdCommand(t, c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.text) || !strings.HasSuffix(err.Error(), "exit status 1") {
			t.Errorf("%q: got %v, %q, want status 1 with %q", c.args, err, out, c.text)
		}
	}
}
