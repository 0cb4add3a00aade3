package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ClusterReport is what RunCluster has measured. The CPU time of a row is that of all processes together, this one too; in rows of filters it is that of
// the nodes.
type ClusterReport struct {
	Machine Machine       `json:"machine"`
	Config  ClusterConfig `json:"config"`
	Results []Row         `json:"results"`
	Notes   []string      `json:"notes,omitempty"` // what could not be measured
}

// WriteJSON writes the report as one JSON object.
func (r *ClusterReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for people: a line for each load on each system, then what the cluster must reach and what it does.
func (r *ClusterReport) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s, %d cores, which all processes and the loader share. Medians of %d rounds of %v; percentiles over all of them.\n\n",
		r.Machine.CPU, r.Machine.Cores, r.Config.Rounds, r.Config.Span)
	lines := [][]string{{"load", "system", "ops/s", "cpu µs", "p50 µs", "p99 µs", "MB/s", "MiB", "errors"}}
	for i := range r.Results {
		row := &r.Results[i]
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
		lines = append(lines, cells)
	}
	widths := columnWidths(lines)
	for _, line := range lines {
		writeLine(b, line, widths)
	}
	_, _ = fmt.Fprintln(b)
	for _, note := range r.Notes {
		_, _ = fmt.Fprintf(b, "  -> %s\n", note)
	}
	for _, g := range clusterGoals() {
		if !slices.Contains(r.Config.Parts, g.part) {
			continue
		}
		vs := g.verdicts(r.Results, "")
		if len(vs) == 0 {
			_, _ = fmt.Fprintf(b, "  -> %s, %s: not measured\n", g.of.workload, g.what)
		}
		for _, v := range vs {
			_, _ = fmt.Fprintf(b, "  -> %s %s, %s\n", v.of.workload, v.of.system, v)
		}
	}
	return b.Flush()
}

// clusterGoal is a goal of one part.
type clusterGoal struct {
	goal
	part string
}

// clusterGoals are what a cluster must reach on one machine.
func clusterGoals() (list []clusterGoal) {
	at := func(workload, system string) pick { return pick{workload: workload, system: system} }
	add := func(part string, gs ...goal) {
		for _, g := range gs {
			list = append(list, clusterGoal{g, part})
		}
	}
	for _, system := range []string{systemCluster, systemTLS} {
		add("add",
			goal{what: "p50, of a local synced add's", of: at("add/1", system), to: at("add/1", systemLocal), have: latency, atMost: true, limit: 3},
			goal{what: "p50, of a node's alone", of: at("add/1", system), to: at("add/1", systemAlone), have: latency, plain: true},
			goal{what: "p50, of the floor's", of: at("add/1", system), to: at("add/1", systemFloor), have: latency, plain: true},
			goal{what: "rate, of the local one", of: at("add/64", system), to: at("add/64", systemLocal), have: speed, limit: 0.2},
			goal{what: "rate, of the floor's", of: at("add/64", system), to: at("add/64", systemFloor), have: speed, plain: true},
			goal{what: "rate, of a node's alone", of: at("add/64", system), to: at("add/64", systemAlone), have: speed, plain: true},
			goal{what: "CPU, of a node's alone", of: at("add/64", system), to: at("add/64", systemAlone), have: cpu, plain: true},
			goal{what: "CPU, of a local add's", of: at("add/64", system), to: at("add/64", systemLocal), have: cpu, atMost: true, limit: 5},
			goal{what: "CPU, of the floor's", of: at("add/64", system), to: at("add/64", systemFloor), have: cpu, plain: true})
	}
	read := at("read", systemCluster)
	add("read",
		goal{what: "speed, of a local read's", of: read, to: at("read", systemLocal), have: speed, limit: 0.3},
		goal{what: "speed, of the quorum read's in one process", of: read, to: at("read", systemReplica), have: speed, limit: 0.6},
		goal{what: "with a token for each element: speed, of a local read's", of: at("read/contexts", systemCluster), to: at("read", systemLocal), have: speed, plain: true})
	for i, p := range clusterPoints {
		g := goal{what: "requests/s, of the node's alone", of: at(p.name(), systemCluster), to: at(p.name(), systemAlone), have: speed, limit: 0.25}
		if i > 0 {
			g.what, g.have, g.atMost, g.limit = "CPU, of the node's alone", cpu, true, 4
		}
		if strings.HasPrefix(p.name(), "bloomd/bulk") {
			g.limit = 5
		}
		add("filters", g)
	}
	add("faults",
		goal{what: "errors", of: at("kill/after", systemCluster), have: failures, atMost: true},
		goal{what: "until the p99 is at most twice the former", of: at("kill/back", systemCluster), have: milliseconds, atMost: true, limit: 2000, unit: " ms"},
		goal{what: "rate, of the writes'", of: at("kill/replay", systemCluster), to: at("kill/writes", systemCluster), have: speed, limit: 3},
		goal{what: "until all hints were replayed", of: at("kill/caught-up", systemCluster), have: milliseconds, atMost: true, limit: 10_000, unit: " ms"},
		goal{what: "errors", of: at("stop/during", systemCluster), have: failures, atMost: true},
		goal{what: "p99", of: at("stop/during", systemCluster), have: tailMilliseconds, atMost: true, limit: 200, unit: " ms"})
	add("fill",
		goal{what: "speed, of a file's", of: at("fill", systemCluster), to: at("fill", systemDisk), have: megabytes, limit: 0.5},
		goal{what: "p99, of that before", of: at("fill/clients", systemCluster), to: at("fill/before", systemCluster), have: tail, atMost: true, limit: 3},
		goal{what: "errors", of: at("fill/clients", systemCluster), have: failures, atMost: true},
		goal{what: "speed, of the limit", of: at("fill/limited", systemCluster), to: at("fill/limited", systemLimit), have: megabytes, limit: 0.5},
		goal{what: "p99, of that before", of: at("fill/limited/clients", systemCluster), to: at("fill/limited/before", systemCluster), have: tail, atMost: true, limit: 3},
		goal{what: "errors", of: at("fill/limited/clients", systemCluster), have: failures, atMost: true})
	add("idle", goal{what: "more memory than a node alone", of: at("idle", systemCluster), to: at("idle", systemAlone), have: moreMiB, atMost: true, limit: 20, unit: " MiB"})
	return list
}

func failures(of, _ *Figures) (float64, bool) {
	if of.Errors == nil {
		return 0, false
	}
	return float64(*of.Errors), true
}

func tailMilliseconds(of, _ *Figures) (float64, bool) {
	if of.P99 == nil {
		return 0, false
	}
	return *of.P99 / 1000, true
}

func megabytes(of, to *Figures) (float64, bool) {
	if of.MBPerSecond == nil || to.MBPerSecond == nil {
		return 0, false
	}
	return ratio(*of.MBPerSecond, *to.MBPerSecond)
}

func moreMiB(of, to *Figures) (float64, bool) {
	if of.RSSBytes == nil || to.RSSBytes == nil {
		return 0, false
	}
	return (float64(*of.RSSBytes) - float64(*to.RSSBytes)) / (1 << 20), true
}
