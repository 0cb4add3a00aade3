package compare

import (
	"fmt"
	"strings"
)

// Direction says which change of a figure is an improvement.
type Direction string

const (
	More    Direction = "more"    // more is better
	Less    Direction = "less"    // less is better
	Neither Direction = "neither" // a description of the load: it changed, and that is all
)

// Figure is one kind of number in a round.
type Figure struct {
	Name   string    `json:"figure"` // as in the reports
	Unit   string    `json:"unit"`
	Better Direction `json:"better"`
	// Count says that the figure counts things. If all rounds of each side agree, a count has no noise, and any difference is a change.
	Count bool `json:"-"`
}

// figures are all figures that are compared. Others in a report are not read.
var figures = []Figure{
	{"ops", "ops", Neither, true},
	{"ops_per_s", "op/s", More, false},
	{"cpu_us_per_op", "us", Less, false},
	{"p50_us", "us", Less, false},
	{"p99_us", "us", Less, false},
	{"p999_us", "us", Less, false},
	{"bytes_written", "B", Less, true},
	{"bytes_wal", "B", Less, true},
	{"bytes_flush", "B", Less, true},
	{"bytes_compact", "B", Less, true},
	{"bytes_rewrite", "B", Less, true},
	{"bytes_read", "B", Less, true},
	{"bytes_on_disk", "B", Less, true},
	{"bytes_peak", "B", Less, true},
	{"bytes_live", "B", Neither, true},
	{"bytes_moved", "B", Less, true},
	{"write_amp", "1", Less, false},
	{"keys_live", "keys", Neither, true},
	{"keys_dead", "keys", Less, true},
	{"heap_bytes", "B", Less, true},
	{"mb_per_s", "MB/s", More, false},
	{"kept", "1", More, false},
	{"allocs_per_op", "1", Less, false},
	{"share", "1", Less, false},
	{"errors", "ops", Less, true},
	{"rss_bytes", "B", Less, true},
	{"stalls", "times", Less, true},
	{"keys_tabled", "keys", Less, true},
	{"late", "ops", Less, true},
}

// FigureList returns all figures that are compared, in the order in which they are shown.
func FigureList() []Figure { return append([]Figure(nil), figures...) }

// figureNamed finds a figure by its name, or by its name without the unit: p99 is p99_us.
func figureNamed(name string) (int, error) {
	var names []string
	for i, f := range figures {
		if name == f.Name || name == shortName(f.Name) {
			return i, nil
		}
		names = append(names, shortName(f.Name))
	}
	return 0, fmt.Errorf("%w: no figure %q: the figures are %s", ErrOptions, name, strings.Join(names, ", "))
}

// shortName is the short name of a figure for flags.
func shortName(name string) string {
	if name == "cpu_us_per_op" {
		return "cpu"
	}
	return strings.TrimSuffix(name, "_us")
}
