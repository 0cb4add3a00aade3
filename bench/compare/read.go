package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

var (
	// ErrReport is returned for a file that is not a report of a benchmark.
	ErrReport = errors.New("no benchmark report")
	// ErrOptions is returned for invalid options of a comparison.
	ErrOptions = errors.New("bad comparison")
)

// The limits of a report. A run of all workloads has some hundred rows, a round some twenty figures.
const (
	reportBytesMax = 64 << 20
	rowsMax        = 100_000
	roundsMax      = 1000
	nameBytesMax   = 200
	elementsMax    = 1 << 53 // above this, JSON numbers skip integers
	valueMax       = 1e300   // so that sums and ratios stay finite
)

// Report is the result of a run, as far as it is compared.
type Report struct {
	Name       string // of its file
	Machine    map[string]json.RawMessage
	Config     map[string]json.RawMessage
	Rows       []Row
	Unfinished string // the workload that was running when the run ended; its rounds are not compared; "" means none
}

// Row is one load on one system.
type Row struct {
	Key
	Stream string      // a hash of the operations; "" if the report has none
	Rounds []([]Value) // for each round, the value of each figure in the order of FigureList
	Ended  []float64   // when the rounds were measured, in milliseconds since 1970; nil means unknown
}

// Key names a row.
type Key struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Record   string `json:"record,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	Elements uint64 `json:"elements"`
}

// Value is the value of a figure in a round. The zero Value means none.
type Value struct {
	V  float64 // finite and not negative
	Is bool
}

// Read reads a report as written by `bigset bench --json` and --out. name is the file's name, for errors. Unknown fields are skipped. An
// error is the reader's, or wraps ErrReport and says what is wrong.
func Read(r io.Reader, name string) (*Report, error) {
	text, err := io.ReadAll(io.LimitReader(r, reportBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("compare: read %s: %w", name, err)
	}
	if len(text) > reportBytesMax {
		return nil, fmt.Errorf("%s is %w: it has more than %d bytes", name, ErrReport, reportBytesMax)
	}
	report, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s is %w: %w", name, ErrReport, err)
	}
	report.Name = name
	return report, nil
}

// reportJSON is a report as it is written.
type reportJSON struct {
	Machine    map[string]json.RawMessage `json:"machine"`
	Config     map[string]json.RawMessage `json:"config"`
	Results    *[]rowJSON                 `json:"results"`
	Unfinished *struct {
		Workload string `json:"workload"`
	} `json:"unfinished"`
}

type rowJSON struct {
	Key
	Stream string                       `json:"stream_hash"`
	Rounds []map[string]json.RawMessage `json:"rounds"`
	Ended  []float64                    `json:"rounds_ended_ms"`
}

func decode(text []byte) (*Report, error) {
	var in reportJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, plainJSON(err)
	}
	switch {
	case in.Results == nil:
		return nil, errors.New(`it has no "results"`)
	case len(*in.Results) > rowsMax:
		return nil, fmt.Errorf("it has %d rows, the maximum is %d", len(*in.Results), rowsMax)
	}
	r := &Report{Machine: in.Machine, Config: in.Config}
	if in.Unfinished != nil {
		r.Unfinished = in.Unfinished.Workload
		if err := checkName("unfinished workload", r.Unfinished); err != nil {
			return nil, err
		}
	}
	seen := map[Key]bool{}
	for i, row := range *in.Results {
		out, err := row.decode()
		if err == nil && seen[out.Key] {
			err = errors.New("an earlier row has the same names")
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		seen[out.Key] = true
		r.Rows = append(r.Rows, out)
	}
	return r, nil
}

func (r *rowJSON) decode() (Row, error) {
	out := Row{Key: r.Key, Stream: r.Stream, Ended: r.Ended}
	for _, n := range []struct{ what, name string }{{"workload", r.Workload}, {"system", r.System}, {"record", r.Record},
		{"strategy", r.Strategy}, {"stream_hash", r.Stream}} {
		if err := checkName(n.what, n.name); err != nil {
			return out, err
		}
	}
	switch {
	case r.Workload == "":
		return out, errors.New("it names no workload")
	case r.Elements > elementsMax:
		return out, fmt.Errorf("%d elements, the maximum is %d", r.Elements, uint64(elementsMax))
	case len(r.Rounds) > roundsMax:
		return out, fmt.Errorf("%d rounds, the maximum is %d", len(r.Rounds), roundsMax)
	}
	for i, round := range r.Rounds {
		values, err := decodeRound(round)
		if err != nil {
			return out, fmt.Errorf("round %d: %w", i+1, err)
		}
		out.Rounds = append(out.Rounds, values)
	}
	return out, nil
}

func decodeRound(round map[string]json.RawMessage) ([]Value, error) {
	values := make([]Value, len(figures))
	for i, f := range figures {
		text, ok := round[f.Name]
		if !ok || bytes.Equal(text, []byte("null")) {
			continue
		}
		var v float64
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, fmt.Errorf("%s is not a number", f.Name)
		}
		if v < 0 || v > valueMax {
			return nil, fmt.Errorf("%s is %g, it must be 0 to %g", f.Name, v, valueMax)
		}
		values[i] = Value{v, true}
	}
	return values, nil
}

// checkName refuses names that would garble a terminal.
func checkName(what, name string) error {
	if len(name) > nameBytesMax {
		return fmt.Errorf("%s has %d bytes, the maximum is %d", what, len(name), nameBytesMax)
	}
	if !printable(name) {
		return fmt.Errorf("%s %q has characters that can't be printed", what, name)
	}
	return nil
}

// plainJSON says where JSON is wrong, without the names of Go types.
func plainJSON(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON from byte %d on", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is JSON, but %s in place of an object", article(kind.Value))
	case errors.As(err, &kind):
		return fmt.Errorf("%s is %s", kind.Field, article(kind.Value))
	}
	return err
}

func article(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}
