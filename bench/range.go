package bench

import (
	"bytes"

	"bigset/bench/system"
)

// ranges: time until the first element is at hand, of a range and of a prefix somewhere in the set that hold about a
// hundred elements, and of the first hundred. Raw Pebble opens an iterator with the same bounds and seeks.
func ranges(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == system.NameBlob {
			n = min(n, 10*blobMaxFull)
		}
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			s := sys.Set(system.SetName)
			if _, err := e.loaded(sys, s, n); err != nil {
				return err
			}
			return e.queriesOn(c, sys, s, n)
		})
	})
}

const (
	rangeElements    = 100
	rangeQueries     = 5_000
	rangeQueriesBlob = 20
)

// queriesOn measures each kind of query.
func (e *env) queriesOn(c contender, sys system.System, s system.Set, n int) error {
	queries := rangeQueries
	if c.system == system.NameBlob {
		queries = rangeQueriesBlob
	}
	from, to := make([]byte, 0, system.ElementBytes), []byte("g") // behind all hexadecimal digits
	place, digits := system.Scatter(n, e.cfg.Seed), system.PrefixDigits(n)
	for _, kind := range []struct {
		part string
		ask  func(i int) system.Query
	}{
		{"range", func(i int) system.Query { // from an element on, so there is a first one
			from = e.names().Append(from[:0], place(i))
			return system.Query{From: from, To: to, Limit: rangeElements}
		}},
		{"range/prefix", func(i int) system.Query {
			from = e.names().Append(from[:0], place(i))
			return system.Query{Prefix: bytes.Clone(from[:digits]), Limit: rangeElements}
		}},
		{"range/first-100", func(int) system.Query { return system.Query{Limit: rangeElements} }},
	} {
		err := e.measure(sys, Row{Workload: kind.part, Elements: n}, func(p *phase) error {
			missing := 0
			err := p.loop(queries, func(i int) error {
				found, err := s.First(kind.ask(i))
				if !found {
					missing++
				}
				return err
			})
			if err != nil {
				return err
			}
			return system.Expect("queries without an answer", missing, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rangeGoals() (list []goal) {
	for _, part := range []string{"range", "range/prefix", "range/first-100"} {
		list = append(list, goal{what: "time to first element, of a raw seek", of: pick{workload: part, system: system.NameBigset},
			to: pick{workload: part, system: system.NamePebble}, have: latency, atMost: true, limit: 2,
			why: "all is in memory in a small run, and what a read costs by itself shows (1.5 at 10 million)"})
	}
	return list
}
