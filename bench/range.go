package bench

import "bytes"

// ranges: time until the first element is at hand, of a range and of a prefix somewhere in the set that hold about a
// hundred elements, and of the first hundred. Raw Pebble opens an iterator with the same bounds and seeks.
func ranges(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == systemBlob {
			n = min(n, 10*blobMaxFull)
		}
		return e.with(c, openOptions{warm: true}, func(sys system) error {
			s := sys.set(setName)
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
func (e *env) queriesOn(c contender, sys system, s set, n int) error {
	queries := rangeQueries
	if c.system == systemBlob {
		queries = rangeQueriesBlob
	}
	from, to := make([]byte, 0, elementBytes), []byte("g") // behind all hexadecimal digits
	place, digits := scatter(n, e.cfg.Seed), prefixDigits(n)
	for _, kind := range []struct {
		part string
		ask  func(i int) query
	}{
		{"range", func(i int) query { // from an element on, so there is a first one
			from = e.names().append(from[:0], place(i))
			return query{from: from, to: to, limit: rangeElements}
		}},
		{"range/prefix", func(i int) query {
			from = e.names().append(from[:0], place(i))
			return query{prefix: bytes.Clone(from[:digits]), limit: rangeElements}
		}},
		{"range/first-100", func(int) query { return query{limit: rangeElements} }},
	} {
		err := e.measure(sys, Row{Workload: kind.part, Elements: n}, func(p *phase) error {
			missing := 0
			err := p.loop(queries, func(i int) error {
				found, err := s.first(kind.ask(i))
				if !found {
					missing++
				}
				return err
			})
			if err != nil {
				return err
			}
			return expect("queries without an answer", missing, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rangeGoals() (list []goal) {
	for _, part := range []string{"range", "range/prefix", "range/first-100"} {
		list = append(list, goal{what: "time to first element, of a raw seek", of: pick{workload: part, system: systemBigset},
			to: pick{workload: part, system: systemPebble}, have: latency, atMost: true, limit: 2,
			why: "all is in memory in a small run, and what a read costs by itself shows (1.5 at 10 million)"})
	}
	return list
}
