package demo

import (
	"fmt"
	"strings"

	"bigset/bench"
	"bigset/bench/screen"
)

// Figure is one figure of the race for both racers. Sizes are in bytes, times in microseconds or seconds.
type Figure struct {
	Leg           string   `json:"leg"`
	Name          string   `json:"figure"`
	Unit          string   `json:"unit"` // B, keys, 1 (a share), us, s
	SetTombstones float64  `json:"set_tombstones"`
	PointDeletes  float64  `json:"point_deletes"`
	Ratio         *float64 `json:"ratio"` // SetTombstones / PointDeletes; nil if the latter is 0
	Means         string   `json:"means"`
}

// figures returns the figures of a leg, or none before the leg was measured.
func figures(l *bench.Leg) (list []Figure) {
	if len(l.Racers[0].Samples) == 0 {
		return nil
	}
	add := func(name, unit, means string, of func(*bench.Racer) float64) {
		f := Figure{Leg: l.Name, Name: name, Unit: unit, Means: means, SetTombstones: of(&l.Racers[0]), PointDeletes: of(&l.Racers[1])}
		if f.PointDeletes > 0 {
			f.Ratio = new(f.SetTombstones / f.PointDeletes)
		}
		list = append(list, f)
	}
	add("bytes written", "B", "wear of the disk", func(r *bench.Racer) float64 { return float64(r.BytesWritten) })
	add("most dead keys", "keys", "at a time; reads step over them", func(r *bench.Racer) float64 { return float64(mostDead(r)) })
	if l.Racers[0].SpaceBack != nil {
		add("space back", "1", "of what the dead took, at rest", func(r *bench.Racer) float64 { return *r.SpaceBack })
	} else {
		add("space taken", "B", "by tables, at rest", func(r *bench.Racer) float64 { return float64(r.BytesTables) })
	}
	add("read p99", "us", "the slow one of 100 reads", func(r *bench.Racer) float64 { return r.ReadP99 })
	add("time", "s", "for all operations and reads", func(r *bench.Racer) float64 { return r.Seconds })
	return list
}

// mostDead returns the largest number of dead keys that a racer had in tables at a time.
func mostDead(r *bench.Racer) uint64 {
	most := r.KeysDead
	for _, s := range r.Samples {
		most = max(most, s.KeysDead)
	}
	return most
}

// text returns a value of the figure with its unit.
func (f *Figure) text(v float64) string {
	switch f.Unit {
	case "B":
		return screen.Bytes(v)
	case "keys":
		return bench.Thousands(uint64(v))
	case "1":
		return fmt.Sprintf("%.0f %%", 100*v)
	case "us":
		return screen.Micros(v)
	}
	return fmt.Sprintf("%.1f s", v)
}

// ratio returns the figure's ratio as text.
func (f *Figure) ratio() string {
	switch {
	case f.Ratio == nil && f.SetTombstones == 0:
		return "" // both are 0
	case f.Ratio == nil:
		return "-"
	case *f.Ratio > 0 && *f.Ratio < 0.095:
		return fmt.Sprintf("%.3f", *f.Ratio)
	case *f.Ratio >= 100: // the column has six characters
		return fmt.Sprintf("%.0f", *f.Ratio)
	}
	return fmt.Sprintf("%.2f", *f.Ratio)
}

// nearLeast and nearMost bound the ratios that are called near.
const (
	nearLeast = 1 / nearMost
	nearMost  = 1.5
)

func near(ratio float64) bool { return ratio >= nearLeast && ratio <= nearMost }

// churnText says in which figures the two were near under uniform churn, as measured.
func churnText(table []Figure) string {
	var nears, others []string
	for _, f := range table {
		switch {
		case f.Leg != "churn" || f.Ratio == nil || f.Unit == "keys":
		case near(*f.Ratio):
			nears = append(nears, f.Name+" "+f.ratio())
		default:
			others = append(others, f.Name+" "+f.ratio())
		}
	}
	switch {
	case len(nears)+len(others) == 0:
		return "" // it was not measured
	case len(nears) == 0:
		return "Uniform churn is where the two should be near; here they were not: " + strings.Join(others, ", ") + "."
	case len(others) == 0:
		return "Under uniform churn the two are near: " + strings.Join(nears, ", ") + "."
	}
	return "Under uniform churn the two are near in " + strings.Join(nears, ", ") + "; not in " + strings.Join(others, ", ") + "."
}
