package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// BloomdReport is what RunBloomd has measured. Its rows are requests; the CPU time is the server's.
type BloomdReport struct {
	Machine Machine      `json:"machine"`
	Config  BloomdConfig `json:"config"`
	Results []Row        `json:"results"`
	// Repeated is how many loads were measured again after a wrong answer, for each server.
	Repeated map[string]int `json:"repeated,omitempty"`
}

// WriteJSON writes the report as one JSON object.
func (r *BloomdReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for people: a line for each load on each server, then what a must reach beside b.
func (r *BloomdReport) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s, %d cores, which servers and loader share. Medians of %d passes of %v; percentiles over all of them.\n",
		r.Machine.CPU, r.Machine.Cores, r.Config.Passes, r.Config.Span)
	_, _ = fmt.Fprintf(b, "Filters of %s keys at %g. a: %s", Thousands(uint64(r.Config.Keys)), r.Config.Probability, r.Config.A.Addr)
	if r.Config.B.Addr != "" {
		_, _ = fmt.Fprintf(b, ", b: %s", r.Config.B.Addr)
	}
	_, _ = fmt.Fprintf(b, "\n\n")
	lines := [][]string{{"load", "server", "conns", "depth", "requests/s", "keys/s", "p50 µs", "p99 µs", "cpu µs/key", "of b", "spread"}}
	for _, p := range r.Config.points() {
		for _, row := range r.rowsOf(p) {
			lines = append(lines, r.cells(p, row))
		}
	}
	widths := columnWidths(lines)
	for _, line := range lines {
		writeLine(b, line, widths)
	}
	_, _ = fmt.Fprintln(b)
	for _, system := range []string{systemA, systemB} {
		if n := r.Repeated[system]; n > 0 {
			_, _ = fmt.Fprintf(b, "  -> %s gave wrong answers: loads measured again: %d\n", system, n)
		}
	}
	for _, p := range r.Config.points() {
		for _, g := range r.goals(p) {
			for _, v := range g.verdicts(r.Results, "") {
				_, _ = fmt.Fprintf(b, "  -> %s %s\n", p.name(), v)
			}
		}
	}
	return b.Flush()
}

func (r *BloomdReport) rowsOf(p bloomdPoint) (rows []*Row) {
	for _, system := range []string{systemA, systemB} {
		rows = append(rows, pick{workload: p.name(), system: system}.rows(r.Results, "")...)
	}
	return rows
}

func (r *BloomdReport) cells(p bloomdPoint, row *Row) []string {
	keys := float64(p.mode.keys)
	cells := []string{p.mode.command, row.System, fmt.Sprint(p.connections), fmt.Sprint(p.depth), Thousands(uint64(row.OpsPerSecond + 0.5)),
		Thousands(uint64(row.OpsPerSecond*keys + 0.5)), figure(row.P50), figure(row.P99), "", "", ""}
	if row.CPUMicros != nil {
		cells[8] = number(*row.CPUMicros / keys)
	}
	g := r.goal(p, "", speed)
	if vs := g.verdicts(r.Results, ""); row.System == systemA && len(vs) > 0 {
		cells[9], cells[10] = number(vs[0].ratio), number(vs[0].low)+".."+number(vs[0].high)
	}
	return cells
}

// goal is about a figure of a beside that of b.
func (r *BloomdReport) goal(p bloomdPoint, what string, have func(of, to *Figures) (float64, bool)) goal {
	return goal{what: what, of: pick{workload: p.name(), system: systemA}, to: pick{workload: p.name(), system: systemB}, have: have}
}

// goals are what a must reach beside b, where b is a bloomd.
func (r *BloomdReport) goals(p bloomdPoint) []goal {
	atLeast := func(limit float64) goal {
		g := r.goal(p, "throughput, of b's", speed)
		g.limit = limit
		return g
	}
	atMost := func(what string, have func(of, to *Figures) (float64, bool), limit float64) goal {
		g := r.goal(p, what, have)
		g.atMost, g.limit = true, limit
		return g
	}
	const cpuOf = "CPU a key, of b's"
	switch {
	case r.Config.Workers > 1:
		if p.connections < 64 {
			return nil
		}
		return []goal{atLeast(1)}
	case p.mode.keys > 1 && p.depth <= 16:
		return []goal{atLeast(1), atMost(cpuOf, cpu, 1)}
	case p.mode.keys > 1:
		return nil
	case p.depth >= 16:
		return []goal{atLeast(1.5), atMost(cpuOf, cpu, 0.7)}
	case p.depth == 1:
		return []goal{atLeast(0.8), atMost("p50, of b's", latency, 1.3)}
	}
	return nil
}
