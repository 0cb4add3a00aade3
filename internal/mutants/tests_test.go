package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsOf returns the names of the test functions of a package, a folder of the module.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

// unmatched returns the alternatives of a -run pattern that match no test.
func unmatched(pattern string, tests []string) (none []string, err error) {
	for alternative := range strings.SplitSeq(pattern, "|") {
		name, _, _ := strings.Cut(alternative, "/") // of the test; those of subtests follow
		fits, err := regexp.Compile(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(tests, fits.MatchString) {
			none = append(none, alternative)
		}
	}
	return none, nil
}

// TestNamedTestsExist: each alternative of a -run pattern matches a test of the packages that it is for, and each package has a
// test that matches.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{} // by package
	for _, m := range all {
		at := slices.Index(m.tests, "-run")
		if at+1 == len(m.tests) {
			t.Errorf("%s: -run has no pattern", m.name)
			continue
		}
		pattern := m.tests[at+1]
		var tests []string
		for _, dir := range m.tests[:at] {
			if !strings.HasPrefix(dir, ".") {
				continue
			}
			if known[dir] == nil {
				known[dir] = testsOf(t, filepath.Join(root, dir))
			}
			if fits, err := regexp.Compile(pattern); err != nil || !slices.ContainsFunc(known[dir], fits.MatchString) {
				t.Errorf("%s: no test of %s fits %q, %v", m.name, dir, pattern, err)
			}
			tests = append(tests, known[dir]...)
		}
		if none, err := unmatched(pattern, tests); err != nil || len(none) > 0 {
			t.Errorf("%s: no test fits %q, %v", m.name, none, err)
		}
	}
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"TestA": "", "TestA$|TestAB": "", "TestB|TestA": "TestB", "TestC/sub|TestA/sub": "TestC/sub", "AB|": "", "TestA|TestAC|TestB": "TestAC TestB",
	} {
		if none, err := unmatched(pattern, []string{"TestA", "TestAB"}); err != nil || strings.Join(none, " ") != want {
			t.Errorf("%q: %q, %v, want %q", pattern, none, err, want)
		}
	}
	if _, err := unmatched("Test(A|B", nil); err == nil {
		t.Error("a bad pattern")
	}
}
