package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bigset/engine"
	"bigset/server"
	"bigset/server/cluster"
)

func (a *app) clusterRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore [SRC]",
		Short: "Prepare the folder of a node to start its cluster again, as it is or from a backup",
		Long: `Start a cluster again from one backup for each node, or from the remaining disks. Stop all nodes. Run this command on each machine that has
an intact folder or a backup: with SRC it first copies that checkpoint into --dir, which must not exist. Nodes without data start with an empty
folder. Then start all nodes as before. When all are up, they join what the restored folders hold, in the cluster's next generation.

Writes that were acknowledged after the backups, or were only on lost disks, are gone. A folder of the former generation that returns later is
refused.`,
		Example: `  bigset cluster restore /backup/monday --dir /var/lib/bigset
  bigset cluster restore --dir /var/lib/bigset      # two of three disks are lost; this is the third`,
		Args:              takes(0, 1),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			copies := len(args) == 1
			if copies {
				_, err := engine.Restore(cmd.Context(), args[0], a.dir, &engine.RestoreOptions{Progress: a.restoring})
				if errors.Is(err, engine.ErrNotEmpty) {
					err = fmt.Errorf("%w; if it is the copy that an earlier run has made, `bigset cluster restore --dir %s` marks it", err, a.dir)
				}
				if err != nil {
					return err
				}
			}
			return a.withStore(atRest, func(s *engine.Store) error {
				r, err := server.PrepareRestore(cmd.Context(), s)
				switch {
				case err != nil && copies && errors.Is(err, cluster.ErrConfig):
					return fmt.Errorf("%w; remove %s, which is a copy of %s now", err, a.dir, args[0])
				case err != nil && copies:
					return fmt.Errorf("%w; %s is a copy of %s now, but is not marked: `bigset cluster restore --dir %s` marks it", err, a.dir, args[0], a.dir)
				case err != nil:
					return err
				}
				return a.answer(struct {
					Dir        string `json:"dir"`
					Cluster    string `json:"cluster"`
					Generation uint64 `json:"generation"`
					Epoch      uint64 `json:"epoch"`
				}{a.dir, r.Name, r.Generation, r.Epoch},
					"%s starts cluster %s again when all its nodes are up, with what it held in generation %d, epoch %d", a.dir, r.Name, r.Generation, r.Epoch)
			})
		},
	}
}
