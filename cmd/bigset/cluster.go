package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"bigset/internal/ring"
	"bigset/keyscheme"
)

// cluster returns the commands for clusters.
func (a *app) cluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Try a cluster, show its state, restore it, and say which nodes hold what",
		Long: `A cluster splits the hash space into buckets and keeps n copies of each, on n nodes. Every node computes the same places
from the same list of nodes. A set is in one bucket; the slices of a filter are in several.`,
		Example: `  bigset cluster try
  bigset cluster status --addr 127.0.0.1:8691
  bigset cluster plan --nodes a,b,c
  bigset cluster plan --nodes a:2@east,b:2@west,c:1@north --buckets 1024 --json
  bigset cluster lookup friends --nodes a,b,c,d`,
	}
	cmd.AddCommand(a.clusterTry(), a.clusterStatus(), a.clusterRestore(), a.clusterPlan(), a.clusterLookup())
	return chooser(cmd)
}

// layout is the flags that describe a cluster.
type layout struct {
	nodes    []string
	strategy string
	ring.Settings
}

func (l *layout) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&l.nodes, "nodes", nil, "the nodes, each NAME[:WEIGHT][@ZONE]; a weight is 1 unless given")
	f.IntVar(&l.Buckets, "buckets", 256, "number of buckets of the cluster, a power of two")
	f.IntVar(&l.N, "n", 3, "copies of each bucket; fewer if the cluster has fewer nodes")
	f.StringVar(&l.strategy, "strategy", "", "how buckets are placed: "+strings.Join(placements(), ", ")+" (default: "+placements()[0]+")")
	_ = cmd.RegisterFlagCompletionFunc("strategy", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // the flag exists
		return placements(), cobra.ShellCompDirectiveNoFileComp
	})
}

// placements returns the names of the strategies, the default first.
func placements() (names []string) {
	for _, s := range ring.Strategies() {
		names = append(names, s.Name())
	}
	return names
}

// plan returns the map that the flags describe.
func (l *layout) plan(cmd *cobra.Command) (*ring.Map, error) {
	by, ok := ring.StrategyOf(l.strategy)
	if !ok {
		return nil, usage(cmd, "--strategy %s: it is one of %s", l.strategy, strings.Join(placements(), ", "))
	}
	if len(l.nodes) == 0 {
		return nil, usage(cmd, "--nodes is missing: it names the cluster's nodes, as in --nodes a,b,c")
	}
	var nodes []ring.Node
	for _, text := range l.nodes {
		n, err := parseNode(text)
		if err != nil {
			return nil, usage(cmd, "--nodes: %w", err)
		}
		if slices.ContainsFunc(nodes, func(o ring.Node) bool { return o.Node == n.Node }) {
			return nil, usage(cmd, "--nodes: node %s is named twice", n.Node)
		}
		nodes = append(nodes, n)
	}
	l.R, l.W, l.Slices = l.N/2+1, l.N/2+1, 1
	if l.N < 1 || l.N > ring.CopiesMax {
		return nil, usage(cmd, "--n %d: it is 1 to %d", l.N, ring.CopiesMax)
	}
	m, err := ring.Static(ring.ID{}, l.Settings, nodes, by)
	if err != nil {
		return nil, usage(cmd, "%w", err)
	}
	return m, nil
}

// planOf returns the map of the cluster of a node, or that of the flags if no node is named.
func (l *layout) planOf(cmd *cobra.Command, address, certificates string) (*ring.Map, error) {
	f := cmd.Flags()
	if !f.Changed("addr") {
		if f.Changed("tls") {
			return nil, usage(cmd, "--tls is for a node: give its --addr too")
		}
		return l.plan(cmd)
	}
	for _, flag := range []string{"nodes", "buckets", "n", "strategy"} {
		if f.Changed(flag) {
			return nil, usage(cmd, "--%s and --addr: the node says what its cluster has, give one of them", flag)
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
	defer cancel()
	s, err := statusOf(ctx, address, certificates)
	if err != nil {
		return nil, err
	}
	var nodes []ring.Node
	for i := range s.Members {
		nodes = append(nodes, ring.Node{Member: ring.Member{Node: s.Members[i].ID}})
	}
	return ring.Static(ring.ID{}, ring.Settings(s.Settings), nodes, nil) // as the members do
}

// parseNode reads NAME[:WEIGHT][@ZONE].
func parseNode(text string) (n ring.Node, err error) {
	rest, zone, zoned := strings.Cut(text, "@")
	name, weight, weighed := strings.Cut(rest, ":")
	n = ring.Node{Member: ring.Member{Node: name}, Zone: zone, Weight: 1}
	switch {
	case name == "" || zoned && zone == "" || weighed && weight == "":
		return n, fmt.Errorf("%q is not NAME[:WEIGHT][@ZONE]", text)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return n, fmt.Errorf("%q has a blank or a control character", text)
	}
	if weighed {
		w, err := strconv.ParseUint(weight, 10, 32)
		if err != nil || w == 0 || w > ring.WeightMax {
			return n, fmt.Errorf("%q: a weight is a whole number from 1 to %d", text, ring.WeightMax)
		}
		n.Weight = uint32(w)
	}
	return n, n.Check()
}

func (a *app) clusterPlan() *cobra.Command {
	var l layout
	var list bool
	cmd := &cobra.Command{
		Use:   "plan --nodes NAME[:WEIGHT][@ZONE],…",
		Short: "Compute which nodes would hold which buckets",
		Long: `Compute where a cluster of these nodes keeps its copies, without asking any of them: how many copies and primaries each node
has, and with --list which nodes hold each bucket, the primary first. The order of the nodes does not matter. A node has its share by
weight, but never two copies of one bucket, and the copies of a bucket are spread over the zones.`,
		Example: `  bigset cluster plan --nodes a,b,c
  bigset cluster plan --nodes a:2@east,b:2@west,c:1@north,d:1@north --buckets 1024
  bigset cluster plan --nodes a,b,c,d --buckets 16 --list`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := l.plan(cmd)
			if err != nil {
				return err
			}
			if list {
				return a.listBuckets(m)
			}
			return a.countCopies(m)
		},
	}
	l.flags(cmd)
	cmd.Flags().BoolVar(&list, "list", false, "print each bucket with the nodes that hold it, not the counts")
	return cmd
}

// countCopies prints what each node holds.
func (a *app) countCopies(m *ring.Map) error {
	type held struct {
		Node      string `json:"node"`
		Zone      string `json:"zone,omitempty"`
		Weight    uint32 `json:"weight"`
		Copies    int    `json:"copies"`
		Primaries int    `json:"primaries"`
	}
	rows, at := make([]held, len(m.Nodes)), map[string]int{}
	wide := len("node")
	for i, n := range m.Nodes {
		rows[i], at[n.Node] = held{Node: n.Node, Zone: n.Zone, Weight: n.Weight}, i
		wide = max(wide, len(n.Node))
	}
	for b := range m.All() {
		for i, who := range b.Owners {
			rows[at[who.Node]].Copies++
			if i == 0 {
				rows[at[who.Node]].Primaries++
			}
		}
	}
	if !a.json {
		fmt.Fprintf(a.out, "%-*s %8s %8s %9s  %s\n", wide, "node", "weight", "copies", "primaries", "zone")
	}
	for _, r := range rows {
		text := strings.TrimRight(fmt.Sprintf("%-*s %8d %8d %9d  %s", wide, r.Node, r.Weight, r.Copies, r.Primaries, r.Zone), " ")
		if err := a.answer(r, "%s", text); err != nil {
			return err
		}
	}
	return nil
}

// bucketJSON is a bucket with the nodes that hold it.
type bucketJSON struct {
	Set    *string  `json:"set,omitempty"`
	Filter *string  `json:"filter,omitempty"`
	Slice  *uint32  `json:"slice,omitempty"`
	Slot   string   `json:"slot"`
	Mask   string   `json:"mask"`
	Key    string   `json:"key"`
	Nodes  []string `json:"nodes"`
}

func bucketOf(slot ring.Slot, held *ring.Assignment) bucketJSON {
	mask, key, _ := strings.Cut(held.Bucket.String(), "/")
	j := bucketJSON{Slot: fmt.Sprintf("%08x", slot), Mask: mask, Key: key}
	for _, who := range held.Owners {
		j.Nodes = append(j.Nodes, who.Node)
	}
	return j
}

// listBuckets prints each bucket, in the order of slots.
func (a *app) listBuckets(m *ring.Map) error {
	for b := range m.All() {
		j := bucketOf(b.Bucket.First(), b)
		if err := a.answer(j, "%v from slot %s: %s", b.Bucket, j.Slot, strings.Join(j.Nodes, " ")); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) clusterLookup() *cobra.Command {
	var l layout
	var filter bool
	var slice uint32
	var address, certificates string
	cmd := &cobra.Command{
		Use:   "lookup NAME {--addr HOST:PORT | --nodes NAME[:WEIGHT][@ZONE],…}",
		Short: "Compute which nodes hold a set or a filter",
		Long: `Compute the slot and the bucket of a set, and the nodes that hold it, the primary first; with --filter those of one slice of a
bloom filter. --addr asks a node for the members and settings of its cluster; without it no node is asked, and --nodes, --buckets, --n and
--strategy have to be those of the cluster.`,
		Example: `  bigset cluster lookup friends --addr 127.0.0.1:8691
  bigset cluster lookup friends --nodes a,b,c,d
  bigset cluster lookup seen --filter --slice 7 --nodes a,b,c,d --json`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := l.planOf(cmd, address, certificates)
			if err != nil {
				return err
			}
			return a.lookUp(cmd, m, args[0], filter, slice)
		},
	}
	l.flags(cmd)
	cmd.Flags().StringVar(&address, "addr", "", "`HOST:PORT` of a node of the cluster")
	cmd.Flags().StringVar(&certificates, "tls", "", "with --addr: `folder` of a client's certificate (default: without TLS)")
	_ = cmd.MarkFlagDirname("tls")
	cmd.Flags().BoolVar(&filter, "filter", false, "NAME is a bloom filter")
	cmd.Flags().Uint32Var(&slice, "slice", 0, "with --filter: which slice")
	return cmd
}

// lookUp prints where a set or one slice of a filter is held.
func (a *app) lookUp(cmd *cobra.Command, m *ring.Map, name string, filter bool, slice uint32) error {
	kind, what := keyscheme.PartitionSet, "set"
	if filter {
		kind, what = keyscheme.PartitionFilter, "filter"
		if _, err := filterName(name); err != nil {
			return err
		}
		if slice >= ring.SlicesMax {
			return usage(cmd, "--slice %d: a filter has at most %d slices", slice, ring.SlicesMax)
		}
	} else if cmd.Flags().Changed("slice") {
		return usage(cmd, "--slice goes with --filter")
	} else if name == "" {
		return fmt.Errorf("%w: it is empty", errSetName)
	} else if err := keyscheme.CheckSetName([]byte(name)); err != nil {
		return fmt.Errorf("%w: it has %d bytes", errSetName, len(name))
	}
	slot := ring.Slot(keyscheme.SlotOf(kind, []byte(name), slice))
	held := m.Lookup(slot)
	j := bucketOf(slot, held)
	if j.Set = &name; filter {
		j.Set, j.Filter, j.Slice = nil, &name, &slice
	}
	return a.answer(j, "%s %q: slot %s, bucket %v, nodes %s", what, name, j.Slot, held.Bucket, strings.Join(j.Nodes, " "))
}
