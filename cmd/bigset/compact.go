package main

import (
	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/engine"
)

func (a *app) compact() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact [SET]",
		Short: "Remove dead keys from the disk now",
		Long: `Remove dead keys from the disk now, of one set or of all, in the way of the store's strategy. While a program has a store open, the
store does this by itself in the background.`,
		Example: `  bigset compact
  bigset compact friends --json`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setNameOrAll(cmd, args)
			if err != nil {
				return err
			}
			return a.withStore(atRest, func(s *engine.Store) error {
				rep, err := s.Compact(cmd.Context(), engine.CompactOptions{Set: set, Progress: a.compacting})
				if err != nil {
					return err
				}
				return a.compacted(rep)
			})
		},
	}
	bucketFlags(cmd)
	return cmd
}

func (a *app) compacting(r engine.CompactReport) {
	a.progress.show("compacting: %s, %s read, %s dropped", count(uint64(r.Sets), "set"), count(r.KeysRead, "key"), bench.Thousands(r.KeysDropped))
}

// compactReport is the report of a compaction in JSON.
type compactReport struct {
	Sets        int    `json:"sets"`
	Spans       int    `json:"spans"`
	SpansLeft   int    `json:"spans_left"`
	KeysRead    uint64 `json:"keys_read"`
	KeysDropped uint64 `json:"keys_dropped"`
	BytesOut    uint64 `json:"bytes_out"`
	BytesBefore uint64 `json:"bytes_before"`
	BytesAfter  uint64 `json:"bytes_after"`
}

func (a *app) compacted(r engine.CompactReport) error {
	return a.answer(
		compactReport{r.Sets, r.Spans, r.SpansLeft, r.KeysRead, r.KeysDropped, r.BytesOut, r.DiskBefore, r.DiskAfter},
		"compacted %s: %s read, %s dropped; tables were %s, are %s", count(uint64(r.Sets), "set"), count(r.KeysRead, "key"),
		bench.Thousands(r.KeysDropped), size(r.DiskBefore), size(r.DiskAfter))
}
