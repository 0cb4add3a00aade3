package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchLinesMax is the largest number of lines of a package under bench, with its comments and without its tests: a developer who
// copies from it reads it in one sitting.
const benchLinesMax = 1500

// TestBenchPackagesAreSmall checks that limit for each package under bench. bench itself has the benchmarks of clusters and
// filters, which are older.
func TestBenchPackagesAreSmall(t *testing.T) {
	most := 0
	for _, p := range listPackages(t) {
		if name, _ := short(p.ImportPath); strings.HasPrefix(name, "bench/") {
			n := goLines(t, p.Dir)
			most = max(most, n)
			if n > benchLinesMax {
				t.Errorf("%s has %d lines, the maximum is %d: find the second noun in it", name, n, benchLinesMax)
			}
		}
	}
	if most < benchLinesMax/2 {
		t.Errorf("the largest package has %d lines: this test does not see what there is", most)
	}
}

// goLines returns the number of lines in the non-test Go files of a folder.
func goLines(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}
