package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"bigset/internal/halt"
	"bigset/internal/netfault"
	"bigset/internal/timerslack"
	"bigset/server/api"
	"bigset/server/cluster"
	"bigset/server/wire"
)

// nodes are the processes of a cluster.
type nodes struct {
	o   *Options
	net *netfault.Net
	all []*node
	// keep leaves disks of their own mounted, because what is on them shows what went wrong.
	keep bool
}

// node is one process, and its successors.
type node struct {
	id, addr string
	bloomd   string
	disk     string // its own disk, or empty
	dir      string
	copy     string // of the folder, for roll-back
	log      string
	peers    string // as this node dials them: through the proxy
	link     *wire.Link

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	lives int  // the number of folders it has had
	next  bool // it is to run the next version
	// copied are nodes whose folder was once copied to this one, which a cluster then fills with what the node owns. What the others own
	// stays in it, because nothing asks for it there.
	copied []*node
}

// newNodes prepares nodes without starting them. They must be closed even after an error.
func newNodes(o *Options) (*nodes, error) {
	ns := &nodes{o: o, net: netfault.New(o.Seed)}
	for i := range o.Nodes {
		address, err := netfault.FreeAddress()
		if err != nil {
			return ns, err
		}
		bloomd, err := netfault.FreeAddress()
		if err != nil {
			return ns, err
		}
		id := string(rune('a' + i))
		n := &node{id: id, addr: address, bloomd: bloomd, dir: filepath.Join(o.Dir, id), log: filepath.Join(o.Dir, id+".log")}
		n.copy = n.dir + ".copy"
		ns.all = append(ns.all, n)
		if !slices.Contains(o.Faults, full) {
			continue
		}
		disk := filepath.Join(o.Dir, "disk-"+id)
		if err := os.Mkdir(disk, 0o755); err != nil {
			return ns, err
		}
		if err := mountDisk(disk); err != nil {
			return ns, err
		}
		n.disk, n.dir = disk, filepath.Join(disk, id)
	}
	for _, n := range ns.all {
		var peers []string
		for _, to := range ns.all {
			addr := to.addr
			if to != n {
				l, err := ns.net.Link(n.id, to.id, to.addr)
				if err != nil {
					return ns, err
				}
				addr = l.Addr()
			}
			peers = append(peers, to.id+"="+addr)
		}
		n.peers = strings.Join(peers, ",")
		n.link = wire.NewLink(wire.LinkOptions{PauseMost: 200 * time.Millisecond,
			Dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", n.addr) },
			Client: func() wire.ClientOptions {
				return wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}, SilenceMax: 2 * time.Second}}
			}})
	}
	return ns, nil
}

// start starts a node's process. Its log lies next to its folder.
func (ns *nodes) start(n *node) error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := ns.o.Command
	if n.next {
		command = ns.o.Next
	}
	cmd := command("serve", "--dir", n.dir, "--node", n.id, "--peers", n.peers, "--listen", n.addr, "--bloomd", n.bloomd, "--insecure")
	cmd.Stdout, cmd.Stderr = log, log
	if err := timerslack.Start(cmd, timerslack.Node); err != nil { // so that the node need not set it
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd, n.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(n.ended)
	return nil
}

// startAll starts all nodes.
func (ns *nodes) startAll() error {
	for _, n := range ns.all {
		if err := ns.start(n); err != nil {
			return err
		}
	}
	return nil
}

// signal sends a node's process a signal, unless it has ended.
func (n *node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("torture: signal to node %s: %w", n.id, err)
	}
	return nil
}

// end ends a node's process, by SIGKILL or SIGTERM, and waits for its end.
func (n *node) end(s syscall.Signal) error {
	n.mu.Lock()
	cmd, ended := n.cmd, n.ended
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(s)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
		return fmt.Errorf("torture: node %s did not end within 30 s of %v", n.id, s)
	}
	if s == syscall.SIGTERM && cmd.ProcessState.ExitCode() != 0 {
		return fmt.Errorf("torture: node %s ended with status %d, see %s", n.id, cmd.ProcessState.ExitCode(), n.log)
	}
	return nil
}

// endAll ends all nodes.
func (ns *nodes) endAll(s syscall.Signal) error {
	var errs []error
	for _, n := range ns.all {
		errs = append(errs, n.end(s))
	}
	return errors.Join(errs...)
}

// died returns an error if a process has ended by itself.
func (ns *nodes) died() error {
	for _, n := range ns.all {
		n.mu.Lock()
		cmd, ended := n.cmd, n.ended
		n.mu.Unlock()
		if cmd == nil {
			continue
		}
		select {
		case <-ended:
			return fmt.Errorf("torture: node %s has ended by itself, see %s", n.id, n.log)
		default:
		}
	}
	return nil
}

// status asks a node for its status.
func (n *node) status(ctx context.Context) (s cluster.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b, err := n.link.Do(ctx, wire.Call{Verb: cluster.VerbStatus})
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// whole waits until all members serve, are whole and know of no hints for each other.
func (ns *nodes) whole(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, n := range ns.all {
		for {
			s, err := n.status(ctx)
			if err == nil && s.Serves && s.Sets && s.Filters && s.Listed && quiet(&s) {
				break
			}
			if died := ns.died(); died != nil {
				return died
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("torture: node %s is not whole after %v: %w: %+v", n.id, most, errors.Join(err, ctx.Err()), s)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// quiet reports whether a member waits for nothing.
func quiet(s *cluster.Status) bool {
	for i := range s.Members {
		if m := &s.Members[i]; !m.Up || m.Hints > 0 || !m.Sets || !m.Filters || m.Epoch != s.Epoch {
			return false
		}
	}
	return true
}

// close ends everything.
func (ns *nodes) close() {
	for _, n := range ns.all {
		_ = n.signal(halt.Continue)
		_ = n.end(syscall.SIGKILL)
		if n.link != nil {
			n.link.Close()
		}
		if n.disk != "" && !ns.keep {
			_ = unmountDisk(n.disk)
		}
	}
	ns.net.Close()
}
