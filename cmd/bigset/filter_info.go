package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bench"
)

// filterFigures are the facts of a filter in JSON.
type filterFigures struct {
	jsonFilter
	Probability float64 `json:"probability"`
	Capacity    uint64  `json:"capacity"`
	Size        uint64  `json:"size"`
	Storage     uint64  `json:"storage"`
	Damaged     bool    `json:"damaged,omitempty"`
}

func (f *facts) json() filterFigures {
	return filterFigures{filterJSON(f.name), f.probability, f.Capacity, f.Size, f.Storage, f.damaged()}
}

func (f *facts) damaged() bool { return f.stored != nil && f.stored.Damaged }

func (fs *filterCommand) list() *cobra.Command {
	return &cobra.Command{
		Use:        "list [PREFIX]",
		SuggestFor: []string{"ls", "names"},
		Short:      "List the filters",
		Long: `List the filters, or those whose names begin with a prefix: the probability of a false positive, the capacity in keys before the filter
grows, the number of keys, and the bytes of the layers as bloomd counts them, which are not those on disk. In
a data folder it also marks the filters in which a server, a command or "bigset verify" has found damage. "bigset verify" reads all filters.`,
		Example: `  bigset filter list
  bigset filter --addr localhost:8673 list seen- --json`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var prefix []byte
			if len(args) > 0 {
				prefix = []byte(args[0])
			}
			return fs.with(cmd.Context(), atRest, func(h holder) error {
				list, err := h.list(cmd.Context(), prefix)
				if err != nil {
					return err
				}
				return fs.listed(list)
			})
		},
	}
}

func (fs *filterCommand) listed(list []facts) error {
	w := tabwriter.NewWriter(fs.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !fs.json {
		fmt.Fprintln(w, "probability\tcapacity\tsize\tstorage\t  filter")
	}
	for _, f := range list {
		switch {
		case fs.json:
			if err := fs.object(f.json()); err != nil {
				return err
			}
		case f.damaged() && f.probability == 0: // nothing else is known
			fmt.Fprintf(w, "\t\t\t\t  %q  damaged\n", f.name)
		default:
			damaged := ""
			if f.damaged() {
				damaged = "  damaged"
			}
			fmt.Fprintf(w, "%v\t%s\t%s\t%s\t  %q%s\n", f.probability, bench.Thousands(f.Capacity), bench.Thousands(f.Size),
				bench.Thousands(f.Storage), f.name, damaged)
		}
	}
	return w.Flush()
}

func (fs *filterCommand) info() *cobra.Command {
	return &cobra.Command{
		Use:   "info FILTER",
		Short: "Show the figures of a filter",
		Long: `Show the figures of a filter. For a data folder they include the options with which it was made; from a server they include the counts
since the server started, and the probability has six decimals.`,
		Example: `  bigset filter info seen
  bigset filter --addr localhost:8673 info seen --json`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := filterName(args[0])
			if err != nil {
				return err
			}
			return fs.with(cmd.Context(), atRest, func(h holder) error {
				f, err := h.info(cmd.Context(), name)
				if err != nil {
					return err
				}
				return fs.informed(f)
			})
		},
	}
}

var durabilityNames = [...]string{
	bigset.FilterServer:   "server",
	bigset.FilterInterval: "interval",
	bigset.FilterLog:      "log",
	bigset.FilterSync:     "sync",
}

func (fs *filterCommand) informed(f facts) error {
	rows := []row{
		{"filter", fmt.Sprintf("%q", f.name)},
		{"probability", strconv.FormatFloat(f.probability, 'g', -1, 64)},
		{"capacity", count(f.Capacity, "key")},
		{"size", count(f.Size, "key")},
		{"storage", bench.Thousands(f.Storage) + " bytes"},
	}
	if f.stored != nil {
		return fs.informedStored(f, rows)
	}
	i := f.serving
	if fs.json {
		return fs.object(struct {
			filterFigures
			InMemory    bool   `json:"in_memory"`
			CheckHits   uint64 `json:"check_hits"`
			CheckMisses uint64 `json:"check_misses"`
			SetHits     uint64 `json:"set_hits"`
			SetMisses   uint64 `json:"set_misses"`
			PageIns     uint64 `json:"page_ins"`
			PageOuts    uint64 `json:"page_outs"`
		}{f.json(), i.InMemory, i.CheckHits, i.CheckMisses, i.SetHits, i.SetMisses, i.PageIns, i.PageOuts})
	}
	return fs.table(append(rows,
		row{"in memory now", yesOrNo(i.InMemory)},
		row{"checks: present", bench.Thousands(i.CheckHits)},
		row{"checks: absent", bench.Thousands(i.CheckMisses)},
		row{"sets: added", bench.Thousands(i.SetHits)},
		row{"sets: present before", bench.Thousands(i.SetMisses)},
		row{"read in", bench.Thousands(i.PageIns)},
		row{"closed", bench.Thousands(i.PageOuts)}))
}

func (fs *filterCommand) informedStored(f facts, rows []row) error {
	o, here := f.stored.Options, f.here
	if len(here) == int(o.Slices) {
		here = nil // all: only in a cluster a folder has a part
	}
	if fs.json {
		return fs.object(struct {
			filterFigures
			InitialCapacity uint64   `json:"initial_capacity"`
			Scale           uint32   `json:"scale_size"`
			Reduction       float64  `json:"probability_reduction"`
			InMemory        bool     `json:"kept_in_memory_only"`
			Durability      string   `json:"durability"`
			Slices          uint32   `json:"slices"`
			Owners          uint32   `json:"owners"`
			Here            []uint32 `json:"slices_here,omitempty"`
		}{f.json(), o.Capacity, o.Scale, o.Reduction, o.InMemory, durabilityNames[o.Durability], o.Slices, o.Owners, here})
	}
	if f.damaged() {
		rows = append(rows, row{"damaged", "yes, see `bigset verify`"})
	}
	if o.Slices > 1 {
		text := bench.Thousands(uint64(o.Slices))
		if here != nil {
			text = fmt.Sprintf("%s, of which the folder has %s", text, bench.Thousands(uint64(len(here))))
		}
		rows = append(rows, row{"slices", text})
	}
	if o.Owners > 1 {
		rows = append(rows, row{"owners of layers", bench.Thousands(uint64(o.Owners))})
	}
	return fs.table(append(rows,
		row{"first layer", count(o.Capacity, "key")},
		row{"each layer", fmt.Sprintf("%d times the keys of the one before, %v of its probability", o.Scale, o.Reduction)},
		row{"in memory only", yesOrNo(o.InMemory)},
		row{"durability", durabilityNames[o.Durability]}))
}
