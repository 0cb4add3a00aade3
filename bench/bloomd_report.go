package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"bigset/bench/spec"
)

// BloomdReport is the result of RunBloomd. Its rows are requests; the CPU time is the server's.
type BloomdReport struct {
	Machine Machine      `json:"machine"`
	Config  BloomdConfig `json:"config"`
	Results []Row        `json:"results"`
	// Repeated is, for each server, how many loads were measured again after a wrong answer.
	Repeated map[string]int `json:"repeated,omitempty"`
}

// WriteJSON writes the report as one JSON object.
func (r *BloomdReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for people: a line for each load on each server, then the goals of a relative to b.
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
		if r.Config.B.Addr == "" {
			break
		}
		for _, v := range judge(r.goals(p), r.Results, "") {
			_, _ = fmt.Fprintf(b, "  -> %s %s\n", p.name(), v)
		}
	}
	return b.Flush()
}

func (r *BloomdReport) rowsOf(p bloomdPoint) (rows []*Row) {
	for _, system := range []string{systemA, systemB} {
		for i := range r.Results {
			if row := &r.Results[i]; row.Workload == p.name() && row.System == system {
				rows = append(rows, row)
			}
		}
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
	if b := rowOf(r.Results, p.name(), systemB, row.Elements); row.System == systemA && b != nil {
		v := besides(row, b)
		cells[9], cells[10] = number(v.Value), v.spread()
	}
	return cells
}

// goals are what a must reach relative to b, if b is a bloomd.
func (r *BloomdReport) goals(p bloomdPoint) []spec.Assertion {
	goal := func(figure, means string, atMost bool, limit float64) spec.Assertion {
		return spec.Assertion{Of: spec.Ref{Figure: figure, Row: p.name(), System: systemA}, To: spec.Ref{Figure: figure, Row: p.name(), System: systemB},
			Means: means, AtMost: atMost, Limit: limit}
	}
	atLeast := func(limit float64) spec.Assertion {
		return goal("ops_per_s", "throughput, of b's", false, limit)
	}
	cpu := func(limit float64) spec.Assertion {
		return goal("cpu_us_per_op", "CPU a key, of b's", true, limit)
	}
	switch {
	case r.Config.Workers > 1:
		if p.connections < 64 {
			return nil
		}
		return []spec.Assertion{atLeast(1)}
	case p.mode.keys > 1 && p.depth <= 16:
		return []spec.Assertion{atLeast(1), cpu(1)}
	case p.mode.keys > 1:
		return nil
	case p.depth >= 16:
		return []spec.Assertion{atLeast(1.5), cpu(0.7)}
	case p.depth == 1:
		return []spec.Assertion{atLeast(0.8), goal("p50_us", "p50, of b's", true, 1.3)}
	}
	return nil
}
