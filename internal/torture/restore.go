package torture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bigset/client"
)

// Restored is the result of Restore: how long it took from the start of the processes until all members were whole.
type Restored struct {
	One time.Duration // with one disk of three
	All time.Duration // with a backup of each node
}

// Restore starts a cluster of three again by `bigset cluster restore`: first after two disks were lost at once, which the cluster must not
// accept by itself, with what the third one has; then after all were lost, from a backup of each node. In the end every node's store must
// have every element that was added before the backups and none that was added after them, and the cluster must deny no key.
func Restore(ctx context.Context, o Options, elements, keys int) (r Restored, err error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	o.Nodes = 3
	ns, err := newNodes(&o)
	defer ns.close()
	if err != nil {
		return r, err
	}
	if _, err := ns.startWhole(ctx); err != nil {
		return r, err
	}
	left := ns.all[1] // it decides on all that is written, and so it has all of it
	if err := writeAll(ctx, left, elements, keys); err != nil {
		return r, err
	}
	o.Progress("%d elements and %d keys; all are killed, and the disks of a and c are lost", elements, keys)
	if err := ns.endAll(syscall.SIGKILL); err != nil {
		return r, err
	}
	if err := ns.wipe(ns.all[0], ns.all[2]); err != nil {
		return r, err
	}
	if err := ns.refusesLoss(ctx); err != nil {
		return r, err
	}
	if err := errors.Join(ns.endAll(syscall.SIGTERM), ns.wipe(ns.all[0], ns.all[2])); err != nil {
		return r, err
	}
	if err := ns.run("cluster", "restore", "--dir", left.dir); err != nil {
		return r, err
	}
	if r.One, err = ns.startWhole(ctx); err != nil {
		return r, err
	}
	o.Progress("restored from the disk of b after %.1f s", r.One.Seconds())
	if err := ns.sameWritten(ctx, elements, keys); err != nil { // it stops all nodes
		return r, err
	}
	r.All, err = ns.restoreAll(ctx)
	if err != nil {
		return r, err
	}
	o.Progress("restored from three backups after %.1f s", r.All.Seconds())
	return r, ns.sameWritten(ctx, elements, keys)
}

// restoreAll makes a backup of each node, writes something that is in none of them, loses all disks, and starts the cluster from the backups.
// The nodes are not running at its beginning.
func (ns *nodes) restoreAll(ctx context.Context) (time.Duration, error) {
	backup := func(n *node) string { return filepath.Join(ns.o.Dir, "backup-"+n.id) }
	for _, n := range ns.all {
		if err := ns.run("checkpoint", "--dir", n.dir, backup(n)); err != nil {
			return 0, err
		}
	}
	if _, err := ns.startWhole(ctx); err != nil {
		return 0, err
	}
	c, err := client.Open(client.Options{Addrs: []string{ns.all[0].addr}})
	if err != nil {
		return 0, err
	}
	_, err = c.Set(bornSet).Add(ctx, "later")
	if err := errors.Join(err, c.Close(), ns.endAll(syscall.SIGKILL), ns.wipe(ns.all...)); err != nil {
		return 0, err
	}
	for _, n := range ns.all {
		if err := ns.run("cluster", "restore", backup(n), "--dir", n.dir); err != nil {
			return 0, err
		}
	}
	return ns.startWhole(ctx)
}

// writeAll adds elements and marks keys at one node.
func writeAll(ctx context.Context, n *node, elements, keys int) error {
	c, err := client.Open(client.Options{Addrs: []string{n.addr}})
	if err != nil {
		return err
	}
	defer c.Close()
	var ops []client.Op
	for i := range elements {
		if ops = append(ops, client.Add(number(i))); len(ops) < 1000 && i < elements-1 {
			continue
		}
		if _, err := c.Write(ctx, client.Write{Set: []byte(bornSet), Ops: ops}); err != nil {
			return err
		}
		ops = nil
	}
	return mark(ctx, n.addr, keys)
}

// startWhole starts all nodes and waits until they are whole.
func (ns *nodes) startWhole(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := ns.startAll(); err != nil {
		return 0, err
	}
	err := ns.whole(ctx, 2*time.Minute)
	return time.Since(began), err
}

// wipe loses the disks of nodes.
func (ns *nodes) wipe(all ...*node) error {
	var errs []error
	for _, n := range all {
		errs = append(errs, n.wipe())
	}
	return errors.Join(errs...)
}

// run runs the program to its end.
func (ns *nodes) run(args ...string) error {
	if out, err := ns.o.Command(args...).CombinedOutput(); err != nil {
		return fmt.Errorf("torture: bigset %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// refusesLoss starts nodes of which two have lost their disks. The new ones must wait, and say what a person can do.
func (ns *nodes) refusesLoss(ctx context.Context) error {
	if err := ns.startAll(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, n := range []*node{ns.all[0], ns.all[2]} {
		for {
			s, err := n.status(ctx)
			if err == nil && s.Sets {
				return fmt.Errorf("torture: node %s answers reads after two of three disks were lost", n.id)
			}
			if err == nil && strings.Contains(s.Waits, "bigset cluster restore") {
				break
			}
			if err := errors.Join(ns.died(), ctx.Err()); err != nil {
				return fmt.Errorf("torture: node %s does not say what to do after two of three disks were lost, but %q: %w", n.id, s.Waits, err)
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
	return nil
}

// sameWritten checks that no node denies a key, and then stops all nodes and reads their stores.
func (ns *nodes) sameWritten(ctx context.Context, elements, keys int) error {
	for _, n := range ns.all {
		if err := checkKeys(ctx, n, keys); err != nil {
			return err
		}
	}
	return sameNumbers(ctx, ns, &Born{Elements: elements, Keys: keys})
}
