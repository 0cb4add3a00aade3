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
comes first in --peers compares). The exit status is 1 if a member does not answer or is joining. --json also has the calls to each
member by verb, with their times.`,
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
			if m := &s.Members[i]; !m.Up || !m.Sets || !m.Filters {
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
	id, peer, bloomd, admin string
	cmd                     *exec.Cmd
	ended                   chan error
}

func (a *app) clusterTry() *cobra.Command {
	var dir string
	var count int
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Start a cluster on this machine, to try it",
		Long: `Start nodes of a cluster on this machine, each a process of its own, and print how to talk to them. Ctrl-C stops them. Without --dir their
folders are temporary. They have no TLS, so only this machine reaches them.`,
		Example: `  bigset cluster try
  bigset cluster try --nodes 5 --dir ~/trial`,
		Args: takes(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`folder` below which each node has its own (default: a temporary one)")
	f.IntVar(&count, "nodes", 3, "how many nodes")
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
		return t.run(cmd.Context(), count)
	}
	return cmd
}

// run starts the nodes and waits for the end.
func (t *trial) run(ctx context.Context, count int) error {
	if err := t.addresses(count); err != nil {
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

// addresses finds free ports.
func (t *trial) addresses(count int) error {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	free := func(want int) (string, error) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", want))
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			return "", err
		}
		open = append(open, l)
		return l.Addr().String(), nil
	}
	for i := range count {
		n := &trialNode{id: string(rune('a' + i))}
		for at, port := range map[*string]int{&n.peer: 8691 + i, &n.bloomd: 8673 + i, &n.admin: 8651 + i} {
			var err error
			if *at, err = free(port); err != nil {
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
		all = append(all, n.id+"="+n.peer)
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
	n.cmd = exec.Command(program, "serve", "--dir", dir, "--node", n.id, "--peers", t.peers(), "--insecure", "--bloomd", n.bloomd, "--admin", n.admin)
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
			s, err := statusOf(ctx, n.peer, "")
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

func (t *trial) say() error {
	w := tabwriter.NewWriter(t.a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "NODE\tCLIENTS AND NODES\tBLOOMD\tADMIN\tPROCESS\t\n")
	for _, n := range t.nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t\n", n.id, n.peer, n.bloomd, n.admin, n.cmd.Process.Pid)
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
  bigset cluster status --addr %s
  kill -9 %d      # %s

Ctrl-C ends them.
`, are, t.dir, first.peer, last.peer, first.bloomd, last.bloomd, first.peer, last.cmd.Process.Pid, others)
	return t.a.out.Flush()
}

// stop ends all nodes in order.
func (t *trial) stop() {
	for _, n := range t.nodes {
		if n.cmd != nil && n.cmd.Process != nil {
			_ = n.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, n := range t.nodes {
		if n.ended == nil {
			continue
		}
		select {
		case <-n.ended:
		case <-time.After(15 * time.Second):
			_ = n.cmd.Process.Kill()
		}
	}
}
