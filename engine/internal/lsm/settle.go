package lsm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// settle ends a hold by writing to disk what is in memory. After an error nothing has changed, unless late says that the disk may
// have a part of it. Then the disk is consistent, the store must not be written any more, and settle returns the same error from
// then on.
func (h *holdFS) settle() (late bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mem := h.mem.Load()
	if mem == nil || h.late != nil {
		return h.late != nil, h.late
	}
	names, err := mem.List(holdRoot)
	if err != nil {
		return false, err
	}
	w := settling{fs: h, mem: mem, open: map[string]vfs.File{}, keep: map[string]bool{}}
	h.names.Lock()
	for f := range h.writing {
		w.keep[f.path] = true
	}
	h.names.Unlock()
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(holdRank(a), holdRank(b)), strings.Compare(a, b)) })
	for rank := range holdRanks {
		if rank == 1 { // the MANIFEST that names these tables may count from now on
			h.names.Lock()
			clear(h.made)
			h.names.Unlock()
		}
		for _, name := range names {
			if err == nil && holdRank(name) == rank {
				err = w.copy(name)
			}
		}
		if err == nil {
			err = SyncFolder(h.FS, h.dir)
		}
		if err != nil {
			w.giveUp(rank == 0)
			if err = fmt.Errorf("write what the open has in memory: %w", err); rank > 0 {
				h.late = err
			}
			return rank > 0, err
		}
	}
	h.names.Lock()
	defer h.names.Unlock()
	for path := range h.removed {
		_ = h.FS.Remove(path) // the next open removes what is left
	}
	for f := range h.writing {
		if file := w.open[f.path]; f.inMemory && file != nil {
			f.File, f.inMemory = file, false
		}
		f.kept.Store(nil)
	}
	clear(h.writing)
	clear(h.removed)
	h.armed.Store(false)
	h.mem.Store(nil)
	return false, nil
}

// holdRanks is the number of steps in which files go to disk, holdRank the step of a file.
const holdRanks = 3

func holdRank(name string) int {
	switch {
	case strings.HasPrefix(name, allMarkers):
		return 1
	case strings.HasSuffix(name, logSuffix):
		return 2
	}
	return 0
}

// settling writes files of a hold to disk.
type settling struct {
	fs   *holdFS
	mem  *vfs.MemFS
	made []string
	keep map[string]bool     // files that are being written
	open map[string]vfs.File // those that are now on disk
}

func (w *settling) copy(name string) error {
	from, err := w.mem.Open(holdRoot + name)
	if err != nil {
		return err
	}
	defer from.Close()
	path := w.fs.PathJoin(w.fs.dir, name)
	w.made = append(w.made, path)
	to, err := w.fs.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if err == nil && w.keep[path] {
		w.open[path] = to
		return nil
	}
	return errors.Join(err, to.Close())
}

// giveUp closes what is open, and removes it if nothing names it yet.
func (w *settling) giveUp(remove bool) {
	for _, f := range w.open {
		_ = f.Close()
	}
	if remove {
		for _, path := range w.made {
			_ = w.fs.FS.Remove(path)
		}
	}
}

// drop discards a hold when Pebble is closed: the folder is as it was before the open, except for tables that nothing names.
func (h *holdFS) drop() {
	if !h.holds() {
		return
	}
	h.names.Lock()
	defer h.names.Unlock()
	for path := range h.made {
		_ = h.FS.Remove(path)
	}
}
