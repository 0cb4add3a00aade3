package main

import (
	"context"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/client"
	"bigset/engine"
	"bigset/server/door"
	"bigset/server/setname"
)

func (a *app) setFigures() *cobra.Command {
	return &cobra.Command{
		Use:   "stats SET",
		Short: "Print figures of a set",
		Long: `Print figures of a set: its live dots (an element can have more than one), its events, how many of them are dead, and the actors, the gaps
and the size of its clock. In a cluster the figures are what --r replicas know together. To see what a set takes on the disk of one
node, stop the node and run "bigset stats SET" on its folder.`,
		Example: `  bigset set stats friends
  bigset set stats friends --addr 127.0.0.1:8691`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.statsAway(cmd.Context(), set) }, func(s *engine.Store) error {
				st, err := s.Replica().State(cmd.Context(), set)
				if err != nil {
					return err
				}
				return a.figures(set, door.StatsOf(&st))
			})
		},
	}
}

// statsAway is stats at a running node.
func (a *app) statsAway(ctx context.Context, set []byte) error {
	return a.ask(func(to *client.Client) error {
		st, err := to.Stats(ctx, client.Whole{Set: set, R: a.node.r})
		if err != nil {
			return err
		}
		return a.figures(set, st)
	})
}

func (a *app) figures(set []byte, st client.Stats) error {
	if a.json {
		return a.object(struct {
			jsonSet
			LiveDots       uint64 `json:"live_dots"`
			Events         uint64 `json:"events"`
			DeadDots       uint64 `json:"dead_dots"`
			Actors         uint64 `json:"actors"`
			Gaps           uint64 `json:"gaps"`
			BytesClock     uint64 `json:"bytes_clock"`
			BytesTombstone uint64 `json:"bytes_tombstone"`
		}{notation{}.jsonSet(set), st.Live, st.Seen, st.Dead, st.Actors, st.Gaps, st.ClockBytes, st.TombstoneBytes})
	}
	return a.table(figureRows(set, st))
}

// figureRows are the figures of a set, wherever it is stored.
func figureRows(set []byte, st door.Stats) []row {
	return []row{
		{"set", setname.Quoted(set)},
		{"live dots", bench.Thousands(st.Live)},
		{"events", bench.Thousands(st.Seen)},
		{"dead dots", bench.Thousands(st.Dead)},
		{"actors", bench.Thousands(st.Actors)},
		{"gaps in the clock", bench.Thousands(st.Gaps)},
		{"clock", size(st.ClockBytes)},
		{"tombstone", size(st.TombstoneBytes)},
	}
}
