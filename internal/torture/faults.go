package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"bigset/internal/netfault"
)

// wipe deletes a node's folder. The process must have ended. If the node has a disk of its own, the folder is deleted rather than
// moved, because the disk has no room for lost data.
func (n *node) wipe() error {
	n.copied = nil
	if n.disk != "" {
		return os.RemoveAll(n.dir)
	}
	n.lives++
	return os.Rename(n.dir, fmt.Sprintf("%s.lost-%d", n.dir, n.lives))
}

// keepCopy keeps a copy of a node's folder. The process must have ended.
func (n *node) keepCopy() error {
	if err := os.RemoveAll(n.copy); err != nil {
		return err
	}
	return os.CopyFS(n.copy, os.DirFS(n.dir))
}

// rollBack replaces a node's folder by its copy. The process must have ended.
func (n *node) rollBack() error {
	copied := n.copied // the copy was made after that
	if err := n.wipe(); err != nil {
		return err
	}
	n.copied = copied
	return os.CopyFS(n.dir, os.DirFS(n.copy))
}

// clone replaces a node's folder by a copy of another node's. Both processes must have ended.
func (n *node) clone(of *node) error {
	if err := n.wipe(); err != nil {
		return err
	}
	n.copied = append(slices.Clone(of.copied), of)
	return os.CopyFS(n.dir, os.DirFS(of.dir))
}

func (r *run) how(rng *rand.Rand) netfault.How {
	if rng.IntN(2) == 0 {
		return netfault.FIN
	}
	return netfault.RST
}

// delay delays both directions of a link.
func (r *run) delay(l *netfault.Link, d time.Duration) {
	l.Delay(netfault.Forth, d, d/2)
	l.Delay(netfault.Back, d, d/2)
}

// limit limits both directions of a link; 0 is no limit.
func (r *run) limit(l *netfault.Link, bytesPerSecond int64) {
	l.Limit(netfault.Forth, bytesPerSecond)
	l.Limit(netfault.Back, bytesPerSecond)
}

// startIfFailed restarts a node if it reports that its store takes no writes until then, as an operator would.
func (r *run) startIfFailed(ctx context.Context, n *node) error {
	s, err := n.status(ctx)
	for i := range s.Members {
		if m := &s.Members[i]; err == nil && m.ID == n.id && m.StoreFailed {
			r.o.Progress("the store of node %s has failed: it is started again", n.id)
			if err := n.end(syscall.SIGKILL); err != nil {
				return err
			}
			return r.ns.start(n)
		}
	}
	return err
}
