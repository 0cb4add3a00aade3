package torture

import (
	"bytes"
	"context"
	"encoding/json"
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

// repair reads all sets at every node from all owners, whatever their order and however slow they are.
func (r *run) repair(ctx context.Context, c *setClient) error {
	for _, n := range r.ns.all {
		c.node = n
		for i := range sets {
			if err := c.readFrom(ctx, setName(i), r.owners.n); err != nil {
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
	var names []string
	for i := range sets {
		names = append(names, setName(i))
	}
	if err := sameElements(r.ns.all, names, r.owners.set, r.held); err != nil {
		r.o.Progress("%v", err)
		return err
	}
	if err := r.compareKeys(); err != nil {
		return err
	}
	for _, n := range r.ns.all {
		if out, err := r.o.Command("--dir", n.dir, "verify").CombinedOutput(); err != nil {
			return fmt.Errorf("torture: verify of node %s: %w\n%s", n.id, err, out)
		}
	}
	return ctx.Err()
}

// held is what the store of a node has of a set.
type held struct {
	list []string // elements, in order
	live uint64   // adds that keep them in the set
	sum  string   // of the elements and these adds
}

// held returns what the store of a stopped node has of each set, also of an empty one.
func (r *run) held(n *node) (map[string]held, error) {
	out, err := r.o.Command("--dir", n.dir, "set", "names", "--all", "--json").Output()
	if err != nil {
		return nil, err
	}
	all := map[string]held{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var s struct {
			Set  string `json:"set"`
			Live uint64 `json:"live"`
		}
		if err := dec.Decode(&s); err != nil {
			return nil, err
		}
		out, err := r.o.Command("--dir", n.dir, "set", "ls", s.Set).Output()
		if err != nil {
			return nil, fmt.Errorf("set %q: %w", s.Set, err)
		}
		h := held{list: strings.Fields(string(out)), live: s.Live}
		if out, err = r.o.Command("--dir", n.dir, "stats", s.Set, "--sum", "--json").Output(); err != nil {
			return nil, fmt.Errorf("figures of set %q: %w", s.Set, err)
		}
		var figures struct {
			Sum string `json:"live_sum"`
		}
		if err := json.Unmarshal(out, &figures); err != nil || figures.Sum == "" {
			return nil, fmt.Errorf("figures of set %q without a sum: %w", s.Set, err)
		}
		h.sum = figures.Sum
		all[s.Set] = h
	}
	return all, nil
}

// sameElements compares what the owners of each set have of it. Other nodes may have nothing of it.
func sameElements(all []*node, names []string, owners func(set string) []string, of func(n *node) (map[string]held, error)) error {
	has := map[string]map[string]held{}
	for _, n := range all {
		sets, err := of(n)
		if err != nil {
			return fmt.Errorf("torture: the sets of node %s: %w", n.id, err)
		}
		has[n.id] = sets
		for name := range sets {
			if !slices.Contains(names, name) {
				return fmt.Errorf("torture: node %s has a set %q, which no client has", n.id, name)
			}
		}
	}
	for _, name := range names {
		own := owners(name)
		first := has[own[0]][name]
		for _, id := range own[1:] {
			switch other := has[id][name]; {
			case !slices.Equal(first.list, other.list):
				return fmt.Errorf("torture: %w: of %s, node %s alone has %v, and node %s alone has %v", errDiffer, name,
					own[0], without(first.list, other.list), id, without(other.list, first.list))
			case first.live != other.live:
				return fmt.Errorf("torture: %w: of %s, node %s has %d adds, and node %s %d, of the same %d elements", errDiffer, name,
					own[0], first.live, id, other.live, len(first.list))
			case len(first.list) > 0 && first.sum != other.sum:
				return fmt.Errorf("torture: %w: of %s, node %s has other adds than node %s, of the same %d elements", errDiffer, name, own[0], id, len(first.list))
			}
		}
		for _, n := range all {
			if _, has := has[n.id][name]; has && n.stranger(own) {
				return fmt.Errorf("torture: node %s has %s, which nodes %v own", n.id, name, own)
			}
		}
	}
	return nil
}

// stranger reports whether a node must have nothing of what others own: it owns nothing of it, and its folder is not a copy of an owner's.
func (n *node) stranger(owners []string) bool {
	return !slices.Contains(owners, n.id) && !slices.ContainsFunc(n.copied, func(o *node) bool { return slices.Contains(owners, o.id) })
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
