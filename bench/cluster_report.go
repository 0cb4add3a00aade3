package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"bigset/bench/run"
)

// ClusterReport is the result of RunCluster. The CPU time of a row is that of all processes together, including this one; in rows of
// filters it is that of the nodes.
type ClusterReport struct {
	Machine Machine       `json:"machine"`
	Config  ClusterConfig `json:"config"`
	Results []Row         `json:"results"`
	Arounds []Around      `json:"around_faults,omitempty"`
}

// WriteJSON writes the report as one JSON object.
func (r *ClusterReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// clusterHead and clusterCells are the columns of a table of rows.
var clusterHead = []string{"load", "system", "ops/s", "cpu µs", "p50 µs", "p99 µs", "MB/s", "MiB", "errors"}

func clusterCells(row *Row) []string {
	cells := []string{row.Workload, row.System, "", figure(row.CPUMicros), figure(row.P50), figure(row.P99), figure(row.MBPerSecond), "", ""}
	if row.OpsPerSecond > 0 {
		cells[2] = Thousands(uint64(row.OpsPerSecond + 0.5))
	}
	if row.RSSBytes != nil {
		cells[7] = number(float64(*row.RSSBytes) / (1 << 20))
	}
	if row.Errors != nil {
		cells[8] = fmt.Sprint(*row.Errors)
	}
	return cells
}

// WriteTable writes the report for people: a line for each load on each system, then the goals of the cluster and how it meets them.
func (r *ClusterReport) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s, %d cores, which all processes and the loader share. Medians of %d rounds of %v; percentiles over all of them.\n\n",
		r.Machine.CPU, r.Machine.Cores, r.Config.Rounds, r.Config.Span)
	lines := [][]string{clusterHead}
	for i := range r.Results {
		lines = append(lines, clusterCells(&r.Results[i]))
	}
	widths := columnWidths(lines)
	for _, line := range lines {
		writeLine(b, line, widths)
	}
	_, _ = fmt.Fprintln(b)
	for _, part := range r.parts() {
		for _, v := range judge(goals()[part], r.Results, "") {
			if v.State == run.NoFigure {
				_, _ = fmt.Fprintf(b, "  -> %s, %s: not measured\n", v.Of.Row, v.Means)
				continue
			}
			_, _ = fmt.Fprintf(b, "  -> %s %s, %s\n", v.Of.Row, v.Of.System, v)
		}
	}
	return b.Flush()
}
