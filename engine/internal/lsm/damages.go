package lsm

import (
	"bufio"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bigset"
	"bigset/engine/internal/lockorder"
)

// damageFile names the filters and sets in which damage was found, so that the next process that opens the store knows them. It
// exists only in a store with damage, and is included in a copy of the folder. Each line is one of
//
//	filter GENERATION "NAME" TABLE
//	set "NAME" TABLE
//
// with names quoted as in Go. TABLE is the damaged file, or - if that is not known. A line whose file no longer exists is ignored,
// and so is a line that can't be read: the file is only advice, and the tables decide.
const damageFile = "DAMAGED"

// damagesMax bounds the names that are kept.
const damagesMax = 10_000

// Damages are the filters and sets in which damage was found, now and in earlier processes.
type Damages struct {
	db *DB
	mu lockorder.Mutex[lockorder.DamagesMu]
	// all says where damage was found: the name of a file in the store's folder, or "-".
	all map[Damaged]string
}

// Damaged is a filter, or a set, whose Generation is 0.
type Damaged struct {
	Name       string
	Generation uint64
}

// Open reads what earlier processes have found. It must be called before other methods.
func (d *Damages) Open(db *DB) {
	d.db, d.all = db, map[Damaged]string{}
	if err := d.load(); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		db.opt.Logger.Warn("bigset: can't read which filters and sets were damaged, run `bigset verify`", "file", damageFile, "cause", err)
	}
}

func (d *Damages) load() (err error) {
	f, err := d.db.fs.Open(d.db.fs.PathJoin(d.db.dir, damageFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if what, table, ok := parseDamaged(lines.Text()); ok && len(d.all) < damagesMax {
			d.all[what] = table
		}
	}
	return lines.Err()
}

func (w Damaged) line(table string) string {
	if w.Generation > 0 {
		return fmt.Sprintf("filter %d %q %s\n", w.Generation, w.Name, table)
	}
	return fmt.Sprintf("set %q %s\n", w.Name, table)
}

func parseDamaged(line string) (w Damaged, table string, ok bool) {
	if _, err := fmt.Sscanf(line, "filter %d %q %s", &w.Generation, &w.Name, &table); err == nil {
		return w, table, w.Generation > 0
	}
	w.Generation = 0
	_, err := fmt.Sscanf(line, "set %q %s", &w.Name, &table)
	return w, table, err == nil
}

// Met records that damage was found in a filter or a set, if err says so.
func (d *Damages) Met(what Damaged, err error) {
	if !errors.Is(err, bigset.ErrCorrupt) {
		return
	}
	table := TableOf(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, known := d.all[what]; known && d.exists(before) || !known && len(d.all) >= damagesMax {
		return
	}
	d.all[what] = table
	kind := "set"
	if what.Generation > 0 {
		kind = "filter"
	}
	d.db.opt.Logger.Error("bigset: a "+kind+" is damaged", kind, what.Name, "cause", err)
	d.store()
}

// TableOf returns the name of the damaged file, or - if it is not known.
func TableOf(err error) string {
	if at := (*CorruptionError)(nil); errors.As(err, &at) && at.Path != "" {
		return path.Base(filepath.ToSlash(at.Path))
	}
	return "-"
}

// Replace replaces all entries with what a Verify of the whole store has found.
func (d *Damages) Replace(found map[Damaged]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(found) == 0 && len(d.all) == 0 {
		return
	}
	d.all = found
	d.store()
}

// store writes the file, or removes it if there is no damage. The lock is held.
func (d *Damages) store() {
	fs, err := d.db.fs, error(nil)
	if len(d.all) == 0 {
		if err = fs.Remove(fs.PathJoin(d.db.dir, damageFile)); errors.Is(err, iofs.ErrNotExist) {
			err = nil
		}
	} else {
		lines := make([]string, 0, len(d.all))
		for what, table := range d.all {
			lines = append(lines, what.line(table))
		}
		slices.Sort(lines)
		err = WriteFile(fs, d.db.dir, damageFile, strings.Join(lines, ""))
	}
	if err != nil {
		d.db.opt.Logger.Warn("bigset: can't record which filters and sets are damaged", "file", damageFile, "cause", err)
	}
}

// Forget removes a set from the list: what was damaged of it has been restored.
func (d *Damages) Forget(what Damaged) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.all[what]; known {
		delete(d.all, what)
		d.store()
	}
}

// Has reports whether damage was found in a filter or a set, in a file that still exists.
func (d *Damages) Has(what Damaged) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	table, ok := d.all[what]
	return ok && d.exists(table)
}

func (d *Damages) exists(table string) bool {
	if table == "-" {
		return true
	}
	_, err := d.db.fs.Stat(d.db.fs.PathJoin(d.db.dir, table))
	return !errors.Is(err, iofs.ErrNotExist)
}

// Each calls f for everything that is damaged in a file that still exists, in no order. f must not call methods of d.
func (d *Damages) Each(f func(Damaged)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, table := range d.all {
		if d.exists(table) {
			f(what)
		}
	}
}
