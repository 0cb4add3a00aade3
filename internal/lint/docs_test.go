package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeProgram compares the program that README.md shows with the first example of package engine, which go test compiles and runs.
func TestReadmeProgram(t *testing.T) {
	readme := read(t, "README.md")
	_, program, ok := strings.Cut(readme, "```go\n")
	if !ok {
		t.Fatal("README.md shows no program")
	}
	program, _, _ = strings.Cut(program, "```")
	_, example, ok := strings.Cut(read(t, "engine/example_test.go"), "func Example() {\n")
	if !ok {
		t.Fatal("engine/example_test.go has no Example")
	}
	example, _, _ = strings.Cut(example, "\n}\n")
	lines := strings.Split(example, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "\t")
	}
	if !strings.Contains(strings.Join(lines, "\n")+"\n", program) {
		t.Errorf("README.md shows\n%s\nwhich is not in the first example of engine/example_test.go:\n%s", program, strings.Join(lines, "\n"))
	}
	if strings.Contains(program, "keyscheme") {
		t.Error("the program of README.md needs package keyscheme")
	}
}

var verdict = regexp.MustCompile(`(?m)^\t[A-Z]\w+ += "([a-z-]+)" +//`)

// TestVerdictsAreExplained checks that docs/convergence.md has a line for each kind of violation.
func TestVerdictsAreExplained(t *testing.T) {
	kinds := verdict.FindAllStringSubmatch(read(t, "convergence/spec.go"), -1)
	if len(kinds) < 14 {
		t.Errorf("%d kinds of violations in convergence/spec.go", len(kinds))
	}
	page := read(t, "docs/convergence.md")
	for _, k := range kinds {
		if !strings.Contains(page, "\n| `"+k[1]+"` |") {
			t.Errorf("docs/convergence.md has no line for the violation %s", k[1])
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	source  = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+\\.go)`")
	odd     = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// TestLinks follows every link between the documents: the file exists, and has the heading that the link names.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, file := range append(files, top...) {
		text := fenced.ReplaceAllString(read(t, rel(t, file)), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if name != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(name))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", rel(t, file), m[1], err)
				continue
			}
			if anchor != "" && !anchors(read(t, rel(t, target)))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", rel(t, file), m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// TestNamedFilesExist checks that the files exist which the documents name in backquotes by their paths from the module's root.
func TestNamedFilesExist(t *testing.T) {
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range append(names, "../../README.md", "../../CONTRIBUTING.md") {
		for _, m := range source.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, rel(t, file)), ""), -1) {
			named++
			if _, err := os.Stat(filepath.Join("../..", filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s names %s: %v", rel(t, file), m[1], err)
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d files are named", named)
	}
}

// anchors returns the names of the headings of a Markdown text, as links use them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(odd.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), ""), " ", "-")] = true
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func rel(t *testing.T, file string) string {
	t.Helper()
	name, err := filepath.Rel("../..", file)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(name)
}
