package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bench"
	"bigset/engine"
	"bigset/server"
	"bigset/server/setname"
)

func (a *app) stats() *cobra.Command {
	var l setList
	var metrics, summed bool
	cmd := &cobra.Command{
		Use:   "stats [SET]",
		Short: "Print figures of the store, or of sets",
		Long: `Print figures of the store, of one set, or with --sets of the sets that have most of something. An element has one live dot, or more
if concurrent adds made them. Dead keys are the keys in tables beyond the live dots. They are known from the tables' own counts, which name
sets with at least 64 keys and do not include what is only in the log. For bloom filters the figures are the numbers of filters, slices,
keys and pages, and the bytes of the pages; pages without a bit are not stored. Sets and filters in which a
server, a command or "bigset verify" has found damage are named. --json has more: what the process did since it opened
the store, in bytes, counts and seconds. --metrics prints the same as lines that Prometheus reads.`,
		Example: `  bigset stats
  bigset stats friends
  bigset stats --sets --by size --limit 5
  bigset stats --metrics`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setNameOrAll(cmd, args)
			if err != nil {
				return err
			}
			if set != nil && (l.wanted || metrics) || l.wanted && metrics {
				return usage(cmd, "SET, --sets and --metrics exclude each other")
			}
			if summed && set == nil {
				return usage(cmd, "--sum is for a SET")
			}
			order, ok := setOrders[l.by]
			if !ok {
				return usage(cmd, "--by %q: it is dead, size or live", l.by)
			}
			l.order = order
			return a.withStore(atRest, func(s *engine.Store) error {
				switch {
				case set != nil:
					return a.setStats(cmd.Context(), s, set, summed)
				case l.wanted:
					return a.listStats(cmd.Context(), s, l)
				case metrics:
					return a.metrics(s)
				}
				return a.storeStats(cmd.Context(), s)
			})
		},
	}
	bucketFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&l.wanted, "sets", false, "list sets")
	f.StringVar(&l.by, "by", "dead", "with --sets: the order: most dead keys (dead), bytes in tables (size), or live dots (live) first")
	f.IntVar(&l.limit, "limit", 20, "with --sets: the most sets to print, 0 is all")
	f.BoolVar(&metrics, "metrics", false, "print figures of the store in Prometheus' text format")
	f.BoolVar(&summed, "sum", false, "with SET: also read the whole set, and print a sum of its elements and their live dots, which is the same for replicas that agree")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"dead", "size", "live"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// totals are the figures of a store that require a look at every set.
type totals struct {
	Sets      uint64 `json:"sets"`
	SetsEmpty uint64 `json:"sets_empty"` // of these, the sets without a live dot
	LiveDots  uint64 `json:"live_dots"`
	Events    uint64 `json:"events"` // known to the store

	FilterSlices   uint64       `json:"filter_slices"`
	FilterKeys     uint64       `json:"filter_keys"`
	FilterCapacity uint64       `json:"filter_capacity"`
	FilterPages    uint64       `json:"filter_pages"`         // taken by the bits of their layers
	FilterStorage  uint64       `json:"filter_storage_bytes"` // by bloomd's formula
	DamagedFilters []jsonFilter `json:"damaged_filters,omitempty"`
	DamagedSets    []jsonSet    `json:"damaged_sets,omitempty"`

	filters, damaged string // for people
}

// addFilters adds the figures of all filters, and the damaged ones.
func (t *totals) addFilters(s *engine.Store) error {
	infos, err := s.Filters().List(nil)
	if err != nil {
		return err
	}
	for _, f := range infos {
		t.FilterSlices += uint64(f.SlicesHere)
		t.FilterKeys += f.Size
		t.FilterCapacity += f.Capacity
		t.FilterPages += f.Pages
		t.FilterStorage += f.Storage
	}
	t.filters = fmt.Sprintf("%s in %s, %s, %s, %s", bench.Thousands(uint64(len(infos))), count(t.FilterSlices, "slice"), count(t.FilterKeys, "key"),
		count(t.FilterPages, "page"), size(t.FilterStorage))
	known, err := s.Damage()
	if err != nil {
		return err
	}
	for _, name := range known.Filters {
		t.DamagedFilters = append(t.DamagedFilters, filterJSON(name))
	}
	for _, name := range known.Sets {
		t.DamagedSets = append(t.DamagedSets, notation{}.jsonSet(name))
	}
	t.damaged = strings.Join(slices.Concat(damagedOf("filter", known.Filters, quote), damagedOf("set", known.Sets, setname.Quoted)), ", ")
	return nil
}

func quote(b []byte) string { return strconv.Quote(string(b)) }

func damagedOf(what string, names [][]byte, quoted func([]byte) string) (all []string) {
	for _, name := range names {
		all = append(all, what+" "+quoted(name))
	}
	return all
}

func (a *app) storeStats(ctx context.Context, s *engine.Store) error {
	var t totals
	var damage error // in a clock: the rest is printed nevertheless
	for info, err := range s.Sets(ctx, bigset.SetsOptions{Empty: true}) {
		if errors.Is(err, bigset.ErrCorrupt) {
			damage = fmt.Errorf("not all sets are counted: %w", err)
			break
		}
		if err != nil {
			return err
		}
		t.Sets++
		t.LiveDots += info.Live
		t.Events += info.Seen
		if info.Live == 0 {
			t.SetsEmpty++
		}
	}
	if err := t.addFilters(s); err != nil {
		return err
	}
	st, err := s.Stats()
	if err != nil {
		return err
	}
	if a.json {
		err = a.object(struct {
			Dir string `json:"dir"`
			totals
			engine.Stats
		}{a.dir, t, st})
	} else {
		err = a.table(storeRows(a.dir, t, st), levelRows(st))
	}
	return errors.Join(err, damage)
}

// row is a line of a table.
type row []any

func storeRows(dir string, t totals, st engine.Stats) []row {
	rows := []row{
		{"folder", dir},
		{"records", st.Record},
		{"strategy", st.Strategy},
		{"sets", fmt.Sprintf("%s, %s of them empty", bench.Thousands(t.Sets), bench.Thousands(t.SetsEmpty))},
		{"live dots", bench.Thousands(t.LiveDots)},
		{"events", bench.Thousands(t.Events)},
		{"filters", t.filters},
		{"keys in tables", bench.Thousands(st.KeysInTables)},
		{"on disk", size(st.BytesOnDisk)},
		{"of it in tables", size(st.BytesTables)},
		{"compaction debt", size(st.CompactionDebt)},
		{"heap", size(st.BytesHeap)},
	}
	if t.damaged != "" {
		rows = append(rows, row{"damaged", t.damaged})
	}
	if st.DiskSpaceLevel > 0 {
		rows = append(rows, row{"free on the disk", fmt.Sprintf("%s, adds are refused at %s", size(st.DiskFreeBytes), size(st.DiskReserveBytes))})
	}
	return rows
}

// levelRows are the levels of the LSM that have tables.
func levelRows(st engine.Stats) (rows []row) {
	for i, l := range st.Levels {
		if l.Tables > 0 {
			rows = append(rows, row{fmt.Sprintf("level %d", i), fmt.Sprintf("%s in %s", size(l.Bytes), count(l.Tables, "table"))})
		}
	}
	return rows
}

// metrics prints the figures of Stats in the text format of Prometheus.
func (a *app) metrics(s *engine.Store) error {
	st, err := s.Stats()
	if err != nil {
		return err
	}
	return server.WriteMetrics(a.out, st.Metrics())
}

// table prints rows of a label and a value, aligned.
func (a *app) table(parts ...[]row) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, rows := range parts {
		for _, r := range rows {
			printRow(w, r)
		}
	}
	return w.Flush()
}

func printRow(w io.Writer, r row) { fmt.Fprintf(w, "%v\t%v\n", r...) }
