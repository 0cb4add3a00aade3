package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errDiffer is wrapped by the error of stores that have different elements.
var errDiffer = errors.New("nodes have different elements at the end")

// roundsMax is how often the stores may differ before they count as diverged.
const roundsMax = 5

// agree returns nil once the stores of all nodes have the same elements. They may differ at first without any fault of the program. A write whose
// coordinator was killed can be at one node only, with no hint left. Then anti-entropy brings it to the others, which takes minutes, or
// read repair does, but only to the replicas that the read asks, and a default read leaves one out. So each round first reads from
// all replicas, and then compares. Repairs are sent in the background, and so is a write to a third replica once two have it. The end of
// the processes cuts both off; of the write a hint remains. So if the stores differ, all nodes start again, deliver their hints,
// and are read and compared again. Stores that differ in every round have diverged.
func agree(ctx context.Context, repair, compare, restart func(context.Context) error) error {
	for round := 1; ; round++ {
		if err := repair(ctx); err != nil {
			return err
		}
		err := compare(ctx)
		if !errors.Is(err, errDiffer) || round == roundsMax {
			return err
		}
		if err := restart(ctx); err != nil {
			return err
		}
	}
}

// repair reads all sets at every node from all replicas, whatever their order and however slow they are.
func (r *run) repair(ctx context.Context, c *setClient) error {
	for _, n := range r.ns.all {
		c.node = n
		for i := range sets {
			if err := c.readFrom(ctx, fmt.Sprint("set", i), len(r.ns.all)); err != nil {
				return fmt.Errorf("a repair at the end, at node %s: %w", n.id, err)
			}
		}
	}
	return nil
}

// restart starts all nodes, which have ended, and waits until they are whole.
func (r *run) restart(ctx context.Context) error {
	if err := r.ns.startAll(); err != nil {
		return err
	}
	return r.ns.whole(ctx, time.Minute)
}

// compare stops all nodes cleanly and compares the contents of their stores. Each store is read by itself, and verified.
func (r *run) compare(ctx context.Context) error {
	for _, n := range r.ns.all {
		if err := n.end(syscall.SIGTERM); err != nil {
			return err
		}
	}
	if err := sameElements(r.ns.all, r.elements); err != nil {
		r.o.Progress("%v", err)
		return err
	}
	for _, n := range r.ns.all {
		if out, err := r.o.Command("--dir", n.dir, "verify").CombinedOutput(); err != nil {
			return fmt.Errorf("torture: verify of node %s: %w\n%s", n.id, err, out)
		}
	}
	return ctx.Err()
}

// elements returns the elements of a set in the store of a stopped node, in order.
func (r *run) elements(n *node, set string) ([]string, error) {
	out, err := r.o.Command("--dir", n.dir, "set", "ls", set).Output()
	return strings.Fields(string(out)), err
}

// sameElements compares the elements that nodes have.
func sameElements(all []*node, elements func(n *node, set string) ([]string, error)) error {
	for i := range sets {
		var first []string
		for _, n := range all {
			list, err := elements(n, fmt.Sprint("set", i))
			if err != nil {
				return fmt.Errorf("set %d of node %s: %w", i, n.id, err)
			}
			if n == all[0] {
				first = list
			} else if !slices.Equal(first, list) {
				return fmt.Errorf("torture: %w: of set %d, node %s alone has %v, and node %s alone has %v", errDiffer, i,
					all[0].id, without(first, list), n.id, without(list, first))
			}
		}
	}
	return nil
}

// without returns the elements of a sorted list that another sorted list does not have.
func without(list, other []string) (only []string) {
	for _, e := range list {
		if _, has := slices.BinarySearch(other, e); !has {
			only = append(only, e)
		}
	}
	return only
}
