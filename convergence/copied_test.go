package convergence_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/testkit/tier"
)

// sources returns the files of the package and of those below it, without tests.
func sources(t *testing.T) (all map[string][]byte) {
	t.Helper()
	all = map[string][]byte{}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	return all
}

// TestImports: the package and those below it need only the standard library and each other.
func TestImports(t *testing.T) {
	for path, text := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			first, _, _ := strings.Cut(name, "/")
			if within, ok := strings.CutPrefix(name, "bigset/convergence"); !(ok && (within == "" || within[0] == '/')) && (first == "bigset" || strings.Contains(first, ".")) {
				t.Errorf("%s imports %s", path, name)
			}
		}
	}
}

// TestCopied copies the package into an empty module, and changes its paths as docs/convergence.md says. It must build there. Short
// runs and pushes leave that to TestImports: the same files are compiled in this module.
func TestCopied(t *testing.T) {
	t.Parallel()
	if !tier.Full() {
		t.Skip("it runs the go command")
	}
	dir := t.TempDir()
	for path, text := range sources(t) {
		to := filepath.Join(dir, "convergence", path)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, bytes.ReplaceAll(text, []byte(`"bigset/convergence`), []byte(`"example.com/mine/convergence`)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/mine\n\ngo 1.26\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAdapterLines: a public library is adapted by few lines: one with deltas by 60, one with a network of its own by 150.
func TestAdapterLines(t *testing.T) {
	for library, most := range map[string]int{"awset": 60, "go-ds-crdt": 150} {
		text, err := os.ReadFile(filepath.Join("testdata", "adapters", library, "adapter.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > most {
			t.Errorf("%s has %d lines, want at most %d", library, lines, most)
		}
	}
}

// TestDocShowsExample: the first failure in docs/convergence.md is what the example prints.
func TestDocShowsExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/convergence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, output, _ := strings.Cut(string(source), "// Output:\n\t// forgetful: ")
	output, _, ok := strings.Cut(output, "\n}")
	if text := strings.ReplaceAll(strings.ReplaceAll(output, "\n\t// ", "\n    "), "\n\t//\n", "\n\n"); !ok || !strings.Contains(string(doc), text) {
		t.Errorf("want\n%s", text)
	}
}

// TestDocHasKinds: the table in the document has all kinds of steps.
func TestDocHasKinds(t *testing.T) {
	doc, err := os.ReadFile("../docs/convergence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "## Reading and editing a script")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, kind := range convergence.Kinds() {
		if !strings.Contains(table, "`"+kind+" ") && !strings.Contains(table, "`"+kind+"`") {
			t.Errorf("%s is not there", kind)
		}
	}
}

// TestDocHasVerdicts: the table in the document has a line for each kind of violation.
func TestDocHasVerdicts(t *testing.T) {
	source, err := os.ReadFile("spec.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/convergence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, kinds, _ := strings.Cut(string(source), "// Kinds of violations.")
	kinds, _, _ = strings.Cut(kinds, "\n)")
	_, table, _ := strings.Cut(string(doc), "## What a verdict means")
	table, _, _ = strings.Cut(table, "\n## ")
	all := regexp.MustCompile(`= "([a-z-]+)"`).FindAllStringSubmatch(kinds, -1)
	if len(all) < 14 {
		t.Fatalf("kinds of violations %q", all)
	}
	for _, kind := range all {
		if !strings.Contains(table, "\n| `"+kind[1]+"` |") {
			t.Errorf("%s has no line", kind[1])
		}
	}
}
