package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/internal/bloomdfiles"
)

func (fs *filterCommand) exportBloomd() *cobra.Command {
	m := &moving{filterCommand: fs}
	cmd := &cobra.Command{
		Use:   "export-bloomd DATA_DIR",
		Short: "Export filters to the format of a bloomd",
		Long: `Write filters to a bloomd's data folder, which is created if it does not exist. A bloomd that is started on it gives the same answers,
including false positives. Filters that the folder has already, and those that bloomd cannot have, are left out.`,
		Example: `  bigset filter export-bloomd /var/lib/bloomd
  bigset filter export-bloomd copy --name seen`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.addr != "" {
				return usage(cmd, "export-bloomd reads the data folder, not a server; give --dir while the server is stopped")
			}
			m.dataDir = args[0]
			return m.withStore(atRest, func(s *engine.Store) error {
				m.store = s
				return m.exportAll(cmd.Context())
			})
		},
	}
	m.flags(cmd)
	cmd.ValidArgsFunction = completeFolder
	return cmd
}

func (m *moving) exportAll(ctx context.Context) error {
	names := m.names
	if len(names) == 0 {
		infos, err := m.store.Filters().List(nil)
		if err != nil {
			return err
		}
		for _, info := range infos {
			names = append(names, string(info.Name))
		}
	}
	for _, name := range names {
		err := m.exportOne(ctx, name)
		if err != nil {
			err = m.leaveOut(ctx, name, err)
		}
		if err != nil {
			return err
		}
	}
	return m.finish("exported")
}

func (m *moving) exportOne(ctx context.Context, name string) (err error) {
	f, err := folderHolder{m.store}.find([]byte(name))
	if err != nil {
		return err
	}
	r, err := f.Read(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if slices.ContainsFunc(r.Layers, func(l bloomslice.Layer) bool { return l.ID.Owner != "" }) {
		return fmt.Errorf("%w: filter %q has layers of several owners, a bloomd has no word for them", bigset.ErrRequest, name)
	}
	w, err := bloomdfiles.Create(m.dataDir, name, r.Options.Options, r.Options.InMemory, r.Layers)
	if err != nil {
		return err
	}
	if err := m.write(ctx, name, r, w); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Finish(); err != nil {
		return err
	}
	return m.exported(name, w.Config())
}

func (m *moving) write(ctx context.Context, name string, r *filters.Reader, w *bloomdfiles.Writer) error {
	for p, err := range r.Pages(ctx) {
		if err != nil {
			return err
		}
		m.bytes += uint64(len(p.Bits))
		m.progress.show("%s, at %q", size(m.bytes), name)
		if err := w.Write(bloomdfiles.Page{Layer: int(p.Layer.Index), Page: p.Page, Bits: p.Bits}); err != nil {
			return err
		}
	}
	return nil
}

func (m *moving) exported(name string, c bloomdfiles.Config) error {
	m.done++
	m.moved += c.Bytes
	printed := strconv.FormatFloat(c.Probability, 'f', 6, 64)
	if p, _ := strconv.ParseFloat(printed, 64); p != c.Probability {
		if err := m.note("%q: bloomd keeps six decimals of its probability %v, %s: by that it grows there, or by bloomd's default where it is 0",
			name, c.Probability, printed); err != nil {
			return err
		}
	}
	return m.answer(struct {
		jsonFilter
		Keys  uint64 `json:"keys"`
		Bytes uint64 `json:"bytes"`
	}{filterJSON([]byte(name)), c.Size, c.Bytes}, "%q: %s, %s", name, keyTally(c.Size), size(c.Bytes))
}
