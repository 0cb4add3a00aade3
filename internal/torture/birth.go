package torture

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"syscall"
	"time"

	"bigset/client"
	"bigset/internal/netfault"
)

// Born is the result of a birth.
type Born struct {
	Elements, Keys int
	Whole          time.Duration // from the start of the processes until all members were whole
	Added          int           // elements that clients added during that time
	Slowest        time.Duration // the longest time that one of these took
}

const (
	bornSet    = "numbers"
	bornFilter = "words"
	markedMost = 10_000 // keys of one request
)

// Birth turns the store of one node into that of a cluster. The node has elements and keys of a filter that were made when it was
// alone; the other nodes begin with empty disks; a client adds during the birth. In the end every node's store must have every
// element, and the cluster must deny no key.
func Birth(ctx context.Context, o Options, elements, keys int) (b Born, err error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	o.Nodes = 3
	ns, err := newNodes(&o)
	defer ns.close()
	if err != nil {
		return b, err
	}
	first := ns.all[0]
	if err := fillAlone(ctx, &o, first, elements, keys); err != nil {
		return b, err
	}
	b.Elements, b.Keys = elements, keys
	o.Progress("%d elements and %d keys at node %s alone", elements, keys, first.id)
	began := time.Now()
	if err := ns.startAll(); err != nil {
		return b, err
	}
	adds, stop := context.WithCancel(ctx)
	added := make(chan error, 1)
	go func() { added <- addUntil(adds, ns, &b) }()
	err = ns.whole(ctx, 5*time.Minute)
	b.Whole = time.Since(began)
	stop()
	if err := errors.Join(err, <-added); err != nil {
		return b, err
	}
	o.Progress("whole after %.1f s, with %d elements more, the slowest in %.1f s", b.Whole.Seconds(), b.Added, b.Slowest.Seconds())
	if err := ns.whole(ctx, time.Minute); err != nil { // the last hints
		return b, err
	}
	for _, n := range ns.all {
		if err := checkKeys(ctx, n, keys); err != nil {
			return b, err
		}
	}
	return b, sameNumbers(ctx, ns, &b)
}

// number returns an element, which is also its key in the filter.
func number(i int) []byte { return fmt.Appendf(nil, "%09d", i) }

// fillAlone makes a node's store without a cluster.
func fillAlone(ctx context.Context, o *Options, n *node, elements, keys int) error {
	load := o.Command("--dir", n.dir, "set", "import", bornSet, "--policy", "empty", "--no-sync")
	in, err := load.StdinPipe()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	load.Stdout, load.Stderr = &out, &out
	if err := load.Start(); err != nil {
		return err
	}
	w := bufio.NewWriter(in)
	for i := range elements {
		_, _ = w.Write(append(number(i), '\n')) // Flush returns the error
	}
	if err := errors.Join(w.Flush(), in.Close(), load.Wait()); err != nil {
		return fmt.Errorf("%w\n%s", err, out.Bytes())
	}
	address, err := netfault.FreeAddress()
	if err != nil {
		return err
	}
	serve := o.Command("serve", "--dir", n.dir, "--listen", address, "--insecure")
	if err := serve.Start(); err != nil {
		return err
	}
	marked := listening(ctx, address)
	if marked == nil {
		marked = mark(ctx, address, keys)
	}
	_ = serve.Process.Signal(syscall.SIGTERM)
	return errors.Join(marked, serve.Wait())
}

// listening waits until a process listens.
func listening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return nc.Close()
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return err
		}
	}
}

// mark makes the filter and marks its keys.
func mark(ctx context.Context, address string, keys int) error {
	c, err := client.Open(client.Options{Addrs: []string{address}})
	if err != nil {
		return err
	}
	defer c.Close()
	f := c.Filter([]byte(bornFilter))
	if _, err := f.Create(ctx, client.FilterCreate{}); err != nil {
		return err
	}
	return eachKeys(keys, func(some [][]byte) error {
		_, err := f.Mark(ctx, some...)
		return err
	})
}

// eachKeys calls f with all keys, in batches.
func eachKeys(keys int, f func(some [][]byte) error) error {
	var some [][]byte
	for i := range keys {
		if some = append(some, number(i)); len(some) == markedMost || i == keys-1 {
			if err := f(some); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	return nil
}

func checkKeys(ctx context.Context, n *node, keys int) error {
	c, err := client.Open(client.Options{Addrs: []string{n.addr}})
	if err != nil {
		return err
	}
	defer c.Close()
	f := c.Filter([]byte(bornFilter))
	return eachKeys(keys, func(some [][]byte) error {
		present, err := f.Check(ctx, some...)
		for i, yes := range present {
			if !yes {
				err = errors.Join(err, fmt.Errorf("torture: node %s denies key %s, which was marked", n.id, some[i]))
			}
		}
		return err
	})
}

// addUntil adds elements at all nodes in turn until ctx ends. Refused elements do not count as added. After an error that does not
// say whether the element was added, it adds the element again.
func addUntil(ctx context.Context, ns *nodes, b *Born) error {
	var cs []*client.Client
	for _, n := range ns.all {
		c, err := client.Open(client.Options{Addrs: []string{n.addr}})
		if err != nil {
			return err
		}
		defer c.Close()
		cs = append(cs, c)
	}
	unknown := time.Time{} // since when this is unknown of an element
	for i := 0; ctx.Err() == nil || !unknown.IsZero(); i++ {
		began := time.Now()
		if !unknown.IsZero() && began.Sub(unknown) > time.Minute {
			return fmt.Errorf("torture: for a minute it is unknown whether an element was added while the cluster was born")
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTime)
		_, err := cs[i%len(cs)].Write(bounded, client.Write{Set: []byte(bornSet), Ops: []client.Op{{Kind: client.OpAdd, Element: fmt.Appendf(nil, "more %09d", b.Added)}}})
		cancel()
		switch {
		case err == nil:
			if !unknown.IsZero() {
				began, unknown = unknown, time.Time{}
			}
			b.Added, b.Slowest = b.Added+1, max(b.Slowest, time.Since(began))
		case errors.Is(err, client.ErrUnknown):
			if unknown.IsZero() {
				unknown = began
			}
		case errors.Is(err, client.ErrUnavailable): // for example before the birth
			pause(context.WithoutCancel(ctx), 10*time.Millisecond)
		default:
			return fmt.Errorf("torture: an add while the cluster is born: %w", err)
		}
	}
	return nil
}

// sameNumbers stops all nodes and reads the content of their stores.
func sameNumbers(ctx context.Context, ns *nodes, b *Born) error {
	want := sha256.New()
	for i := range b.Elements {
		_, _ = want.Write(append(number(i), '\n'))
	}
	for i := range b.Added {
		_, _ = fmt.Fprintf(want, "more %09d\n", i)
	}
	sum := want.Sum(nil)
	for _, n := range ns.all {
		if err := n.end(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, n := range ns.all {
		got := sha256.New()
		if err := into(got, ns.o.Command("--dir", n.dir, "set", "export", bornSet)); err != nil {
			return err
		}
		if !bytes.Equal(got.Sum(nil), sum) {
			return fmt.Errorf("torture: node %s has other elements than were added", n.id)
		}
		if out, err := ns.o.Command("--dir", n.dir, "verify").CombinedOutput(); err != nil {
			return fmt.Errorf("torture: verify of node %s: %w\n%s", n.id, err, out)
		}
	}
	return ctx.Err()
}

func into(w io.Writer, cmd *exec.Cmd) error {
	cmd.Stdout = w
	return cmd.Run()
}
