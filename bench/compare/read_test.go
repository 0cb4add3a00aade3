package compare

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// TestRead: a report is read with its rounds, in their order, and what is not known is skipped.
func TestRead(t *testing.T) {
	t.Parallel()
	r, err := Read(strings.NewReader(`{"machine":{"cores":2},"config":{"seed":7},"series":[[[]]],"results":[
		{"workload":"w","system":"bigset","record":"set","strategy":"s","elements":9,"stream_hash":"ab","p99_us":1,"new":{},
		 "rounds":[{"p99_us":2.5,"ops":3,"new_us":"x"},{"ops":0,"p99_us":null}]},
		{"workload":"w","system":"pebble"}],
		"unfinished":{"workload":"churn","rows":[{}],"histograms":["x"]}}`), "f.json")
	if err != nil {
		t.Fatal(err)
	}
	ops, p99 := 0, 4
	row := r.Rows[0]
	if r.Name != "f.json" || r.Unfinished != "churn" || string(r.Config["seed"]) != "7" || len(r.Rows) != 2 || row.Stream != "ab" ||
		row.Key != (Key{"w", "bigset", "set", "s", 9}) || len(row.Rounds) != 2 || len(r.Rows[1].Rounds) != 0 {
		t.Errorf("%+v", r)
	}
	if row.Rounds[0][p99] != (Value{2.5, true}) || row.Rounds[0][ops] != (Value{3, true}) || row.Rounds[1][p99].Is || row.Rounds[1][ops] != (Value{0, true}) {
		t.Errorf("%+v", row.Rounds)
	}
	if have := row.values(p99); len(have) != 1 || have[0] != 2.5 {
		t.Errorf("values %v", have)
	}
}

// bad are files that are no reports, with what is said of them.
var bad = map[string]string{
	"":                 "f.json is no benchmark report: it is not JSON from byte 0 on",
	"goos: linux":      "not JSON from byte 1 on",
	"[]":               "it is JSON, but an array in place of an object",
	"3":                "it is JSON, but a number in place of an object",
	"null":             `it has no "results"`,
	"{}":               `it has no "results"`,
	`{"results":null}`: `it has no "results"`,
	`{"results":{}}`:   "results is an object",
	`{"results":[]}x`:  "not JSON from byte 15 on",
	`{"results":[{}]}`: "row 1: it names no workload",
	`{"results":[{"workload":"a","elements":-1}]}`:                                          "elements is a number -1",
	`{"results":[{"workload":"a","elements":18446744073709551615}]}`:                        "the maximum is",
	`{"results":[{"workload":"a\u001b[2J"}]}`:                                               "can't be printed",
	`{"results":[{"workload":"a","system":"` + strings.Repeat("b", nameBytesMax+1) + `"}]}`: "system has 201 bytes, the maximum is 200",
	`{"results":[{"workload":"a"},{"workload":"b"},{"workload":"a"}]}`:                      "row 3: an earlier row has the same names",
	`{"results":[{"workload":"a","rounds":[{},{"p99_us":"1"}]}]}`:                           "row 1: round 2: p99_us is not a number",
	`{"results":[{"workload":"a","rounds":[{"p99_us":-1}]}]}`:                               "p99_us is -1, it must be 0 to 1e+300",
	`{"results":[{"workload":"a","rounds":[{"p99_us":1e301}]}]}`:                            "it must be 0 to",
	`{"results":[{"workload":"a","rounds":[{"p99_us":1e999}]}]}`:                            "p99_us is not a number",
	`{"results":[{"workload":"a","rounds":[` + strings.Repeat("{},", roundsMax) + `{}]}]}`:  "1001 rounds, the maximum is 1000",
	`{"results":[],"unfinished":{"workload":"\n"}}`:                                         "unfinished workload",
	`{"results":[` + strings.Repeat(`{"workload":"a"},`, rowsMax) + `{"workload":"a"}]}`:    "100001 rows, the maximum is 100000",
}

func TestReadBad(t *testing.T) {
	t.Parallel()
	for text, want := range bad {
		_, err := Read(strings.NewReader(text), "f.json")
		if !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.json is ") {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(iotest.ErrReader(io.ErrUnexpectedEOF), "f.json"); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrReport) {
		t.Errorf("a file that can't be read: %v", err)
	}
	if _, err := Read(io.MultiReader(strings.NewReader("["), endless{}), "f.json"); !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("a file without an end: %v", err)
	}
}

// endless is a file of blanks.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// FuzzRead: whatever a file holds, it is refused in a sentence, or compared with itself without a change, and printed.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"old.json", "new.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for text := range bad {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(`{"results":[{"workload":"a","rounds":[{"p99_us":1e300,"errors":0},{"p99_us":0,"errors":1e300},{"p99_us":1e-300},{"p99_us":1}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text), "f")
		if err != nil {
			if !errors.Is(err, ErrReport) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			return
		}
		c, err := Files(r, r, Options{})
		if err != nil {
			return
		}
		if called(c) || c.Summary.Rows != len(r.Rows) {
			t.Errorf("a report compared with itself: %+v", c.Summary)
		}
		half := &Report{Config: r.Machine, Machine: r.Config}
		for i, row := range r.Rows { // another comparison: rows with each other
			row.Rounds = r.Rows[len(r.Rows)-1-i].Rounds
			half.Rows = append(half.Rows, row)
		}
		if c, err = Files(r, half, Options{}); err != nil {
			return
		}
		var table, object bytes.Buffer
		if err := c.WriteTable(&table, true); err != nil {
			t.Error(err)
		}
		if err := c.WriteJSON(&object); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(table.String()) {
			if !printable(strings.TrimSuffix(line, "\n")) || len([]rune(line)) > tableColumns+1 {
				t.Errorf("line %q", line)
			}
		}
	})
}
