package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
	"bigset/internal/bloomdfiles"
)

var errLeftOut = errors.New("not all filters came over")

func (fs *filterCommand) importBloomd() *cobra.Command {
	m := &moving{filterCommand: fs}
	cmd := &cobra.Command{
		Use:   "import-bloomd DATA_DIR",
		Short: "Import the filters of a bloomd",
		Long: `Import the filters of a bloomd from its data folder, or from a copy of it. They give the same answers, including false
positives. The bloomd must be stopped. Each filter is imported whole or not at all. If the files of a filter are damaged or do not fit each
other, or if the filter already exists here, it is left out; the others are imported, and the exit status is 2.

Only the options of a filter in memory are imported, because bloomd writes nothing else. config.ini has six decimals; a probability that
needs more is derived from the size of the first file.`,
		Example: `  bigset filter import-bloomd /var/lib/bloomd --dry-run
  bigset --dir /var/lib/bigset filter import-bloomd /var/lib/bloomd
  bigset filter import-bloomd copy --name seen --name users`,
		Args: takes(1, 1),
		RunE: m.importing,
	}
	m.flags(cmd)
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "check everything, and write nothing")
	fs.recordFlag(cmd)
	cmd.ValidArgsFunction = completeFolder
	return cmd
}

// moving is one run of import-bloomd or export-bloomd.
type moving struct {
	*filterCommand
	names  []string
	dryRun bool

	dataDir         string
	store           *engine.Store // nil for a dry run
	done, left      int           // filters
	moved           uint64        // size of the filters that are done
	bytes, bytesAll uint64        // for progress: read so far, and total
}

func (m *moving) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&m.names, "name", nil, "this filter only; may be given several times")
}

// leaveOut reports why a filter was not moved, and continues, unless the error concerns all of them.
func (m *moving) leaveOut(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil || errors.Is(err, bigset.ErrFailed) || errors.Is(err, bigset.ErrDiskFull) {
		return err
	}
	m.left++
	return m.note("bigset: %q is left out: %s", name, plain(err))
}

// finish reports how much was moved.
func (m *moving) finish(what string) error {
	if m.left > 0 {
		return fmt.Errorf("%w: %s %s, %d left out", errLeftOut, what, filterTally(m.done), m.left)
	}
	return m.answer(struct {
		Filters int    `json:"filters"`
		Bytes   uint64 `json:"bytes"`
	}{m.done, m.moved}, "%s %s, %s", what, filterTally(m.done), size(m.moved))
}

func filterTally(n int) string { return fmt.Sprintf("%d %s", n, plural(uint64(n), "filter")) }

func (m *moving) importing(cmd *cobra.Command, args []string) error {
	if m.addr != "" {
		return usage(cmd, "import-bloomd writes to the data folder, not to a server; give --dir while the server is stopped")
	}
	m.dataDir = args[0]
	names, err := bloomdfiles.Names(m.dataDir)
	if err != nil {
		return err
	}
	if len(m.names) > 0 {
		names = m.names
	}
	if user, path := whoHasOpen(m.dataDir); user != "" {
		return fmt.Errorf("%w: process %s has %s open", errRunning, user, path)
	}
	if m.dryRun {
		return m.importAll(cmd.Context(), names)
	}
	return m.withStore(making, func(s *engine.Store) error {
		m.store = s
		return m.importAll(cmd.Context(), names)
	})
}

func (m *moving) importAll(ctx context.Context, names []string) error {
	var list []*bloomdfiles.Filter
	for _, name := range names {
		f, err := bloomdfiles.Open(m.dataDir, name)
		if err == nil {
			_, err = filterName(name)
		}
		if err != nil {
			if err := m.leaveOut(ctx, name, err); err != nil {
				return err
			}
			continue
		}
		list = append(list, f)
		m.bytesAll += f.Bytes()
	}
	for _, f := range list {
		err := m.importOne(ctx, f)
		if err != nil {
			err = m.leaveOut(ctx, f.Name, err)
		}
		if err != nil {
			return err
		}
	}
	if m.dryRun {
		return m.finish("could import")
	}
	return m.finish("imported")
}

func (m *moving) importOne(ctx context.Context, f *bloomdfiles.Filter) error {
	if err := m.remarks(f); err != nil {
		return err
	}
	if err := m.bring(ctx, f); err != nil {
		return err
	}
	m.done++
	m.moved += f.Bytes()
	return m.answer(struct {
		jsonFilter
		Probability float64 `json:"probability"`
		Derived     bool    `json:"derived"`
		Keys        uint64  `json:"keys"`
		Layers      int     `json:"layers"`
		Bytes       uint64  `json:"bytes"`
	}{filterJSON([]byte(f.Name)), f.Options.Probability, f.Derived, f.Keys(), len(f.Layers), f.Bytes()},
		"%q: %s in %s, %s", f.Name, keyTally(f.Keys()), layerTally(len(f.Layers)), size(f.Bytes()))
}

func keyTally(n uint64) string { return fmt.Sprintf("%d %s", n, plural(n, "key")) }

func layerTally(n int) string { return fmt.Sprintf("%d %s", n, plural(uint64(n), "layer")) }

// remarks prints notes about a filter that is being moved.
func (m *moving) remarks(f *bloomdfiles.Filter) error {
	var err error
	if f.Derived {
		first := f.Layers[0].Shape
		err = m.note("%q: config.ini has probability %f, which its files are not of: %v is derived from %d bytes, %d bits a key and capacity %d",
			f.Name, f.Config.Probability, f.Options.Probability, first.Bytes, first.K, first.Capacity)
	}
	if f.Config.InMemory {
		err = errors.Join(err, m.note("%q is in memory only: its options come over, and none of its keys", f.Name))
	} else if f.Keys() != f.Config.Size {
		err = errors.Join(err, m.note("%q: config.ini counts %d keys, its files %d: its bloomd did not stop in order, and what it had not flushed is lost",
			f.Name, f.Config.Size, f.Keys()))
	}
	return err
}

// bring reads a whole filter, and writes it unless it is a dry run.
func (m *moving) bring(ctx context.Context, f *bloomdfiles.Filter) (err error) {
	switch {
	case m.dryRun:
		for _, err := range m.pages(f) {
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	case f.Config.InMemory:
		_, err = m.store.Filters().Create(ctx, []byte(f.Name), bigset.FilterOptions{Options: f.Options, InMemory: true})
	default:
		_, err = m.store.Filters().Import(ctx, []byte(f.Name), bigset.FilterOptions{Options: f.Options}, f.Layers, m.pages(f))
	}
	return err
}

// pages returns the pages of a filter, and shows the progress.
func (m *moving) pages(f *bloomdfiles.Filter) iter.Seq2[filters.Page, error] {
	return func(yield func(filters.Page, error) bool) {
		for p, err := range f.Pages() {
			m.bytes += uint64(len(p.Bits))
			m.progress.show("%s of %s, at %q", size(m.bytes), size(m.bytesAll), f.Name)
			if !yield(filters.Page{Layer: bloomslice.LayerID{Index: uint16(p.Layer)}, Page: p.Page, Bits: p.Bits}, err) {
				return
			}
		}
	}
}
