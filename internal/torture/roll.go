package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// roll is the fault that replaces each node by one of the next version, and back, one by one, while clients work.
const roll = "roll"

// roll rolls all nodes to the next version and back. Its error may be a client's that a restart does not explain.
func (r *run) roll(ctx context.Context) error {
	for _, next := range []bool{true, false} {
		for _, n := range r.ns.all {
			if err := n.end(syscall.SIGTERM); err != nil {
				return err
			}
			n.next = next
			if err := r.ns.start(n); err != nil {
				return err
			}
			if err := r.ns.whole(ctx, time.Minute); err != nil {
				return err
			}
			if err := n.speaks(ctx); err != nil {
				return err
			}
			pause(ctx, 300*time.Millisecond) // the versions mix under load
		}
	}
	if err := r.strange.Load(); err != nil {
		return fmt.Errorf("torture: an error that no restart explains: %w", *err)
	}
	return ctx.Err()
}

// note keeps the first error of a client that a restart does not explain.
func (r *run) note(err error) {
	for _, usual := range []error{door.ErrUnavailable, wire.ErrNotSent, wire.ErrLost, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, usual) {
			return
		}
	}
	r.strange.CompareAndSwap(nil, &err)
}

// The versions of the wire's protocol that the two programs speak.
const (
	versionNow  = 3
	versionNext = 4
)

// speaks returns an error if a node does not run the version that it should.
func (n *node) speaks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return err
	}
	c, err := wire.NewClient(ctx, nc, wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}, VersionMost: versionNext}})
	if err != nil {
		return err
	}
	want := byte(versionNow)
	if n.next {
		want = versionNext
	}
	if v := c.Remote().Version; v != want {
		err = fmt.Errorf("torture: node %s speaks version %d, expected %d", n.id, v, want)
	}
	return errors.Join(err, c.Close())
}
