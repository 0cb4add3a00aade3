package bench

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rowInDocs = regexp.MustCompile("`([a-z0-9-]+)(/[a-z0-9./-]+)`")

// TestDocumentedRows: a row that the documentation names is one that its workload measures.
func TestDocumentedRows(t *testing.T) {
	seen := 0
	for _, file := range []string{"../docs/bench.md", "../docs/workloads.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cluster := false
		for n, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "## ") {
				cluster = line == "## A cluster on this machine"
			}
			if cluster { // bench cluster has rows of its own, as read/contexts
				continue
			}
			for _, m := range rowInDocs.FindAllStringSubmatch(line, -1) {
				w := workloadNamed(m[1])
				if w == nil { // a path
					continue
				}
				seen++
				if row := m[1] + m[2]; !slices.Contains(rowsOf(w), row) {
					t.Errorf("%s:%d: %s has no row %s: it has %s", file, n+1, w.Name, row, strings.Join(rowsOf(w), ", "))
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("%d rows found in the documentation", seen)
	}
}

// rowsOf returns the rows of a workload: of its file, or else those that tests and goals know.
func rowsOf(w *workload) (rows []string) {
	if w.file != nil {
		return w.file.Rows()
	}
	for _, want := range wants[w.Name] {
		row, _, _ := strings.Cut(want, " ")
		rows = append(rows, row)
	}
	for _, a := range w.assertions() {
		rows = append(rows, a.Of.Row, a.To.Row)
	}
	return slices.Compact(rows)
}
