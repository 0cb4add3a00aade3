package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unpackBloomd unpacks a data folder that a real bloomd has written: of the filters small (capacity 10001, prob 0.01), odd:%*é (10001,
// 0.0999999), lost (10001, 1e-7) and mem (in memory), each with the key zipzab, lost with a and b as well.
func unpackBloomd(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "bloomd", "data.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilterThere brings filters of a real bloomd in and out again: its very files come back, but for the probability that is in no text.
func TestFilterThere(t *testing.T) {
	dir, from, to := newDir(t), t.TempDir(), filepath.Join(t.TempDir(), "out")
	unpackBloomd(t, from)
	if r := call(t, "", "--dir", dir, "filter", "import-bloomd", from); r.code != exitOK {
		t.Fatalf("import: %+v", r)
	}
	if r := call(t, "", "--dir", dir, "filter", "export-bloomd", to); r.code != exitOK {
		t.Fatalf("export: %+v", r)
	}
	was, is := contents(t, from), contents(t, to)
	for path, want := range was {
		if got, ok := is[path]; !ok || !bytes.Equal(got, want) && !strings.HasPrefix(path, "bloomd.mem") {
			t.Errorf("%s has come back as %d bytes, was %d: %.300q", path, len(got), len(want), got)
		}
	}
	if len(is) != len(was) {
		t.Errorf("%d files, were %d", len(is), len(was))
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	all := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, path := range paths {
		b, e := os.ReadFile(path)
		err = errors.Join(err, e)
		name, e := filepath.Rel(dir, path)
		err = errors.Join(err, e)
		all[name] = b
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// TestFilterRunning: a folder of which a process has a file open is not read.
func TestFilterRunning(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("the system does not tell who has files open")
	}
	dir, from := newDir(t), t.TempDir()
	unpackBloomd(t, from)
	f, err := os.Open(filepath.Join(from, "bloomd.small", "data.000.mmap"))
	if err != nil {
		t.Fatal(err)
	}
	if r := call(t, "", "--dir", dir, "filter", "import-bloomd", from); r.code != exitError || !strings.Contains(r.errs, "running") {
		t.Errorf("%+v", r)
	}
	f.Close()
	if r := call(t, "", "--dir", dir, "filter", "import-bloomd", from, "--dry-run"); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a dry run made a store")
	}
}

// TestFilterModel compares commands on a folder with a map: the filter contains what was set, and with so few keys nothing else.
func TestFilterModel(t *testing.T) {
	dir := newDir(t)
	if r := call(t, "", "--dir", dir, "filter", "create", "f", "--prob", "1e-9"); r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	there := map[string]bool{}
	for range 6 {
		verb := []string{"set", "check"}[r.IntN(2)]
		var in, want strings.Builder
		none := true
		for range 1 + r.IntN(2500) {
			key := fmt.Sprintf("k %d", r.IntN(3000))
			yes := there[key]
			if verb == "set" {
				yes = !yes
				there[key] = true
			}
			none = none && yes
			fmt.Fprintln(&in, key)
			fmt.Fprintf(&want, "%s\t%s\n", yesOrNo(yes), key)
		}
		code := exitOK
		if verb == "check" && !none {
			code = exitAbsent
		}
		if got := call(t, in.String(), "--dir", dir, "filter", verb, "f"); got.code != code || got.out != want.String() {
			t.Fatalf("seed %d: %s: status %d, want %d; %d bytes of answers, want %d: %s", seed, verb, got.code, code, len(got.out), want.Len(), got.errs)
		}
	}
}

// TestFilterServer compares what the commands say to a server with what they should, and has it answer as a real bloomd does.
func TestFilterServer(t *testing.T) {
	const listed = "START\nf 0.000100 300046 100000 3\nfoo 0.010000 18486 10001 1\nEND\n"
	const info = "START\ncapacity 100000\nchecks 5\ncheck_hits 3\ncheck_misses 2\nin_memory 1\npage_ins 0\npage_outs 0\nprobability 0.000100\n" +
		"sets 5\nset_hits 3\nset_misses 2\nsize 3\nstorage 300046\nEND\n"
	const gone = "Filter does not exist\n"
	for _, c := range []struct {
		args, in string
		asked    []string
		answers  string
		out      string
		code     int
		errs     string
	}{
		{"create f", "", []string{"create f"}, "Done\n", "created \"f\"\n", exitOK, ""},
		{"create f --capacity 20000 --prob 1e-7 --in-memory", "", []string{"create f capacity=20000 prob=1e-07 in_memory=1"}, "Done\n", "created \"f\"\n", exitOK, ""},
		{"create f --json", "", []string{"create f"}, "Exists\n", "{\"filter\":\"f\",\"created\":false}\n", exitOK, ""},
		{"create f --capacity 5", "", []string{"create f capacity=5"}, "Client Error: Bad arguments\n", "", exitError, "above 10000"},
		{"create f --durability sync", "", nil, "", "", exitError, "--durability can't be sent to a server"},
		{"create a=b", "", []string{"create a=b"}, "Delete in progress\n", "", exitError, "Delete in progress"},
		{"list f", "", []string{"list f"}, listed, "  probability  capacity  size  storage  filter\n       0.0001   100,000     3  300,046  \"f\"\n         0.01    10,001     1   18,486  \"foo\"\n", exitOK, ""},
		{"set f a b", "", []string{"bulk f a b"}, "Yes No\n", "yes\ta\nno\tb\n", exitOK, ""},
		{"set f", "a b\n\n", []string{"set f a b", "bulk f  "}, "Yes\nNo\n", "yes\ta b\nno\t\n", exitOK, ""},
		{"check f --json", "a\nb\n", []string{"multi f a b"}, "Yes No\n", "{\"key\":\"a\",\"present\":true}\n{\"key\":\"b\",\"present\":false}\n", exitAbsent, ""},
		{"check f a", "", []string{"multi f a"}, gone, "", exitAbsent, "bigset filter list"},
		{"info f --json", "", []string{"info f"}, info, `{"filter":"f","probability":0.0001,"capacity":100000,"size":3,"storage":300046,"in_memory":true,` +
			`"check_hits":3,"check_misses":2,"set_hits":3,"set_misses":2,"page_ins":0,"page_outs":0}` + "\n", exitOK, ""},
		{"drop f g", "", []string{"drop f", "drop g"}, "Done\n" + gone, "dropped \"f\"\n", exitAbsent, `"g"`},
		{"close f", "", []string{"close f"}, "Done\n", "closed \"f\"\n", exitOK, ""},
		{"clear f", "", []string{"clear f"}, "Filter is not proxied. Close it first.\n", "", exitError, "bigset filter close"},
		{"flush", "", []string{"flush"}, "Done\n", "flushed all filters\n", exitOK, ""},
		{"flush f --json", "", []string{"flush f"}, "Done\n", "{\"filter\":\"f\",\"did\":\"flushed\"}\n", exitOK, ""},
		{"info f", "", []string{"info f"}, "Internal Error\n", "", exitError, "Internal Error"},
		{"import-bloomd x", "", nil, "", "", exitError, "--dir"},
		{"export-bloomd x", "", nil, "", "", exitError, "--dir"},
	} {
		addr, asked := serve(t, c.answers)
		r := call(t, c.in, slices.Concat([]string{"filter", "--addr", addr}, strings.Fields(c.args))...)
		if got := asked(); !slices.Equal(got, c.asked) {
			t.Errorf("%s: asked %q, want %q", c.args, got, c.asked)
		}
		if r.out != c.out || r.code != c.code || !strings.Contains(r.errs, c.errs) {
			t.Errorf("%s: %q, status %d, %q; want %q, status %d, %q", c.args, r.out, r.code, r.errs, c.out, c.code, c.errs)
		}
	}
	if r := call(t, "", "filter", "--addr", "127.0.0.1:1", "list"); r.code != exitError || !strings.Contains(r.errs, "whether the server runs") {
		t.Errorf("no server: %+v", r)
	}
}

// serve answers one connection, line for line, and returns what it was asked.
func serve(t *testing.T, answers string) (addr string, asked func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for in := bufio.NewScanner(c); in.Scan(); {
			if in.Text() == "" { // the question which protocol is spoken here
				if _, err := io.WriteString(c, "Client Error: Command not supported\n"); err != nil {
					return
				}
				continue
			}
			lines = append(lines, in.Text())
			line, rest, _ := strings.Cut(answers, "\n")
			if line == "START" {
				line, rest, _ = strings.Cut(answers, "\nEND\n")
				line += "\nEND"
			}
			answers = rest
			if _, err := io.WriteString(c, line+"\n"); err != nil {
				return
			}
		}
	}()
	return l.Addr().String(), func() []string {
		l.Close()
		<-done
		return lines
	}
}
