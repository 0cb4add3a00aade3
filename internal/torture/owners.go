package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"bigset/bloomslice"
	"bigset/internal/ring"
	"bigset/keyscheme"
	"bigset/server/cluster"
)

// owners says which nodes hold what.
type owners struct {
	placed *ring.Map
	n, w   int
}

// ownersOf computes the places of a cluster as its members do.
func ownersOf(s *cluster.Status) (*owners, error) {
	var nodes []ring.Node
	for i := range s.Members {
		nodes = append(nodes, ring.Node{Member: ring.Member{Node: s.Members[i].ID}})
	}
	m, err := ring.Static(ring.ID{}, ring.Settings(s.Settings), nodes, nil)
	return &owners{m, s.Settings.N, s.Settings.W}, err
}

func (o *owners) at(s keyscheme.Slot) (ids []string) {
	for _, m := range o.placed.Lookup(ring.Slot(s)).Owners {
		ids = append(ids, m.Node)
	}
	return ids
}

// set returns the owners of a set.
func (o *owners) set(name string) []string {
	return o.at(keyscheme.SlotOf(keyscheme.PartitionSet, []byte(name), 0))
}

// slice returns the owners of a slice of a filter.
func (o *owners) slice(filter string, slice uint32) []string {
	return o.at(keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(filter), slice))
}

// marked is what the store of a node has of a filter.
type marked struct {
	slices uint32          // of the filter
	here   []uint32        // those that the store has
	keys   map[string]bool // that are in these
}

// compareKeys checks that W owners of each acknowledged key have it, and that other nodes have nothing of its slice. All nodes are stopped.
func (r *run) compareKeys() error {
	for i := range filters {
		var keys []string
		for _, c := range r.bloomd {
			keys = append(keys, c.mine[i]...)
		}
		least := r.owners.w
		if i == filters-1 {
			least = 0 // any client may have dropped this one since the others have marked their keys
		}
		if err := enoughMarks(r.ns.all, filterName(i), keys, least, r.owners.slice, r.marks); err != nil {
			return err
		}
	}
	return nil
}

// enoughMarks checks that enough owners have each key of a filter, and that no other node has a slice of it.
func enoughMarks(all []*node, filter string, keys []string, least int, owners func(filter string, slice uint32) []string,
	of func(n *node, filter string, keys []string) (marked, error)) error {
	has, sliced := map[string]marked{}, uint32(0)
	for _, n := range all {
		m, err := of(n, filter, keys)
		if err != nil {
			return fmt.Errorf("torture: %s of node %s: %w", filter, n.id, err)
		}
		has[n.id], sliced = m, max(sliced, m.slices)
		for _, slice := range m.here {
			if own := owners(filter, slice); n.stranger(own) {
				return fmt.Errorf("torture: node %s has slice %d of %s, which nodes %v own", n.id, slice, filter, own)
			}
		}
	}
	if sliced == 0 {
		if len(keys) > 0 && least > 0 {
			return fmt.Errorf("torture: no node has %s, and keys of it were acknowledged", filter)
		}
		return nil
	}
	for _, key := range keys {
		h := bloomslice.Sum([]byte(key))
		slice := h.Slice(sliced)
		own := owners(filter, slice)
		have := slices.DeleteFunc(slices.Clone(own), func(id string) bool { return !has[id].keys[key] })
		if len(have) < least {
			return fmt.Errorf("torture: of nodes %v, which own slice %d of %s, only %v have key %s, which was acknowledged by %d", own, slice, filter, have, key, least)
		}
	}
	return nil
}

// marks asks the store of a stopped node for keys, those of slices that it has. A store has nothing of a filter that was never used there.
func (r *run) marks(n *node, filter string, keys []string) (m marked, err error) {
	var ended *exec.ExitError
	absent := func(err error) bool { return errors.As(err, &ended) && ended.ExitCode() == 1 }
	out, err := r.o.Command("--dir", n.dir, "filter", "info", filter, "--json").Output()
	if absent(err) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	var info struct {
		Slices uint32   `json:"slices"`
		Here   []uint32 `json:"slices_here"` // left out if it has all
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return m, err
	}
	m = marked{slices: info.Slices, here: info.Here, keys: map[string]bool{}}
	if m.here == nil {
		for i := range m.slices {
			m.here = append(m.here, i)
		}
	}
	asked := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		h := bloomslice.Sum([]byte(key))
		return !slices.Contains(m.here, h.Slice(m.slices))
	})
	if len(asked) == 0 {
		return m, nil
	}
	check := r.o.Command("--dir", n.dir, "filter", "check", filter)
	check.Stdin = strings.NewReader(strings.Join(asked, "\n") + "\n")
	if out, err = check.Output(); err != nil && !absent(err) {
		return m, err
	}
	answers := 0
	for line := range bytes.Lines(out) {
		answer, key, _ := bytes.Cut(bytes.TrimSpace(line), []byte("\t"))
		if answers++; string(answer) == "yes" {
			m.keys[string(key)] = true
		}
	}
	if answers != len(asked) {
		return m, fmt.Errorf("%d answers about %d keys", answers, len(asked))
	}
	return m, nil
}
