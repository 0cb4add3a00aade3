package parser

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset/bench/spec"
)

var rewrite = flag.Bool("rewrite", false, "write the messages of files in testdata/bad into them")

var strategies = Known{Strategies: []Strategy{
	{"default", []string{"merge"}}, {"rewriter", []string{"merge", "set"}}, {"point-deletes", []string{"set"}}, {"none", []string{"merge", "set"}},
}}

// Each file in testdata/bad begins with the messages that it is refused with, as comments.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, rest := "", string(text)
		for strings.HasPrefix(rest, "#! ") {
			line, after, _ := strings.Cut(rest, "\n")
			want, rest = want+line[3:]+"\n", after
		}
		_, err = Parse(filepath.Base(file), text, strategies)
		if err == nil {
			t.Errorf("%s is accepted", file)
			continue
		}
		if !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v is not an ErrFile", file, err)
		}
		if *rewrite {
			mark(t, file, rest)
		} else if got := err.Error() + "\n"; got != want {
			t.Errorf("%s:\ngot  %swant %s", file, got, want)
		}
	}
}

// mark writes a file again, with the messages at its top.
func mark(t *testing.T, file, rest string) {
	t.Helper()
	head := ""
	for range 2 { // lines move by as many as there are messages
		_, err := Parse(filepath.Base(file), []byte(head+rest), strategies)
		head = "#! " + strings.ReplaceAll(err.Error(), "\n", "\n#! ") + "\n"
	}
	if err := os.WriteFile(file, []byte(head+rest), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The file of the package comment, and what it means.
func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Parse("all.yaml", text, strategies)
	if err != nil {
		t.Fatal(err)
	}
	main, rising := w.Phases[1], w.Phases[3]
	write := main.Roles[0]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"seed", w.Seed, uint64(7)},
		{"second small size", w.Small[1], 10_000},
		{"strategy of the run", w.Strategies[0], ""},
		{"elements", w.Elements, spec.Elements{MinBytes: 8, MaxBytes: 64, Ascending: true}},
		{"sets", w.Sets, spec.Sets{Count: spec.Count{Absolute: 10}, Choose: spec.Distribution{Kind: spec.Zipfian, Theta: 0.9}}},
		{"sets of a role", w.Phases[2].Roles[0].Sets, spec.Distribution{Kind: spec.Sawtooth}},
		{"sets of other roles", write.Sets, spec.Distribution{}},
		{"cache", w.Store.CacheBytes, int64(4096)},
		{"memtable", w.Store.MemTableBytes, 64 << 20},
		{"option", w.Store.Pebble["lbase-max-bytes"], int64(64 << 20)},
		{"load", w.Phases[0].Ops, spec.Count{Of: 1}},
		{"rate", write.Rate, 1500.0},
		{"turns", write.Turns, true},
		{"context", write.Context, spec.None},
		{"mix", write.Mix[0], spec.Share{Kind: spec.Exchange, Weight: 3}},
		{"young", write.Choose, spec.Distribution{Kind: spec.Young, Share: 0.05, Choices: 0.9}},
		{"window", main.Roles[1].Choose.Window, spec.Count{Of: 0.1}},
		{"theta", w.Phases[4].Roles[0].Choose.Theta, 0.99},
		{"one client", w.Phases[4].Roles[0].Clients, 1},
		{"duration", rising.Duration, 10 * time.Second},
		{"full duration", rising.DurationFull, 90 * time.Second},
		{"end rate", rising.Roles[0].RateEnd, 1000.0},
		{"rows", strings.Join(w.Rows(), " "), "all all/write all/probe all/again all/rising all/timed all/taken all/received all/copied all/opened all/dropped all/settled all/emptied"},
		{"of", w.Assertions[1].Of, spec.Ref{Figure: "p99_us", Row: "all/write", System: spec.Bigset, Strategy: "rewriter"}},
		{"to", w.Assertions[1].To, spec.Ref{Figure: "p99_us", Row: "all/write", System: spec.Bigset}},
		{"at most", w.Assertions[1].AtMost, true},
		{"at least", w.Assertions[0].AtMost, false},
		{"limit in percents", w.Assertions[2].Limit, 0.5},
		{"replicas", w.Phases[6].Roles[0].Replicas, 3},
		{"reopen", w.Phases[8].Reopen, spec.StepKill},
		{"space back", w.Phases[9].SpaceBack, 0.05},
		{"limit in time", w.Assertions[4].Limit, 20_000.0},
		{"difference", w.Assertions[5].Minus, true},
		{"smallest", w.Assertions[5].To.Smallest, true},
		{"limit in bytes", w.Assertions[5].Limit, float64(16 << 20)},
		{"meaning", w.Assertions[0].Means, "ops(main) >= 1"},
		{"source", w.Source, string(text)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestSmallAndFull: a small run lasts as long as small runs do.
func TestSmallAndFull(t *testing.T) {
	const text = "name: both\nabout: more removes in a longer run\nsize: {small: 10k, full: %s}\nphases:\n  - {name: load, unmeasured: true, ops: 100%%, mix: {add: 1}}\n" +
		"  - {name: main, duration: {small: 2s, full: 10m}, rate: 1000, mix: {remove: 1}}\n"
	if _, err := Parse("both.yaml", fmt.Appendf(nil, text, "10M"), strategies); err != nil {
		t.Error(err)
	}
	if _, err := Parse("both.yaml", fmt.Appendf(nil, text, "100k"), strategies); err == nil || !strings.Contains(err.Error(), "removes about 600,000 elements and adds 0 at size 100,000") {
		t.Errorf("a full run that removes more than there is: %v", err)
	}
}

// A file of which one size can't be run is refused, whichever it is.
func TestSizes(t *testing.T) {
	const text = "name: x\nabout: y\nsize: SIZE\nphases:\n  - {name: load, ops: 500, mix: {add: 1}}\n  - {name: main, ops: 10%, mix: {remove: 1}}\n"
	for size, ok := range map[string]bool{"1k": true, "[1k, 5k]": true, "[1k, 6k]": false, "{small: 1k, full: 6k}": false, "{small: 6k, full: 7k}": false} {
		_, err := Parse("x.yaml", []byte(strings.ReplaceAll(text, "SIZE", size)), Known{})
		if (err == nil) != ok {
			t.Errorf("size %s: %v", size, err)
		}
	}
	if _, err := Parse("x.yaml", []byte(strings.Repeat("#", TextBytesMax+1)), Known{}); !errors.Is(err, ErrFile) {
		t.Errorf("a file that is too long: %v", err)
	}
}

// FuzzParse: no text makes the reader panic; what it refuses has a place in the text, and what it accepts has what a runner counts on.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml", "../workloads/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := Parse("x.yaml", text, strategies)
		if err != nil {
			var fe *FileError
			if !errors.As(err, &fe) || len(fe.Problems) == 0 || len(fe.Problems) > 20 {
				t.Fatalf("%#v", err)
			}
			for i, p := range fe.Problems {
				if p.Line < 1 || p.Column < 1 || p.What == "" || strings.Contains(p.What, "\n") {
					t.Fatalf("%+v", p)
				}
				if i > 0 && p.Line < fe.Problems[i-1].Line {
					t.Fatalf("%+v stands after %+v", p, fe.Problems[i-1])
				}
			}
			return
		}
		sound(t, w)
	})
}

// sound fails if a workload does not have what spec.go says that it has.
func sound(t *testing.T, w *spec.Workload) {
	t.Helper()
	ok := w.Name != "" && w.About != "" && len(w.Small) > 0 && len(w.Full) > 0 && len(w.Systems) > 0 && len(w.Strategies) > 0 &&
		len(w.Phases) > 0 && len(w.Rows()) > 0 && w.Elements.MinBytes >= 8 && w.Elements.MaxBytes >= w.Elements.MinBytes && w.Sets.Choose.Kind != ""
	for _, size := range append(append([]int{}, w.Small...), w.Full...) {
		ok = ok && size > 0 && w.Sets.Count.At(size) > 0
		for _, p := range w.Phases {
			ok = ok && (len(p.Roles) == 0) == (p.Ops == spec.Count{} && p.Duration == 0)
			for _, role := range p.Roles {
				ok = ok && role.Clients > 0 && len(role.Mix) > 0 && role.Batch.At(size) > 0 && role.Batch.At(size) <= batchMax && role.Choose.Kind != ""
				for _, s := range role.Mix {
					ok = ok && s.Weight > 0 && s.Kind != ""
				}
			}
		}
	}
	for _, a := range w.Assertions {
		ok = ok && spec.FigureName(a.Of.Figure) == a.Of.Figure && a.Of.Row != "" && a.Line > 0
	}
	if !ok {
		t.Fatalf("%+v", w)
	}
}
