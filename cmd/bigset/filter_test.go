package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
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
	"time"

	"bigset/client"
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
		{"create f", "", []string{"create f"}, "", "", exitUnknown, `bigset: it is unknown whether the creation of filter "f" was done: server `},
		{"set f a b", "", []string{"bulk f a b"}, "", "", exitUnknown, `whether the mark of 2 keys in filter "f" was done: server `},
		{"set f a b", "", []string{"bulk f a b"}, "Internal Error\n", "", exitUnknown, "Internal Error"},
		{"set f a b", "", []string{"bulk f a b"}, "Yes\n", "", exitUnknown, "1 words for 2 keys"},
		{"set f a b", "", []string{"bulk f a b"}, gone, "", exitAbsent, "bigset filter list"},
		{"set f", "a b\nc\n", []string{"set f a b", "set f c"}, "Yes\n" + gone, "", exitUnknown, "filter does not exist"}, // the first may have been marked
		{"set f --base64", "YSBi\nYQpi\n", nil, "", "", exitError, "must not have a line break"},
		{"drop f g", "", []string{"drop f", "drop g"}, "Done\n", "dropped \"f\"\n", exitUnknown, `what was asked of filter "g"`},
		{"close f", "", []string{"close f"}, "", "", exitUnknown, "receive: EOF\nhint: the same command again, without the filters that it has named as done, settles it; "},
		{"clear f", "", []string{"clear f"}, "", "", exitUnknown, "the same command again, without the filters"},
		{"flush f", "", []string{"flush f"}, "", "", exitUnknown, "the same command again, without the filters"},
		{"flush", "", []string{"flush"}, "", "", exitUnknown, "the flush of all filters"},
		{"check f a", "", []string{"multi f a"}, "", "", exitError, "receive: EOF\nhint: check --addr"},
		{"info f", "", []string{"info f"}, "", "", exitError, "receive: EOF\nhint: check --addr"},
		{"list", "", []string{"list "}, "", "", exitError, "receive: EOF\nhint: check --addr"},
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

// TestFilterFlags gives flags that contradict each other, or have no use: nothing is done.
func TestFilterFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"create f --tls certs", "--tls is for a running node: give its --addr too"},
		{"check f a --tls certs", "--tls is for a running node: give its --addr too"},
		{"export-bloomd x --tls certs", "--tls is for a running node: give its --addr too"},
		{"create f --addr 127.0.0.1:1 --dir D", "--dir is for a folder, and --addr asks a running node: give one of them"},
		{"set f a --addr 127.0.0.1:1 --dir D", "--dir is for a folder, and --addr asks a running node: give one of them"},
		{"drop f --addr 127.0.0.1:1 --strategy delete", "--strategy is for a folder"},
		{"flush --addr 127.0.0.1:1 --dir D", "--dir is for a folder"},
		{"create f --addr 127.0.0.1:1 --record set", "--record is for a folder"},
		{"list --addr=", "--addr is empty: give HOST:PORT of a running node"},
	} {
		dir := newDir(t)
		r := call(t, "", strings.Fields("filter "+strings.ReplaceAll(c.args, "D", dir))...)
		if r.code != exitError || r.out != "" || !strings.Contains(r.errs, "bigset: "+c.says) || !strings.Contains(r.errs, "hint: `bigset filter ") {
			t.Errorf("%s: %+v", c.args, r)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: it has made the folder", c.args)
		}
	}
}

// TestFilterInterrupted interrupts commands while a server has their request: the outcome of a change is unknown, a question was only interrupted.
func TestFilterInterrupted(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"drop f":    {exitUnknown, `whether what was asked of filter "f" was done: server `},
		"check f a": {exitError, "bigset: context canceled\nhint: it was interrupted"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			in := bufio.NewScanner(c)
			if in.Scan() { // the question which protocol is spoken here
				_, _ = io.WriteString(c, "Client Error: Command not supported\n")
			}
			in.Scan()
			cancel()
			in.Scan() // until the command has closed the connection
		}()
		r := callContext(ctx, "", slices.Concat([]string{"filter", "--addr", l.Addr().String()}, strings.Fields(args))...)
		if r.code != want.code || r.out != "" || !strings.Contains(r.errs, want.says) || !strings.Contains(r.errs, "context canceled\n") {
			t.Errorf("%s: %+v", args, r)
		}
		l.Close()
		<-ctx.Done()
	}
}

// serve answers one connection, line for line, and returns what it was asked. It closes the connection instead of an answer that it does not have.
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
			line, rest, ok := strings.Cut(answers, "\n")
			if !ok {
				return
			}
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

// TestFilterSilent: a server that accepts a connection and does not answer ends a command with a sentence: at once as a server that can't be
// reached, and after a change was sent as an outcome that is unknown.
func TestFilterSilent(t *testing.T) {
	t.Parallel()
	for _, answers := range []int{0, 1} {
		for most := 10 * time.Millisecond; ; most *= 2 { // on a busy machine it may be too short to connect, or to send
			err := dropAtSilent(t, answers, most)
			said := err != nil && strings.Contains(err.Error(), fmt.Sprintf("it answered nothing for %v,", most))
			if !said && err != nil && most < 10*time.Second {
				continue
			}
			if !said || errors.Is(err, client.ErrUnknown) != (answers > 0) || answers == 0 && !errors.Is(err, errServer) {
				t.Errorf("after %d answers: %v", answers, err)
			}
			break
		}
	}
}

// dropAtSilent drops a filter of a server that gives some answers and then none, and waits only so long for the one that does not come.
func dropAtSilent(t *testing.T, answers int, most time.Duration) error {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		r := bufio.NewReader(nc)
		for range answers {
			_, _ = r.ReadString('\n')
			_, _ = nc.Write([]byte("Client Error: Command not supported\n"))
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	fs := &filterCommand{app: &app{}, addr: ln.Addr().String(), answerTime: answerTimes{time.Minute, most}}
	if answers == 0 {
		fs.answerTime.begin = most
	}
	return fs.dial(t.Context(), func(r running) error { return r.drop(t.Context(), []byte("f")) })
}
