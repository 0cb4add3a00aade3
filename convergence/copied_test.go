package convergence_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bigset/convergence"
)

// TestCopied copies the package into an empty module, and changes its paths as docs/convergence.md says. It must build there: it
// imports nothing of this module.
func TestCopied(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs the go command")
	}
	dir := t.TempDir()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		to := filepath.Join(dir, "convergence", path)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, bytes.ReplaceAll(text, []byte(`"bigset/convergence`), []byte(`"example.com/mine/convergence`)), 0o666)
	})
	if err != nil {
		t.Fatal(err)
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
