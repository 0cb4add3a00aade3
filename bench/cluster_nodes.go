package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bigset/bench/probe"
	"bigset/bench/system"

	"bigset/client"
	"bigset/internal/halt"
	"bigset/internal/timerslack"
	"bigset/server/api"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/wire"
)

// processes are the nodes of a cluster, or a node without one.
type processes struct {
	l     *lab
	all   []*process
	peers string // empty for a node alone
	ca    string // folder of the CA; empty without TLS
	extra []string
	warm  bool // they were given enough data to be as after a long run
}

// process is one node.
type process struct {
	id, dir, listen, bloomd string
	admin                   string // empty without profiles
	cmd                     *exec.Cmd
	ended                   chan struct{}
	link                    *wire.Link // for status requests
	tls                     *tls.Config
}

// clusterName is the name of the clusters, in certificates.
const clusterName = "bench"

// started returns the nodes of a system, which are started at the first call.
func (l *lab) started(system string) (*processes, error) {
	if ps := l.nodes[system]; ps != nil {
		return ps, nil
	}
	n, extra := 3, []string(nil)
	if system == systemAlone {
		n, extra = 1, []string{"--bloomd-durability", "log"} // as in a cluster
	}
	ps, err := l.start(system, n, system == systemTLS, extra...)
	if err == nil {
		l.nodes[system] = ps
	}
	return ps, err
}

// start starts nodes with folders of their own, and waits until they serve. A single node has no cluster.
func (l *lab) start(name string, n int, encrypted bool, extra ...string) (_ *processes, err error) {
	ps := &processes{l: l, extra: extra}
	defer func() {
		if err != nil {
			ps.stop()
		}
	}()
	addresses, err := freeAddresses(3 * n)
	if err != nil {
		return nil, err
	}
	if encrypted {
		ps.ca = filepath.Join(l.root, name+"-ca")
		if err := certs.MakeCA(ps.ca, certs.CAOptions{Cluster: clusterName}); err != nil {
			return nil, err
		}
		if _, err := certs.Issue(ps.ca+"-client", certs.IssueOptions{CA: ps.ca, Role: certs.RoleClient, Name: "bench"}); err != nil {
			return nil, err
		}
	}
	var peers []string
	for i := range n {
		p := &process{id: string(rune('a' + i)), listen: addresses[3*i], bloomd: addresses[3*i+1]}
		if l.c.Profiles != "" {
			p.admin = addresses[3*i+2]
		}
		p.dir = filepath.Join(l.root, name+"-"+p.id)
		if encrypted {
			if _, err := certs.Issue(p.dir+"-cert", certs.IssueOptions{CA: ps.ca, Role: certs.RoleNode, Name: p.id, Hosts: []string{"127.0.0.1"}}); err != nil {
				return nil, err
			}
			if p.tls, err = certs.ClientConfig(ps.ca + "-client"); err != nil {
				return nil, err
			}
		}
		ps.all = append(ps.all, p)
		peers = append(peers, p.id+"="+p.listen)
	}
	if n > 1 {
		ps.peers = strings.Join(peers, ",")
	}
	for _, p := range ps.all {
		if err := ps.run(p); err != nil {
			return nil, err
		}
	}
	return ps, ps.ready(readyTime)
}

// freeAddresses returns addresses on which no program listens now.
func freeAddresses(n int) (list []string, err error) {
	var open []net.Listener
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open = append(open, ln)
		list = append(list, ln.Addr().String())
	}
	for _, ln := range open {
		err = errors.Join(err, ln.Close())
	}
	return list, err
}

// run starts the process of a node. Its log is written beside its folder.
func (ps *processes) run(p *process) error {
	args := []string{"serve", "--dir", p.dir, "--listen", p.listen, "--bloomd", p.bloomd}
	if ps.peers != "" {
		args = append(args, "--node", p.id, "--peers", ps.peers)
	}
	if ps.ca != "" {
		args = append(args, "--tls", p.dir+"-cert")
	} else {
		args = append(args, "--insecure")
	}
	if p.admin != "" {
		args = append(args, "--admin", p.admin, "--pprof")
	}
	log, err := os.OpenFile(p.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := ps.l.c.Command(append(args, ps.extra...)...)
	cmd.Stdout, cmd.Stderr = log, log
	slack := time.Duration(0)
	if ps.peers != "" {
		slack = timerslack.Node // so that the node need not set it
	}
	if err := timerslack.Start(cmd, slack); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if p.link == nil {
		p.link = wire.NewLink(wire.LinkOptions{PauseMost: 50 * time.Millisecond, Requests: 1,
			Dial: func(ctx context.Context) (net.Conn, error) {
				if p.tls != nil {
					return (&tls.Dialer{Config: p.tls}).DialContext(ctx, "tcp", p.listen)
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", p.listen)
			},
			Client: func() wire.ClientOptions {
				return wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}, SilenceMax: 2 * time.Second}}
			}})
	}
	return nil
}

// readyTime bounds how long nodes may take until they serve.
const readyTime = time.Minute

// statusPause is the time between two status requests.
const statusPause = 10 * time.Millisecond

// ready waits until all nodes serve and wait for nothing.
func (ps *processes) ready(most time.Duration) error {
	for _, p := range ps.all {
		if err := ps.until(p, most, func(s *cluster.Status) bool { return ps.peers == "" || whole(s) }); err != nil {
			return err
		}
	}
	return nil
}

// until waits until a node answers with a good status. A node without a cluster has no status, and is ready when it answers.
func (ps *processes) until(p *process, most time.Duration, good func(*cluster.Status) bool) error {
	ctx, cancel := context.WithTimeout(ps.l.ctx, most)
	defer cancel()
	for {
		s, err := ps.status(ctx, p)
		if err == nil && good(&s) {
			return nil
		}
		select {
		case <-p.ended:
			log, _ := os.ReadFile(p.dir + ".log")
			return fmt.Errorf("node %s has ended:\n%s", p.id, log[max(0, len(log)-2000):])
		case <-ctx.Done():
			return fmt.Errorf("node %s is not ready after %v: %w: %+v", p.id, most, errors.Join(err, ctx.Err()), s)
		case <-time.After(statusPause):
		}
	}
}

func (ps *processes) status(ctx context.Context, p *process) (s cluster.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if ps.peers == "" {
		_, err := client.Over(p.link).Set(system.SetName).Contains(ctx, "x")
		return s, err
	}
	b, err := p.link.Do(ctx, wire.Call{Verb: cluster.VerbStatus})
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// whole reports whether a member serves, it and all others are complete, and it knows which filters exist.
func whole(s *cluster.Status) bool {
	for i := range s.Members {
		if m := &s.Members[i]; !m.Up || m.Hints > 0 || !m.Sets || !m.Filters || m.Epoch != s.Epoch {
			return false
		}
	}
	return s.Serves && s.Sets && s.Filters && s.Listed
}

// client returns a client of one node.
func (p *process) client() (*client.Client, error) {
	return client.Open(client.Options{Addrs: []string{p.listen}, TLS: p.tls})
}

// end ends a process by a signal and waits for its end.
func (p *process) end(s syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(halt.Continue)
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.cmd = nil
}

// restart stops all processes in order and starts them again, so that their data is in tables: reading a memtable is several times slower.
func (ps *processes) restart() error {
	for _, p := range ps.all {
		p.end(syscall.SIGTERM)
	}
	for _, p := range ps.all {
		if err := ps.run(p); err != nil {
			return err
		}
	}
	return ps.ready(readyTime)
}

const (
	calmSpan = 500 * time.Millisecond // nodes that have used hardly any CPU time for this long are at rest
	calmCPU  = calmSpan / 10
	calmMost = 30 * time.Second
)

// rest waits until the nodes do nothing in the background, judging by their CPU time: a store compacts what it finds when it was opened.
// The stores in this process also rest before they are read.
func (ps *processes) rest() error {
	for began := time.Now(); time.Since(began) < calmMost; {
		before, err := ps.cpu()
		if err != nil {
			return err
		}
		time.Sleep(calmSpan)
		after, err := ps.cpu()
		if err := errors.Join(err, ps.l.ctx.Err()); err != nil || after-before < calmCPU {
			return err
		}
	}
	return nil
}

// stop ends all processes.
func (ps *processes) stop() {
	for _, p := range ps.all {
		p.end(syscall.SIGKILL) // their folders are removed
		if p.link != nil {
			_ = p.link.Close() // it never fails
		}
	}
}

func (l *lab) stopAll() {
	for _, ps := range l.nodes {
		ps.stop()
	}
}

// cpu returns the CPU time that the processes have used together; nil has used none.
func (ps *processes) cpu() (total time.Duration, err error) {
	if ps == nil {
		return 0, nil
	}
	for _, p := range ps.all {
		if p.cmd == nil {
			continue
		}
		d, err := probe.ProcessCPU(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		total += d
	}
	return total, nil
}

// profile begins a CPU profile of the first of the nodes, if profiles are wanted, for the whole seconds of the span, at least one. It
// returns a function that waits for the end of the profile.
func (l *lab) profile(workload, system string, of *processes) (wait func() error) {
	if l.c.Profiles == "" || of == nil {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", of.all[0].admin, max(1, int(l.c.Span.Seconds())))
		name := fmt.Sprintf("%s-%s-%d.pprof", strings.ReplaceAll(workload, "/", "-"), system, l.round+1)
		ended <- l.download(url, filepath.Join(l.c.Profiles, name))
	}()
	return func() error { return <-ended }
}

// download writes the contents of a URL to a file.
func (l *lab) download(url, path string) error {
	request, err := http.NewRequestWithContext(l.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: %s: %s", url, answer.Status)
	}
	b, err := io.ReadAll(answer.Body)
	return errors.Join(err, os.WriteFile(path, b, 0o644))
}

// processRSS returns the resident memory of a process in bytes, as Linux reports it.
func processRSS(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseUint(f[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("bench: no VmRSS of process %d", pid)
}
