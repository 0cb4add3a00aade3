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

// key returns the owners of a key's slice of a filter.
func (o *owners) key(filter, key string, sliced uint32) []string {
	h := bloomslice.Sum([]byte(key))
	return o.at(keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(filter), h.Slice(sliced)))
}

// marked are the keys that the store of a node has of a filter.
type marked struct {
	slices uint32 // of the filter
	keys   map[string]bool
}

// compareKeys checks that W owners of each acknowledged key have it, and that other nodes have nothing of its slice. All nodes are stopped.
func (r *run) compareKeys() error {
	for i := range filters {
		var keys []string
		for _, c := range r.bloomd {
			keys = append(keys, c.mine[i]...)
		}
		if len(keys) == 0 {
			continue
		}
		// Any client may have dropped the last filter since the others have marked their keys.
		least := r.owners.w
		if i == filters-1 {
			least = 0
		}
		if err := enoughMarks(r.ns.all, filterName(i), keys, least, r.owners.key, r.marks); err != nil {
			return err
		}
	}
	return nil
}

// enoughMarks checks that enough owners have each key of a filter, and no stranger has one.
func enoughMarks(all []*node, filter string, keys []string, least int, owners func(filter, key string, sliced uint32) []string,
	of func(n *node, filter string, keys []string) (marked, error)) error {
	var has []marked
	sliced := uint32(0)
	for _, n := range all {
		m, err := of(n, filter, keys)
		if err != nil {
			return fmt.Errorf("torture: %s of node %s: %w", filter, n.id, err)
		}
		has, sliced = append(has, m), max(sliced, m.slices)
	}
	if sliced == 0 && least > 0 {
		return fmt.Errorf("torture: no node has %s", filter)
	}
	if sliced == 0 {
		return nil
	}
	for _, key := range keys {
		own := owners(filter, key, sliced)
		var have []string
		for i, n := range all {
			switch {
			case !has[i].keys[key]:
			case n.stranger(own):
				return fmt.Errorf("torture: node %s has key %s of %s, which nodes %v own", n.id, key, filter, own)
			case slices.Contains(own, n.id):
				have = append(have, n.id)
			}
		}
		if len(have) < least {
			return fmt.Errorf("torture: of nodes %v, which own key %s of %s, only %v have it, and it was acknowledged by %d", own, key, filter, have, least)
		}
	}
	return nil
}

// marks asks the store of a stopped node for keys. A store has nothing of a filter that was never used there.
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
		Slices uint32 `json:"slices"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return m, err
	}
	check := r.o.Command("--dir", n.dir, "filter", "check", filter)
	check.Stdin = strings.NewReader(strings.Join(keys, "\n") + "\n")
	if out, err = check.Output(); err != nil && !absent(err) {
		return m, err
	}
	m = marked{info.Slices, map[string]bool{}}
	answers := 0
	for line := range bytes.Lines(out) {
		answer, key, _ := bytes.Cut(bytes.TrimSpace(line), []byte("\t"))
		if answers++; string(answer) == "yes" {
			m.keys[string(key)] = true
		}
	}
	if answers != len(keys) {
		return m, fmt.Errorf("%d answers about %d keys", answers, len(keys))
	}
	return m, nil
}
