package lint

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// runLine matches a `go test` of .ci/full with its packages and its pattern. The patterns of fuzz targets follow from the targets.
	runLine = regexp.MustCompile(`(?m)^ *step .*\$gotest (\./[^"]*?) -run '([^']+)'`)
	// raceCase matches a case of .ci/race and what it prints.
	raceCase = regexp.MustCompile(`(?m)^(packages|tests|skip)\)\n +echo '?([^'\n]+)'?\n`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestPatternsMatch: each alternative of a pattern in .ci/full and .ci/race matches a test of the packages that it is for. A test that is
// renamed would otherwise leave its step without a word.
func TestPatternsMatch(t *testing.T) {
	steps := runLine.FindAllStringSubmatch(read(t, ".ci/full"), -1)
	for _, step := range steps {
		alternativesMatch(t, ".ci/full", strings.ReplaceAll(step[2], `\$`, `$`), testsOf(t, step[1]))
	}
	if n := strings.Count(read(t, ".ci/full"), `$gotest ./engine`); len(steps) < n {
		t.Errorf("%d steps of .ci/full were understood, and %d of package engine alone exist", len(steps), n)
	}

	race := map[string]string{}
	for _, m := range raceCase.FindAllStringSubmatch(read(t, ".ci/race"), -1) {
		race[m[1]] = m[2]
	}
	if len(race) != 3 {
		t.Fatalf(".ci/race prints %v, want packages, tests and skip", race)
	}
	tests := testsOf(t, race["packages"])
	alternativesMatch(t, ".ci/race tests", race["tests"], tests)
	alternativesMatch(t, ".ci/race skip", race["skip"], matching(t, race["tests"], tests))
}

// alternativesMatch checks that each alternative of a pattern matches one of the tests.
func alternativesMatch(t *testing.T, where, pattern string, tests []string) {
	t.Helper()
	for _, alternative := range strings.Split(pattern, "|") {
		if len(matching(t, alternative, tests)) == 0 {
			t.Errorf("%s: %s matches none of %d tests of its packages: was a test renamed?", where, alternative, len(tests))
		}
	}
}

// matching returns the tests whose names match a pattern of `go test -run`.
func matching(t *testing.T, pattern string, tests []string) (out []string) {
	t.Helper()
	p, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if p.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}

// testsOf returns the names of the tests in the packages of a `go test` command.
func testsOf(t *testing.T, packages string) (out []string) {
	t.Helper()
	for _, p := range strings.Fields(packages) {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(p), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("package %s has no tests", p)
		}
		for _, file := range files {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, rel(t, file)), -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}
