package spec

import (
	"slices"
	"strings"
)

// Figure is a figure that an assertion may name.
type Figure struct {
	Name    string // as in the JSON of reports
	Derived bool   // not in reports, but computed from figures in reports
	About   string
}

var figures = []Figure{
	{"ops", false, "operations"},
	{"ops_per_s", false, "operations a second"},
	{"cpu_us_per_op", false, "CPU of the whole process for an operation, in microseconds"},
	{"p50_us", false, "latency that half of the calls do not pass, in microseconds"},
	{"p99_us", false, "the same of 99 of 100 calls"},
	{"p999_us", false, "the same of 999 of 1,000 calls"},
	{"bytes_written", false, "bytes written to the log and to tables"},
	{"bytes_wal", false, "bytes written to the log"},
	{"bytes_flush", false, "bytes that flushes wrote"},
	{"bytes_compact", false, "bytes that compactions wrote"},
	{"bytes_rewrite", false, "bytes that the rewriter wrote"},
	{"bytes_read", false, "bytes that compactions read"},
	{"bytes_on_disk", false, "bytes of tables in use, at the end"},
	{"bytes_peak", false, "most bytes of tables at a time"},
	{"bytes_live", false, "bytes of tables of a fresh load of what lives at the end"},
	{"bytes_moved", false, "bytes from replica to replica"},
	{"write_amp", false, "bytes written for each byte of the elements"},
	{"keys_live", false, "live dots"},
	{"keys_dead", false, "keys in tables beyond those"},
	{"heap_bytes", false, "bytes on the heap"},
	{"mb_per_s", false, "millions of bytes of keys and values a second"},
	{"kept", false, "speed beside that of the phase that beside names"},
	{"allocs_per_op", false, "objects on the heap for an operation"},
	{"share", false, "false positives, of the configured probability"},
	{"errors", false, "operations that failed"},
	{"rss_bytes", false, "bytes of the process in memory"},
	{"bytes_below_log", true, "bytes_written without bytes_wal"},
	{"garbage", true, "keys_dead of what the default strategy leaves: 4,096 or 0.3 of keys_live, whichever is more"},
	{"bytes_direct", true, "bytes_wal and bytes_flush: what writes cause by themselves"},
	{"seconds", true, "time that the phase took, of its operations and what belongs to it"},
	{"heap_each", true, "heap_bytes for each element of the size"},
	{"stalls", false, "times that writes waited for flushes or compactions"},
	{"late", false, "operations of clients with a rate that were due before the phase ended and had not begun"},
	{"keys_tabled", false, "element keys written to tables, counted at each write"},
}

// Figures returns the figures that an assertion may name. p50, p99, p999 and cpu are short for p50_us, p99_us, p999_us and cpu_us_per_op.
func Figures() []Figure { return slices.Clone(figures) }

// FigureName returns the name of a figure in reports, from its name or its short name, or "" if no such figure exists.
func FigureName(s string) string {
	for _, f := range figures {
		if s == f.Name || s == f.Short() {
			return f.Name
		}
	}
	return ""
}

// Short is the short name of the figure in assertions: its name without the unit.
func (f Figure) Short() string {
	if f.Name == "cpu_us_per_op" {
		return "cpu"
	}
	return strings.TrimSuffix(f.Name, "_us")
}

// Unit returns the unit of the judged value: "us", "B", or "" for none.
func (a *Assertion) Unit() string {
	f := a.Of.Figure
	switch {
	case a.To != (Ref{}) && !a.Minus:
		return ""
	case strings.HasSuffix(f, "_us"):
		return "us"
	case strings.HasPrefix(f, "bytes_") || strings.HasSuffix(f, "_bytes") || f == "heap_each":
		return "B"
	}
	return ""
}
