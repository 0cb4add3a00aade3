package engine

import (
	"bytes"
	"fmt"
	"slices"

	"bigset/engine/internal/lsm"
)

// Damage names the filters and sets in which damage was met: something of them on disk cannot be read. What was not
// read since it was damaged is not included; Verify reads everything.
type Damage struct {
	Filters, Sets [][]byte // by name
}

// reportDamage logs the damage that is known when the store is opened. It is called once the existing filters are
// known.
func (s *Store) reportDamage() {
	if known := s.damage(); len(known.Filters)+len(known.Sets) > 0 {
		s.opt.Logger.Warn("bigset: damage was met before: run `bigset verify`, and restore the folder from a copy", "dir", s.db.Dir(),
			"filters", quoted(known.Filters), "sets", quoted(known.Sets))
	}
}

// namesShown is how many names a line of the log contains.
const namesShown = 20

func quoted(names [][]byte) string {
	shown := names[:min(len(names), namesShown)]
	text := fmt.Sprintf("%.64q", shown)
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Damage returns the filters and sets in which damage was met, by this process or by an earlier one. Dropped filters
// are not included, nor is anything of a damaged file that no longer exists.
func (s *Store) Damage() (Damage, error) {
	if err := s.db.Enter(); err != nil {
		return Damage{}, err
	}
	defer s.db.Leave()
	return s.damage(), nil
}

func (s *Store) damage() (known Damage) {
	s.damages.Each(func(what lsm.Damaged) {
		if what.Generation == 0 {
			known.Sets = append(known.Sets, []byte(what.Name))
		} else if s.filters.Has(what.Name, what.Generation) {
			known.Filters = append(known.Filters, []byte(what.Name))
		}
	})
	slices.SortFunc(known.Filters, bytes.Compare)
	slices.SortFunc(known.Sets, bytes.Compare)
	return known
}

// metIn records damage that was met in a set, if err is such damage, and returns err.
func (s *Store) metIn(set []byte, err error) error {
	if err != nil {
		s.damages.Met(lsm.Damaged{Name: string(set)}, err)
	}
	return err
}
