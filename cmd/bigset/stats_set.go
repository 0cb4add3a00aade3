package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"text/tabwriter"

	"bigset"
	"bigset/bench"
	"bigset/engine"
	"bigset/server/door"
	"bigset/server/setname"
)

// setFigures are the figures of one set in JSON.
type setFigures struct {
	jsonSet
	LiveDots       uint64   `json:"live_dots"`
	Events         uint64   `json:"events"`
	DeadDots       uint64   `json:"dead_dots"`
	UnresolvedKeys int64    `json:"open_keys"`
	Actors         int      `json:"actors"`
	Gaps           int      `json:"gaps"`
	BytesClock     int      `json:"bytes_clock"`
	BytesTombstone int      `json:"bytes_tombstone"`
	BytesHeap      int64    `json:"bytes_heap"`
	KeysInTables   uint64   `json:"keys_in_tables"`
	KeysDead       uint64   `json:"keys_dead"`
	KeysByLevel    []uint64 `json:"keys_by_level,omitempty"`
	BytesTables    uint64   `json:"bytes_tables"`
	LiveSum        string   `json:"live_sum,omitempty"` // in hexadecimal
}

func figuresOf(st engine.SetStats) setFigures {
	return setFigures{notation{}.jsonSet(st.Name), st.Live, st.Seen, st.Dead, st.Unresolved, st.Actors, st.Gaps,
		st.BytesClock, st.BytesTombstone, st.BytesHeap, st.Keys, st.KeysDead, st.KeysByLevel, st.BytesTables, ""}
}

// liveSum sums up the live keys of a set: its elements, each with the dots by which it is present.
func liveSum(ctx context.Context, s *engine.Store, set []byte) (string, error) {
	st, err := s.Replica().State(ctx, set)
	if err != nil {
		return "", err
	}
	var all bigset.ElementDigest
	for r := (bigset.ElementRange{Within: st.Seen, Mean: bigset.ElementsMeanMax}); ; {
		d, err := s.Replica().ElementDigests(ctx, set, r)
		if err != nil {
			return "", err
		}
		for i := range d.Parts {
			all.Join(&d.Parts[i])
		}
		if d.Done {
			return hex.EncodeToString(all.Sum[:]), nil
		}
		r.After = all.Bound
	}
}

func (a *app) setStats(ctx context.Context, s *engine.Store, set []byte, summed bool) error {
	st, err := s.SetStats(ctx, set)
	if err != nil {
		return err
	}
	figures := figuresOf(st)
	if summed {
		if figures.LiveSum, err = liveSum(ctx, s, set); err != nil {
			return err
		}
	}
	if a.json {
		return a.object(figures)
	}
	rows := append(figureRows(set, door.Stats{Live: st.Live, Seen: st.Seen, Dead: st.Dead, Actors: uint64(st.Actors), Gaps: uint64(st.Gaps),
		ClockBytes: uint64(st.BytesClock), TombstoneBytes: uint64(st.BytesTombstone)}),
		row{"both in memory", size(uint64(st.BytesHeap))})
	if summed {
		rows = append(rows, row{"sum", figures.LiveSum})
	}
	if st.Unresolved > 0 {
		rows = append(rows, row{"open keys", bench.Thousands(uint64(st.Unresolved))})
	}
	if st.Keys == 0 { // it is small, or not in a table yet
		return a.table(rows)
	}
	rows = append(rows, row{"in tables", size(st.BytesTables)}, row{"keys in tables", bench.Thousands(st.Keys)},
		row{"of them dead", bench.Thousands(st.KeysDead)})
	for level, n := range st.KeysByLevel {
		if n > 0 {
			rows = append(rows, row{fmt.Sprintf("level %d", level), count(n, "key")})
		}
	}
	return a.table(rows)
}

// setList selects the sets to list.
type setList struct {
	wanted bool
	by     string
	limit  int // 0 means all
	order  setOrder
}

// setOrder is the figure by which a list of sets is ordered, largest first.
type setOrder func(engine.SetStats) uint64

var setOrders = map[string]setOrder{
	"dead": func(st engine.SetStats) uint64 { return st.KeysDead },
	"size": func(st engine.SetStats) uint64 { return st.BytesTables },
	"live": func(st engine.SetStats) uint64 { return st.Live },
}

// listStats lists sets. Unless all are requested, it keeps at most twice as many as requested.
func (a *app) listStats(ctx context.Context, s *engine.Store, l setList) error {
	var list []engine.SetStats
	cut := func() {
		slices.SortStableFunc(list, func(x, y engine.SetStats) int { return cmp.Compare(l.order(y), l.order(x)) })
		if l.limit > 0 {
			list = list[:min(l.limit, len(list))]
		}
	}
	for st, err := range s.EachSetStats(ctx) {
		if err != nil {
			return err
		}
		if list = append(list, st); l.limit > 0 && len(list) == 2*l.limit {
			cut()
		}
	}
	cut()
	if a.json {
		for _, st := range list {
			if err := a.object(figuresOf(st)); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "live dots\tdead keys\tin tables\tclock\ttombstone\tgaps\tactors\t  set")
	for _, st := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", bench.Thousands(st.Live), bench.Thousands(st.KeysDead), size(st.BytesTables),
			size(uint64(st.BytesClock)), size(uint64(st.BytesTombstone)), bench.Thousands(uint64(st.Gaps)), bench.Thousands(uint64(st.Actors)), setname.Quoted(st.Name))
	}
	return w.Flush()
}
