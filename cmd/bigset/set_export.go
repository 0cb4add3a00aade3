package main

import (
	"context"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
)

func (a *app) setExport() *cobra.Command {
	var n notation
	cmd := &cobra.Command{
		Use:   "export SET",
		Short: "Write all elements, one a line",
		Long: `Write all elements in order, one a line, as import reads them. It takes constant memory. An element with a line break ends the
export with an error; --base64 writes any bytes.`,
		Example: `  bigset set export friends > friends.txt
  bigset set export --base64 friends | bigset set import --base64 copy`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.exportAway(cmd.Context(), set, n) }, func(s *engine.Store) error { return a.export(cmd.Context(), s, set, n) })
		},
	}
	n.flag(cmd)
	return cmd
}

func (a *app) export(ctx context.Context, s *engine.Store, set []byte, n notation) error {
	done := uint64(0)
	for chunk, err := range s.Read(ctx, set, bigset.ReadOptions{}) {
		if err != nil {
			return err
		}
		for _, e := range chunk.Elements {
			if err := a.exportElement(e.Name, n); err != nil {
				return err
			}
		}
		a.exported(&done, len(chunk.Elements))
	}
	return nil
}

// exported shows the progress of an export.
func (a *app) exported(done *uint64, n int) {
	if *done += uint64(n); !a.toTerminal {
		a.progress.show("exported %s", count(*done, "element"))
	}
}

func (a *app) exportElement(element []byte, n notation) error {
	if a.json {
		return a.object(n.jsonElement(element))
	}
	return a.line("", element, n)
}
