package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/engine"
)

func (a *app) stats() *cobra.Command {
	return &cobra.Command{
		Use:   "stats [SET]",
		Short: "Print figures of the store, or of a set",
		Long: `Print figures of the store, or of one set. Live dots are its elements, and those that are there twice. With --json there is
more: what the process did since it opened the store, in bytes and counts.`,
		Example: `  bigset stats
  bigset stats friends
  bigset stats --json`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := setNameOrAll(args)
			if err != nil {
				return err
			}
			return a.withStore(atRest, func(s *engine.Store) error {
				if set != nil {
					return a.setStats(cmd.Context(), s, set)
				}
				return a.storeStats(cmd.Context(), s)
			})
		},
	}
}

// totals are figures of a store that take a look at every set.
type totals struct {
	Sets      uint64 `json:"sets"`
	SetsEmpty uint64 `json:"sets_empty"` // of them those without a live dot
	LiveDots  uint64 `json:"live_dots"`
	Events    uint64 `json:"events"` // that the store knows of
}

func (a *app) storeStats(ctx context.Context, s *engine.Store) error {
	var t totals
	for info, err := range s.Sets(ctx, true) {
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
	st, err := s.Stats()
	if err != nil {
		return err
	}
	if a.json {
		return a.object(struct {
			Dir string `json:"dir"`
			totals
			engine.Stats
		}{a.dir, t, st})
	}
	return a.table(storeRows(a.dir, t, st), levelRows(st))
}

// row is a line of a table.
type row []any

func storeRows(dir string, t totals, st engine.Stats) []row {
	return []row{
		{"folder", dir},
		{"records", st.Record},
		{"strategy", st.Strategy},
		{"sets", fmt.Sprintf("%s, %s of them empty", bench.Thousands(t.Sets), bench.Thousands(t.SetsEmpty))},
		{"live dots", bench.Thousands(t.LiveDots)},
		{"events", bench.Thousands(t.Events)},
		{"keys in tables", bench.Thousands(st.KeysInTables)},
		{"on disk", size(st.BytesOnDisk)},
		{"of it in tables", size(st.BytesTables)},
		{"compaction debt", size(st.CompactionDebt)},
		{"heap", size(st.BytesHeap)},
	}
}

// levelRows are the levels of the LSM that have tables.
func levelRows(st engine.Stats) (rows []row) {
	for i, l := range st.Levels {
		if l.Tables > 0 {
			rows = append(rows, row{fmt.Sprintf("level %d", i), fmt.Sprintf("%s in %s", size(l.Bytes), count(uint64(l.Tables), "table"))})
		}
	}
	return rows
}

// setFigures are the figures of one set in JSON.
type setFigures struct {
	jsonSet
	LiveDots       uint64 `json:"live_dots"`
	Events         uint64 `json:"events"`
	DeadDots       uint64 `json:"dead_dots"`
	Actors         int    `json:"actors"`
	Gaps           int    `json:"gaps"`
	BytesClock     int    `json:"bytes_clock"`
	BytesTombstone int    `json:"bytes_tombstone"`
	BytesHeap      int64  `json:"bytes_heap"`
}

func (a *app) setStats(ctx context.Context, s *engine.Store, set []byte) error {
	st, err := s.SetStats(ctx, set)
	if err != nil {
		return err
	}
	if a.json {
		return a.object(setFigures{notation{}.jsonSet(set), st.Live, st.Seen, st.Dead, st.Actors, st.Gaps,
			st.BytesClock, st.BytesTombstone, st.BytesHeap})
	}
	return a.table([]row{
		{"set", fmt.Sprintf("%q", set)},
		{"live dots", bench.Thousands(st.Live)},
		{"events", bench.Thousands(st.Seen)},
		{"dead dots", bench.Thousands(st.Dead)},
		{"actors", bench.Thousands(uint64(st.Actors))},
		{"gaps in the clock", bench.Thousands(uint64(st.Gaps))},
		{"clock", size(uint64(st.BytesClock))},
		{"tombstone", size(uint64(st.BytesTombstone))},
		{"both in memory", size(uint64(st.BytesHeap))},
	})
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
