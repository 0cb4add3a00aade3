package main

import (
	"github.com/spf13/cobra"

	"bigset/engine"
)

func (a *app) checkpoint() *cobra.Command {
	return &cobra.Command{
		Use:   "checkpoint DEST",
		Short: "Make a copy of the store in another folder",
		Long: `Make a copy of the store in a folder that is new or empty. On the same file system tables are shared by hard
links, so the copy takes little time and space. Later it takes more, because it keeps tables that the store removes. The copy
is a store of its own: it may be opened where it is, copied elsewhere, or restored from.`,
		Example: `  bigset checkpoint /backup/monday
  bigset --dir /backup/monday verify`,
		Args:              takes(1, 1),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(atRest, func(s *engine.Store) error {
				if err := s.Checkpoint(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.answer(struct {
					Dir        string `json:"dir"`
					Checkpoint string `json:"checkpoint"`
				}{a.dir, args[0]}, "checkpoint of %s in %s", a.dir, args[0])
			})
		},
	}
}

func (a *app) restore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore SRC",
		Short: "Make a store from a checkpoint",
		Long: `Make the store in --dir, a folder that is new or empty, from a checkpoint, or from a copy of the folder of a store that is
not open. Files are copied, and SRC is unchanged. The new store counts its events under an actor of its own, so both stores may be
used.`,
		Example: `  bigset restore /backup/monday
  bigset restore /backup/monday --dir ./restored`,
		Args:              takes(1, 1),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			rep, err := engine.Restore(cmd.Context(), args[0], a.dir, &engine.RestoreOptions{Progress: a.restoring})
			if err != nil {
				return err
			}
			return a.answer(struct {
				Dir   string `json:"dir"`
				From  string `json:"from"`
				Files int    `json:"files"`
				Bytes uint64 `json:"bytes"`
			}{a.dir, args[0], rep.Files, rep.Bytes},
				"restored %s from %s: %s, %s", a.dir, args[0], count(uint64(rep.Files), "file"), size(rep.Bytes))
		},
	}
}

func (a *app) restoring(r engine.RestoreReport) {
	a.progress.show("restoring: %s of %s, %d of %s", size(r.BytesDone), size(r.Bytes), r.FilesDone, count(uint64(r.Files), "file"))
}
