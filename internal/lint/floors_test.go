package lint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "bigset"

// rule says what one package may import, and what only its tests may.
type rule struct{ own, outside, tests []string }

// floors is the content of docs/floors.txt.
type floors struct {
	rules map[string]rule
	never map[string][]string // by module, the packages that may not link it
}

// pkg is the part of `go list -json` that the checks read.
type pkg struct {
	ImportPath, Dir, Doc string
	Imports              []string
	Deps                 []string
	TestImports          []string
	XTestImports         []string
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func readFloors(t *testing.T) floors {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "floors.txt"))
	if err != nil {
		t.Fatal(err)
	}
	f := floors{rules: map[string]rule{}, never: map[string][]string{}}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		if module, is := strings.CutPrefix(name, "no "); is && ok {
			f.never[module] = names(rest)
			continue
		}
		parts := strings.Split(rest, "|")
		if !ok || len(parts) < 2 || len(parts) > 3 {
			t.Fatalf("docs/floors.txt:%d: want `package: own | outside | tests` or `no module: packages`, have %q", n+1, line)
		}
		r := rule{own: names(parts[0]), outside: names(parts[1])}
		if len(parts) == 3 {
			r.tests = names(parts[2])
		}
		f.rules[strings.TrimSpace(name)] = r
	}
	return f
}

func names(s string) []string {
	return slices.DeleteFunc(strings.Fields(s), func(f string) bool { return f == "-" })
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// short turns an import path of this module into its name in floors.txt; the root is ".".
func short(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// long is the import path of a name in floors.txt.
func long(name string) string { return path.Join(module, name) }

func TestFloors(t *testing.T) {
	rules := readFloors(t).rules
	for _, p := range listPackages(t) {
		name, _ := short(p.ImportPath)
		r, ok := rules[name]
		if !ok {
			t.Errorf("%s has no line in docs/floors.txt: say there which floor it is on", name)
			continue
		}
		for _, imp := range p.Imports {
			if problem := r.judge(imp); problem != "" {
				t.Errorf("%s imports %s: %s", name, imp, problem)
			}
		}
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			if own, is := short(imp); is && own != name && !r.mayTest(own, rules) && !strings.HasPrefix(own, name+"/") {
				t.Errorf("tests of %s import %s, which is above it", name, imp)
			}
		}
		for _, edge := range r.unused(&p) {
			t.Errorf("docs/floors.txt lets %s import %s, and it does not", name, edge)
		}
	}
}

// unused returns what a package or its tests may import but do not.
func (r rule) unused(p *pkg) (edges []string) {
	for _, own := range r.own {
		if !slices.Contains(p.Imports, long(own)) {
			edges = append(edges, own)
		}
	}
	for _, m := range r.outside {
		if links(p.Imports, m) == "" {
			edges = append(edges, m)
		}
	}
	for _, own := range r.tests {
		if !slices.Contains(append(p.TestImports, p.XTestImports...), long(own)) {
			edges = append(edges, own+" in tests")
		}
	}
	return edges
}

// judge returns what is wrong with importing path, or "".
func (r rule) judge(path string) string {
	if own, is := short(path); is {
		if slices.Contains(r.own, own) {
			return ""
		}
		return "not among its own imports in docs/floors.txt"
	}
	if !strings.Contains(strings.SplitN(path, "/", 2)[0], ".") {
		return "" // the standard library
	}
	for _, m := range r.outside {
		if path == m || strings.HasPrefix(path, m+"/") {
			return ""
		}
	}
	return "not among its outside imports in docs/floors.txt"
}

// mayTest reports whether tests of the package of rule r may import own: the test kit, what only tests may import, or what is
// reachable through the rules.
func (r rule) mayTest(own string, rules map[string]rule) bool {
	if own == "internal/testkit" || strings.HasPrefix(own, "internal/testkit/") {
		return true
	}
	return slices.Contains(r.tests, own) || r.reaches(own, rules)
}

// reaches reports whether own is reachable through the rules.
func (r rule) reaches(own string, rules map[string]rule) bool {
	return slices.ContainsFunc(r.own, func(next string) bool { return next == own || rules[next].reaches(own, rules) })
}

// TestNeverLinked: a package that must be usable without a module does not reach the module through others either.
func TestNeverLinked(t *testing.T) {
	all := listPackages(t)
	for banned, packages := range readFloors(t).never {
		for _, name := range packages {
			i := slices.IndexFunc(all, func(p pkg) bool { own, _ := short(p.ImportPath); return own == name })
			if i < 0 {
				t.Errorf("docs/floors.txt: there is no package %s", name)
			} else if dep := links(all[i].Deps, banned); dep != "" {
				t.Errorf("%s links %s", name, dep)
			}
		}
	}
	engine := slices.IndexFunc(all, func(p pkg) bool { return p.ImportPath == module+"/engine" })
	if links(all[engine].Deps, "github.com/cockroachdb/pebble/v2") == "" {
		t.Error("the engine links no Pebble: this test does not see what is linked")
	}
}

// links returns the first of some packages that belongs to a module, or "".
func links(deps []string, module string) string {
	for _, d := range deps {
		if d == module || strings.HasPrefix(d, module+"/") {
			return d
		}
	}
	return ""
}

// TestFloorsPointDown has no cycle: a package never reaches itself.
func TestFloorsPointDown(t *testing.T) {
	rules := readFloors(t).rules
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("docs/floors.txt has a cycle: %v", append(path, name))
		}
		for _, next := range rules[name].own {
			visit(next, append(slices.Clone(path), name))
		}
	}
	for name := range rules {
		visit(name, nil)
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// TestJudge breaks the rules on purpose: a guard that passes everything guards nothing.
func TestJudge(t *testing.T) {
	r := rule{own: []string{"clock"}, outside: []string{"github.com/google/btree"}}
	for path, ok := range map[string]bool{
		"fmt": true, "bigset/clock": true, "github.com/google/btree": true,
		"bigset/engine": false, "github.com/google/btree2": false, "github.com/cockroachdb/pebble/v2": false,
	} {
		if got := r.judge(path) == ""; got != ok {
			t.Errorf("judge(%s): got %v, want %v", path, got, ok)
		}
	}
}

// TestUnused: an unused edge is found, for each way in which an edge may be allowed.
func TestUnused(t *testing.T) {
	r := rule{own: []string{".", "clock", "fold"}, outside: []string{"net", "github.com/google/btree", "golang.org/x/sys"}, tests: []string{"engine", "bench"}}
	p := pkg{
		Imports:     []string{"bigset", "bigset/clock", "bigset/clocks", "net", "golang.org/x/sys/unix"},
		TestImports: []string{"bigset/fold"}, XTestImports: []string{"bigset/engine"},
	}
	if got, want := r.unused(&p), []string{"fold", "github.com/google/btree", "bench in tests"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
