package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"bigset/client"
	"bigset/internal/netfault"
	"bigset/internal/timerslack"
	"bigset/server/api"
	"bigset/server/certs"
	"bigset/server/cluster"
	"bigset/server/wire"
)

// askNode sends a running node a request with a single answer.
func askNode(ctx context.Context, address, certificates string, verb wire.Verb, body []byte) ([]byte, error) {
	var nc net.Conn
	var err error
	if certificates == "" {
		nc, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	} else {
		c, failed := certs.ClientConfig(certificates)
		if failed != nil {
			return nil, failed
		}
		nc, err = (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	c, err := wire.NewClient(ctx, nc, wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, wire.Call{Verb: verb, Body: body})
}

// statusOf asks a node for the status of its cluster.
func statusOf(ctx context.Context, address, certificates string) (s cluster.Status, err error) {
	if err := checkNode(address, certificates); err != nil {
		return s, err
	}
	b, err := askNode(ctx, address, certificates, cluster.VerbStatus, nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, api.ErrBody): // it does not know the request
		err = errNoCluster
	case !slices.ContainsFunc(advices, func(a advice) bool { return errors.Is(err, a.cause) }):
		return s, &unansweredError{address, err}
	}
	return s, fmt.Errorf("%s: %w", address, err)
}

// checkNode returns an error for an address that no node can have, as package client does.
func checkNode(address, certificates string) error {
	o := client.Options{Addrs: []string{address}}
	if certificates != "" {
		o.TLS = &tls.Config{}
	}
	c, err := client.Open(o) // which dials at the first call
	if err != nil {
		return err
	}
	return c.Close()
}

// errNoCluster is the error of a node that is asked for its cluster.
var errNoCluster = errors.New("this node is alone, not in a cluster")

// unansweredError is the error of a node that does not answer, or not as a node does.
type unansweredError struct {
	address string
	err     error
}

func (e *unansweredError) Error() string        { return e.address + ": " + e.err.Error() }
func (e *unansweredError) Is(target error) bool { return target == client.ErrUnavailable }
func (e *unansweredError) Unwrap() error        { return e.err }

func (a *app) clusterStatus() *cobra.Command {
	var address, certificates string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a node knows of its cluster",
		Long: `Ask one node for the members of its cluster: which of them answer, their epochs, which of them answer reads of sets and of filters,
how many hints wait for each and since when, and how long ago all data of this node and each member was last compared (of two members, the one that
comes first in --peers compares). The exit status is 1 if a member does not answer, is joining, or takes no writes because its disk has failed
or was full. --json also has the calls to each member by verb, with their times.`,
		Example: `  bigset cluster status --addr 127.0.0.1:8691
  bigset cluster status --addr 10.0.0.1:8690 --tls ~/certs --json`,
		Args: takes(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&address, "addr", "127.0.0.1:8691", "`HOST:PORT` of a node")
	f.StringVar(&certificates, "tls", "", "`folder` of a client's certificate (default: without TLS)")
	_ = cmd.MarkFlagDirname("tls")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
		defer cancel()
		s, err := statusOf(ctx, address, certificates)
		if err != nil {
			return err
		}
		if a.json {
			err = a.object(s)
		} else {
			err = a.clusterTable(&s, time.Now())
		}
		for i := range s.Members {
			if m := &s.Members[i]; !m.Up || !m.Sets || !m.Filters || m.StoreFailed {
				return errors.Join(err, errAbsent)
			}
		}
		return err
	}
	return cmd
}

func (a *app) clusterTable(s *cluster.Status, now time.Time) error {
	t := s.Settings
	fmt.Fprintf(a.out, "cluster %s, generation %d, epoch %d: N %d, R %d, W %d, DW %d, %d buckets; asked of %s\n", s.Cluster, s.Generation, s.Epoch, t.N, t.R, t.W, t.DW, t.Buckets, s.Node)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tEPOCH\tHINTS FOR IT\tOLDEST\tCOMPARED\tCALLS\tFAILED\tMS\t")
	for i := range s.Members {
		m := &s.Members[i]
		state := "whole"
		switch {
		case !m.Up:
			state = "does not answer"
		case m.Why != "":
			state = "no state"
		case m.Epoch == 0:
			state = "not born"
		case m.StoreFailed:
			state = "takes no writes"
		case !m.Sets:
			state = "joining"
		case !m.Filters:
			state = "joining, for filters"
		}
		if c := m.Copied; c != nil {
			state += fmt.Sprintf(", %.0f %%", 100*c.Portion)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%.2f\t\n", m.ID, m.Address, state, m.Epoch, m.Hints, age(time.Duration(m.HintSeconds)*time.Second), age(since(now, m.Compared)),
			m.Calls, m.Failed, m.Milliseconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range s.Members {
		m := &s.Members[i]
		if m.Why != "" {
			fmt.Fprintf(a.out, "%s: %s\n", m.ID, plainText(m.Why))
		}
		if m.Waits != "" {
			fmt.Fprintf(a.out, "%s waits for %s\n", m.ID, plainText(m.Waits))
		}
		if c := m.Copied; c != nil {
			fmt.Fprintf(a.out, "%s is being filled: %.1f MB were copied, %.0f %% of its ranges\n", m.ID, float64(c.Bytes)/1e6, 100*c.Portion)
		}
	}
	return nil
}

// since returns how long ago something was, or 0 if it never was.
func since(now, then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return now.Sub(then)
}

// age returns a time in whole seconds for a table, "-" for none.
func age(d time.Duration) string {
	if d < time.Second/2 {
		return "-"
	}
	return d.Round(time.Second).String()
}

// trial is a set of nodes on this machine, each a process.
type trial struct {
	a     *app
	dir   string
	nodes []*trialNode
}

type trialNode struct {
	id    string
	at    [len(trialPorts)]string // its address at each port
	cmd   *exec.Cmd
	ended chan error
}

// The ports of a node of a trial.
const (
	peerPort = iota
	bloomdPort
	respPort
	httpPort
	riakPort
	adminPort
)

// trialPorts are the ports of a node of a trial: how the table names each, its flag of serve, and the usual number, to which the index of
// the node is added.
var trialPorts = [...]struct {
	name, flag string
	usual      int
}{
	peerPort:   {"CLIENTS AND NODES", "", 8691}, // --peers
	bloomdPort: {"BLOOMD", "--bloomd", 8673},
	respPort:   {"REDIS", "--resp", 6379},
	httpPort:   {"HTTP", "--http", 8682},
	riakPort:   {"RIAK", "--riak", 8087},
	adminPort:  {"ADMIN", "--admin", 8651},
}

// trialHost is where the nodes of a trial listen.
const trialHost = "127.0.0.1"

func (a *app) clusterTry() *cobra.Command {
	var dir string
	var count int
	var free bool
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Start a cluster on this machine, to try it",
		Long: `Start nodes of a cluster on this machine, each a process of its own, and print how to talk to them. Each serves clients of bloomd, redis, HTTP
and Riak, too. Ctrl-C stops them. Without --dir their folders are temporary. They listen on 127.0.0.1 only, without TLS. A port that
another program has is replaced by a free one.`,
		Example: `  bigset cluster try
  bigset cluster try --nodes 5 --dir ~/trial
  bigset cluster try --free-ports`,
		Args: takes(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`folder` below which each node has its own (default: a temporary one)")
	f.IntVar(&count, "nodes", 3, "how many nodes")
	f.BoolVar(&free, "free-ports", false, "choose free ports, and leave the usual ones to others")
	_ = cmd.MarkFlagDirname("dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if count < 1 || count > 9 {
			return usage(cmd, "--nodes %d: it is 1 to 9", count)
		}
		t := &trial{a: a, dir: dir}
		if dir == "" {
			var err error
			if t.dir, err = os.MkdirTemp("", "bigset-cluster-"); err != nil {
				return err
			}
			defer os.RemoveAll(t.dir)
		}
		ctx, stop := hangUp(cmd.Context()) // the nodes do not get this signal
		defer stop()
		return t.run(ctx, count, free)
	}
	return cmd
}

// run starts the nodes and waits for the end.
func (t *trial) run(ctx context.Context, count int, free bool) error {
	if err := t.addresses(count, free); err != nil {
		return err
	}
	defer t.stop()
	ended := make(chan error, count)
	for _, n := range t.nodes {
		if err := t.start(n, ended); err != nil {
			return err
		}
	}
	if err := t.ready(ctx, ended); err != nil {
		return err
	}
	if err := t.say(); err != nil {
		return err
	}
	for alive := count; alive > 0; alive-- {
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is the normal end
		case err := <-ended:
			if note := t.a.note("%v; the others continue", err); note != nil {
				return note
			}
		}
	}
	return errors.New("all nodes have ended")
}

// addresses finds the usual ports, and other ones for those that are in use. If free is true, all are other ones.
func (t *trial) addresses(count int, free bool) error {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	find := func(usual int) (string, error) {
		if !free {
			if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", trialHost, usual)); err == nil {
				open = append(open, l)
				return l.Addr().String(), nil
			}
		}
		return netfault.FreeAddress()
	}
	for i := range count {
		n := &trialNode{id: string(rune('a' + i))}
		for p := range n.at {
			var err error
			if n.at[p], err = find(trialPorts[p].usual + i); err != nil {
				return err
			}
		}
		t.nodes = append(t.nodes, n)
	}
	return nil
}

func (t *trial) peers() string {
	var all []string
	for _, n := range t.nodes {
		all = append(all, n.id+"="+n.at[peerPort])
	}
	return strings.Join(all, ",")
}

// start starts one node. Its log is next to its folder.
func (t *trial) start(n *trialNode, ended chan<- error) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(t.dir, n.id)
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"serve", "--dir", dir, "--node", n.id, "--peers", t.peers(), "--insecure"}
	for p, port := range trialPorts {
		if port.flag != "" {
			args = append(args, port.flag, n.at[p])
		}
	}
	n.cmd = exec.Command(program, args...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = apart()                                      // this process handles Ctrl-C, and ends the nodes in order
	if err := timerslack.Start(n.cmd, timerslack.Node); err != nil { // so that the node need not set it
		return err
	}
	n.ended = make(chan error, 1)
	go func() {
		err := n.cmd.Wait()
		n.ended <- err
		ended <- endOf(n.id, dir+".log", err)
	}()
	return nil
}

// endOf returns the error of a node whose process has ended. If that was its own decision, the last line of its log says why.
func endOf(id, log string, err error) error {
	why := ""
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		why = lastLine(log)
	}
	return fmt.Errorf("%w: node %s (%v), see %s%s", errNodeEnded, id, cmp.Or(err, errStopped), log, why)
}

// errStopped is the cause of a process that has ended without an error.
var errStopped = errors.New("it was stopped")

// errNodeEnded is the error of a node that has ended by itself.
var errNodeEnded = errors.New("a node has ended")

// lastBytes is how much of the end of a log is looked at.
const lastBytes = 4096

// lastLine returns the last line of a log, except for a hint, to be added to a sentence; nothing if it can't be read.
func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b[max(0, len(b)-lastBytes):])), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" && !strings.HasPrefix(line, "hint: ") {
			return ": " + strings.TrimPrefix(line, "bigset: ")
		}
	}
	return ""
}

// ready waits until all nodes serve.
func (t *trial) ready(ctx context.Context, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, n := range t.nodes {
		for {
			s, err := statusOf(ctx, n.at[peerPort], "")
			if err == nil && s.Serves && s.Sets && s.Filters && s.Listed {
				break
			}
			select {
			case err := <-ended:
				return err
			case <-ctx.Done():
				return fmt.Errorf("node %s is not ready: %w", n.id, errors.Join(err, ctx.Err()))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// port returns the number of a port as text.
func (n *trialNode) port(p int) string {
	_, port, _ := strings.Cut(n.at[p], ":")
	return port
}

func (t *trial) say() error {
	fmt.Fprintf(t.a.out, "Ports of %s:\n\n", trialHost)
	w := tabwriter.NewWriter(t.a.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NODE\t")
	for _, port := range trialPorts {
		fmt.Fprintf(w, "%s\t", port.name)
	}
	fmt.Fprint(w, "PROCESS\t\n")
	for _, n := range t.nodes {
		fmt.Fprintf(w, "%s\t", n.id)
		for p := range n.at {
			fmt.Fprintf(w, "%s\t", n.port(p))
		}
		fmt.Fprintf(w, "%d\t\n", n.cmd.Process.Pid)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	first, last := t.nodes[0], t.nodes[len(t.nodes)-1]
	are, others := fmt.Sprintf("%d nodes are one store", len(t.nodes)), "the others continue"
	switch len(t.nodes) {
	case 1:
		are, others = "One node is a store", "its folder is as it was: start it again with the same --dir"
	case 2:
		others = "the other one still answers reads of what it has"
	}
	fmt.Fprintf(t.a.out, `
%s, below %s. Try, in another terminal:

  bigset set add friends paul --addr %s
  bigset set ls friends --addr %s
  bigset filter create seen --addr %s
  bigset filter check seen paul --addr %s
  redis-cli -p %s smembers friends
  curl http://%s/types/sets/buckets/default/datatypes/friends
  bigset cluster status --addr %s
  kill -9 %d      # %s

http://%s/console shows them in a browser. Ctrl-C ends them.
`, are, t.dir, first.at[peerPort], last.at[peerPort], first.at[bloomdPort], last.at[bloomdPort], last.port(respPort), last.at[httpPort], first.at[peerPort],
		last.cmd.Process.Pid, others, first.at[httpPort])
	return t.a.out.Flush()
}

const (
	orderlyTime = 15 * time.Second // for nodes that end in order
	unaskedTime = 2 * time.Second  // for nodes that could not be sent a signal
)

// stop ends all nodes in order, and kills those that take too long. Windows has no such signal: there a Ctrl-C at the terminal reaches the nodes,
// too, and nothing else asks them to end.
func (t *trial) stop() {
	limit := orderlyTime
	for _, n := range t.nodes {
		if n.cmd == nil || n.cmd.Process == nil {
			continue
		}
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			limit = unaskedTime
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, n := range t.nodes {
		if n.ended == nil {
			continue
		}
		select {
		case <-n.ended:
		case <-ctx.Done():
			_ = n.cmd.Process.Kill()
			<-n.ended
		}
	}
}
