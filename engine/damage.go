package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bigset"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
)

// damageNotes names the filters and sets in which damage was met, so that the next process that opens the store knows them. It
// exists only in a store with damage, and a copy of the folder takes it along. Each line is one of
//
//	filter GENERATION "NAME" TABLE
//	set "NAME" TABLE
//
// with names quoted as in Go. TABLE is the damaged file, or - where that is not known: a line whose file is gone counts for
// nothing. A line that can't be read is left out: the file is advice, the tables decide.
const damageNotes = "DAMAGED"

// damagesMax bounds the names that are kept.
const damagesMax = 10_000

// Damage names the filters and sets in which damage was met: those of which something on disk can't be read. What was not read
// since it was damaged is not among them; Verify reads everything.
type Damage struct {
	Filters, Sets [][]byte // by name
}

// damages are the filters and sets in which damage was met, now and in earlier processes.
type damages struct {
	s  *Store
	mu lockorder.Mutex[lockorder.DamagesMu]
	// Where damage was met: the name of a file in the store's folder, or "-".
	all map[damaged]string
}

// damaged is a filter, or a set, whose generation is 0.
type damaged struct {
	name       string
	generation uint64
}

// open reads what earlier processes have met.
func (d *damages) open(s *Store) {
	d.s, d.all = s, map[damaged]string{}
	if err := d.load(); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		s.opt.Logger.Warn("bigset: can't read which filters and sets were damaged, run `bigset verify`", "file", damageNotes, "cause", err)
	}
}

// reportDamage logs what is known at the open, once it is known which filters there are.
func (s *Store) reportDamage() {
	if known := s.damage(); len(known.Filters)+len(known.Sets) > 0 {
		s.opt.Logger.Warn("bigset: damage was met before: run `bigset verify`, and bring the folder back from a copy", "dir", s.db.Dir(),
			"filters", quoted(known.Filters), "sets", quoted(known.Sets))
	}
}

func (d *damages) load() (err error) {
	f, err := d.s.db.FS().Open(d.s.db.FS().PathJoin(d.s.db.Dir(), damageNotes))
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

func (w damaged) line(table string) string {
	if w.generation > 0 {
		return fmt.Sprintf("filter %d %q %s\n", w.generation, w.name, table)
	}
	return fmt.Sprintf("set %q %s\n", w.name, table)
}

func parseDamaged(line string) (w damaged, table string, ok bool) {
	if _, err := fmt.Sscanf(line, "filter %d %q %s", &w.generation, &w.name, &table); err == nil {
		return w, table, w.generation > 0
	}
	w.generation = 0
	_, err := fmt.Sscanf(line, "set %q %s", &w.name, &table)
	return w, table, err == nil
}

// namesShown is how many names a line of the log has.
const namesShown = 20

func quoted(names [][]byte) string {
	shown := names[:min(len(names), namesShown)]
	text := fmt.Sprintf("%.64q", shown)
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// met notes that damage was met in a filter or a set, unless err says something else.
func (d *damages) met(what damaged, err error) {
	if !errors.Is(err, bigset.ErrCorrupt) {
		return
	}
	table := tableOf(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, known := d.all[what]; known && d.exists(before) || !known && len(d.all) >= damagesMax {
		return
	}
	d.all[what] = table
	kind := "set"
	if what.generation > 0 {
		kind = "filter"
	}
	d.s.opt.Logger.Error("bigset: a "+kind+" is damaged", kind, what.name, "cause", err)
	d.store()
}

// tableOf returns the name of the damaged file, - where that is not known.
func tableOf(err error) string {
	if at := (*CorruptionError)(nil); errors.As(err, &at) && at.Path != "" {
		return path.Base(filepath.ToSlash(at.Path))
	}
	return "-"
}

// replace takes what a Verify of the whole store has met for all there is.
func (d *damages) replace(found map[damaged]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(found) == 0 && len(d.all) == 0 {
		return
	}
	d.all = found
	d.store()
}

// store writes the file, or removes it where there is no damage. The lock is held.
func (d *damages) store() {
	fs, err := d.s.db.FS(), error(nil)
	if len(d.all) == 0 {
		if err = fs.Remove(fs.PathJoin(d.s.db.Dir(), damageNotes)); errors.Is(err, iofs.ErrNotExist) {
			err = nil
		}
	} else {
		lines := make([]string, 0, len(d.all))
		for what, table := range d.all {
			lines = append(lines, what.line(table))
		}
		slices.Sort(lines)
		err = lsm.WriteFile(fs, d.s.db.Dir(), damageNotes, strings.Join(lines, ""))
	}
	if err != nil {
		d.s.opt.Logger.Warn("bigset: can't write down which filters and sets are damaged", "file", damageNotes, "cause", err)
	}
}

// forget takes a set off the list: what was damaged of it is there again.
func (d *damages) forget(what damaged) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.all[what]; known {
		delete(d.all, what)
		d.store()
	}
}

// has reports whether damage was met in a filter or a set, in a file that is still there.
func (d *damages) has(what damaged) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	table, ok := d.all[what]
	return ok && d.exists(table)
}

func (d *damages) exists(table string) bool {
	if table == "-" {
		return true
	}
	_, err := d.s.db.FS().Stat(d.s.db.FS().PathJoin(d.s.db.Dir(), table))
	return !errors.Is(err, iofs.ErrNotExist)
}

// Damage returns the filters and sets in which damage was met, by this process or by an earlier one. A filter that was dropped is not
// among them, nor anything of a damaged file that is gone.
func (s *Store) Damage() (Damage, error) {
	if err := s.db.Enter(); err != nil {
		return Damage{}, err
	}
	defer s.db.Leave()
	return s.damage(), nil
}

func (s *Store) damage() (known Damage) {
	d := &s.damages
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, table := range d.all {
		if !d.exists(table) {
			continue
		}
		if what.generation == 0 {
			known.Sets = append(known.Sets, []byte(what.name))
		} else if f := s.filters.find([]byte(what.name)); f != nil && f.generation == what.generation {
			known.Filters = append(known.Filters, f.name)
		}
	}
	slices.SortFunc(known.Filters, bytes.Compare)
	slices.SortFunc(known.Sets, bytes.Compare)
	return known
}

// metIn notes damage that was met in a set, if err is that, and returns err.
func (s *Store) metIn(set []byte, err error) error {
	if err != nil {
		s.damages.met(damaged{name: string(set)}, err)
	}
	return err
}
