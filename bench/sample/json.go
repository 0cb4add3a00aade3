package sample

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// In JSON, the numbers of a series are packed: 32-bit floats, each line as the exclusive-or differences of its values, the four bytes of
// each value in separate planes, compressed by DEFLATE, in base64. The lines are the seconds, then the values of each column and, if points
// stand for several ticks, the least and the greatest values. NaN is stored like any number. Equal series have equal JSON within one
// release of Go.
type packed struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	Marks   []Mark   `json:"marks,omitempty"`
	Skipped []Skip   `json:"skipped,omitempty"`
	Ticks   int      `json:"ticks"`
	Per     int      `json:"ticks_per_point"`
	Points  int      `json:"points"`
	Data    string   `json:"data"`
}

// The limits of a series from outside.
const (
	columnsMax = 10_000
	pointsMax  = 1_000_000
	packedMax  = 64 << 20 // bytes of all numbers
)

// MarshalJSON implements json.Marshaler.
func (s *Series) MarshalJSON() ([]byte, error) {
	p := packed{Name: s.Name, Columns: s.Columns, Marks: s.Marks, Skipped: s.Skipped, Ticks: s.ticks, Per: max(1, s.per), Points: len(s.at)}
	if p.Columns == nil {
		p.Columns = []Column{}
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	for _, l := range s.all() {
		if _, err := z.Write(planes(*l)); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	p.Data = base64.StdEncoding.EncodeToString(b.Bytes())
	return json.Marshal(p)
}

// all returns the lists of numbers of a series.
func (s *Series) all() []*[]float32 {
	all := []*[]float32{&s.at}
	for k := range s.lines {
		l := &s.lines[k]
		if all = append(all, &l.mean); s.per > 1 {
			all = append(all, &l.least, &l.greatest)
		}
	}
	return all
}

// planes returns the bytes of numbers, the highest bytes of all numbers first.
func planes(values []float32) []byte {
	out := make([]byte, 4*len(values))
	before := uint32(0)
	for i, v := range values {
		u := math.Float32bits(v)
		if !known(v) {
			u = math.Float32bits(float32(math.NaN()))
		}
		x := u ^ before
		before = u
		for k := range 4 {
			out[k*len(values)+i] = byte(x >> (24 - 8*k))
		}
	}
	return out
}

// unplanes inverts planes.
func unplanes(b []byte) []float32 {
	n := len(b) / 4
	values := make([]float32, n)
	before := uint32(0)
	for i := range values {
		before ^= binary.BigEndian.Uint32([]byte{b[i], b[n+i], b[2*n+i], b[3*n+i]})
		values[i] = math.Float32frombits(before)
	}
	return values
}

// errPacked is in the chain of errors about a series that can't be read.
var errPacked = errors.New("sample: the series is damaged")

// UnmarshalJSON implements json.Unmarshaler. Nothing may be added to a series that was read.
func (s *Series) UnmarshalJSON(b []byte) error {
	var p packed
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("%w: %w", errPacked, err)
	}
	perTick := 1
	if p.Per > 1 {
		perTick = 3
	}
	switch lists := 1 + perTick*len(p.Columns); {
	case p.Points < 0 || p.Points > pointsMax || len(p.Columns) > columnsMax || 4*lists*p.Points > packedMax:
		return fmt.Errorf("%w: it has %d points of %d columns, which is too many", errPacked, p.Points, len(p.Columns))
	case p.Per < 1 || p.Ticks < 0 || (p.Points == 0) != (p.Ticks == 0) || p.Points > 0 && (p.Points-1 > (p.Ticks-1)/p.Per || p.Points < (p.Ticks-1)/p.Per+1):
		return fmt.Errorf("%w: %d ticks, %d a point, are not %d points", errPacked, p.Ticks, p.Per, p.Points)
	}
	data, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil {
		return fmt.Errorf("%w: %w", errPacked, err)
	}
	out := Series{Name: p.Name, Columns: p.Columns, Marks: p.Marks, Skipped: p.Skipped, ticks: p.Ticks, per: p.Per, Bound: max(2, p.Points)}
	if p.Ticks > 0 {
		out.lines = make([]line, len(p.Columns))
	}
	z := flate.NewReader(bytes.NewReader(data))
	for _, l := range out.all() {
		b := make([]byte, 4*p.Points)
		if _, err := io.ReadFull(z, b); err != nil {
			return fmt.Errorf("%w: %w", errPacked, err)
		}
		*l = unplanes(b)
	}
	if n, err := z.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("%w: there are more numbers than %d points of %d columns", errPacked, p.Points, len(p.Columns))
	}
	if !slices.IsSorted(out.at) {
		return fmt.Errorf("%w: its times do not ascend", errPacked)
	}
	*s = out
	return nil
}
