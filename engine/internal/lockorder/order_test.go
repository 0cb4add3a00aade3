package lockorder

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The engine's locks, channels and goroutines are named in this file. The tests here compare it with Order and with the code.
const document = "docs/architecture.md"

// module is the folder of the module, from here; engine is the engine's folder, from there.
const (
	module = "../../.."
	engine = "engine"
)

// found is something in the engine's code: a field, or a statement.
type found struct {
	name string // Store.passes, or the text of what is started
	file string // engine/store.go
	rank string // StorePasses; empty for what is no lock of this package
}

// source is what the tests look for in the engine.
type source struct {
	locks, others, channels, starts []found
}

// readEngine finds the fields that are locks or channels, and the places where goroutines are started, in all packages of the
// engine but this one.
func readEngine(t *testing.T) (s source) {
	t.Helper()
	here := engine + "/internal/lockorder"
	err := fs.WalkDir(os.DirFS(module), engine, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == here {
			return cmp.Or(err, fs.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			err = s.add(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds what is in a file.
func (s *source) add(name string, text []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	textOf := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if of, ok := n.Type.(*ast.StructType); ok {
				for _, f := range of.Fields.List {
					for _, field := range f.Names {
						s.addField(found{name: n.Name.Name + "." + field.Name, file: name}, textOf(f.Type))
					}
				}
			}
		case *ast.ValueSpec:
			if n.Type != nil && lockType.MatchString(textOf(n.Type)) {
				s.others = append(s.others, found{name: n.Names[0].Name, file: name})
			}
		case *ast.GoStmt:
			s.starts = append(s.starts, found{name: textOf(n.Call.Fun), file: name})
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Go" || f.Sel.Name == "AfterFunc") {
				s.starts = append(s.starts, found{name: textOf(n), file: name})
			}
		}
		return true
	})
	return nil
}

var (
	rankedType = regexp.MustCompile(`lockorder\.(?:Mutex|RWMutex|Once|Turn)\[lockorder\.(\w+)\]`)
	lockType   = regexp.MustCompile(`\bsync\.(?:Mutex|RWMutex|Once|Locker)\b`)
	waitType   = regexp.MustCompile(`\bchan\b|\bsync\.(?:Cond|WaitGroup)\b`)
)

func (s *source) addField(f found, of string) {
	if m := rankedType.FindStringSubmatch(of); m != nil {
		f.rank = m[1]
		s.locks = append(s.locks, f)
	} else if lockType.MatchString(of) {
		s.others = append(s.others, f)
	} else if waitType.MatchString(of) {
		s.channels = append(s.channels, f)
	}
}

// row is a row of a table of the document: the text of its cells.
type row []string

// readTable returns the rows of the first table after a heading.
func readTable(t *testing.T, heading string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, document))
	if err != nil {
		t.Fatal(err)
	}
	_, text2, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", document, heading)
	}
	for line := range strings.Lines(text2) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 || strings.HasPrefix(line, "#") {
				break
			}
			continue
		}
		var r row
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			r = append(r, strings.TrimSpace(cell))
		}
		rows = append(rows, r)
	}
	if len(rows) < 3 {
		t.Fatalf("%s has no table behind %q", document, heading)
	}
	return rows[2:]
}

// TestOrderIsThatOfTheDocument: the table of locks has the locks of Order in their order, and the file of each.
func TestOrderIsThatOfTheDocument(t *testing.T) {
	files := map[string]string{}
	for _, l := range readEngine(t).locks {
		files[l.rank] = l.file
	}
	rows := readTable(t, "## Locks")
	for i := range max(len(rows), len(Order)) {
		if i >= len(rows) {
			t.Errorf("%s has no row of %s", document, Order[i].Name)
			continue
		}
		if i >= len(Order) {
			t.Errorf("%s has a row %q that is not in Order", document, rows[i][1])
			continue
		}
		want := row{strconv.Itoa(i + 1), "`" + Order[i].Name + "`", "`" + files[rankName(Order[i].Rank)] + "`"}
		if Order[i].Rank == (Pebble{}) {
			want = row{want[0], "Pebble's own", ""}
		}
		if have := rows[i][:3]; !slices.Equal(have, want) {
			t.Errorf("%s: row %q of the table of locks, want %q", document, have, want)
		}
	}
}

// TestTakenComesLater: the last cell of a row has the numbers of locks that are taken while the row's lock is held. They are later ones.
func TestTakenComesLater(t *testing.T) {
	for i, r := range readTable(t, "## Locks") {
		for _, cell := range strings.Fields(strings.NewReplacer(",", " ", "–", " ").Replace(r[5])) {
			n, err := strconv.Atoi(cell)
			if err != nil {
				t.Errorf("row %d: %q is no number of a lock", i+1, cell)
			}
			if several := n == i+1 && Order[i].Under != nil; n <= i+1 && !several || n > len(Order) {
				t.Errorf("row %d, %s, takes %d", i+1, r[1], n)
			}
		}
	}
}

func rankName(r Rank) string { return reflect.TypeOf(r).Name() }

// TestEveryLockHasItsPlace: each mutex of the engine is of this package, no two fields have one place, and each place has its field.
func TestEveryLockHasItsPlace(t *testing.T) {
	s := readEngine(t)
	for _, o := range s.others {
		t.Errorf("%s: %s is no lock of lockorder: give it a place in Order", o.file, o.name)
	}
	fields := map[string]found{}
	for _, l := range s.locks {
		if other, twice := fields[l.rank]; twice {
			t.Errorf("%s: %s has the place of %s", l.file, l.name, other.name)
		}
		fields[l.rank] = l
	}
	for _, o := range Order {
		f, used := fields[rankName(o.Rank)]
		if !used {
			t.Errorf("%s is in Order, and no field has its place", o.Name)
		} else if o.Rank != (Pebble{}) && f.name != o.Name {
			t.Errorf("%s: %s has the place of %s in Order", f.file, f.name, o.Name)
		}
		delete(fields, rankName(o.Rank))
	}
	for rank, f := range fields {
		t.Errorf("%s: %s has the place %s, which is not in Order", f.file, f.name, rank)
	}
}

// TestEveryWaitIsNamed: each channel, condition and wait group of the engine has a row in the document.
func TestEveryWaitIsNamed(t *testing.T) {
	var want, have []string
	for _, c := range readEngine(t).channels {
		want = append(want, fmt.Sprintf("`%s` `%s`", c.name, c.file))
	}
	for _, r := range readTable(t, "### Channels and conditions") {
		have = append(have, r[0]+" "+r[1])
	}
	compare(t, want, have)
}

// TestEveryGoroutineIsNamed: each place where the engine starts a goroutine or a timer that calls has a row in the document.
func TestEveryGoroutineIsNamed(t *testing.T) {
	var want, have []string
	for _, g := range readEngine(t).starts {
		want = append(want, "`"+g.file+"`")
	}
	for _, r := range readTable(t, "## Goroutines") {
		if strings.HasPrefix(r[1], "`"+engine+"/") { // other packages stand there too
			have = append(have, r[1])
		}
	}
	compare(t, want, have)
}

func compare(t *testing.T, code, doc []string) {
	t.Helper()
	slices.Sort(code)
	slices.Sort(doc)
	for _, c := range code {
		if i := slices.Index(doc, c); i >= 0 {
			doc = slices.Delete(doc, i, i+1)
		} else {
			t.Errorf("%s has no row of %s, which is in the code", document, c)
		}
	}
	for _, d := range doc {
		t.Errorf("%s has a row of %s, which is not in the code", document, d)
	}
}

// TestDrawingHasTheOrder: the locks that the drawing in engine/doc.go names come in their order, line by line.
func TestDrawingHasTheOrder(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(module, engine, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, drawing, _ := strings.Cut(string(text), "// Locks are taken in one order")
	drawing, _, ok := strings.Cut(drawing, "// The files, ")
	if !ok {
		t.Fatal("doc.go has no drawing of locks before its list of files")
	}
	place := map[string]int{}
	for i, l := range Order {
		place[l.Name] = i + 1
	}
	last, found := 0, 0
	for _, name := range regexp.MustCompile(`\w+\.\w+`).FindAllString(drawing, -1) {
		at := place[name]
		if at == 0 {
			continue
		}
		if found++; at <= last {
			t.Errorf("doc.go draws %s after %s", name, Order[last-1].Name)
		}
		last = at
	}
	if found < len(Order)/2 {
		t.Errorf("doc.go names %d of %d locks", found, len(Order))
	}
}
