package view

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bigset/bench/sample"
	"bigset/bench/screen"
)

// ticks are those of a run that gets slower, the last one with a slow source.
func ticks() (list []*sample.Tick) {
	columns := []sample.Column{
		{Name: "ops", Unit: "op", Growth: true}, {Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "p999", Unit: "us"},
		{Name: "max", Unit: "us"}, {Name: sample.LogBytes, Unit: "B", Growth: true}, {Name: sample.FlushBytes, Unit: "B", Growth: true},
		{Name: sample.CompactBytes, Unit: "B", Growth: true}, {Name: sample.RewriteBytes, Unit: "B", Growth: true},
		{Name: sample.SweepBytes, Unit: "B", Growth: true}, {Name: sample.KeysDead, Unit: "keys"}, {Name: sample.Level(0, "sublevels")},
		{Name: sample.Stalled, Unit: "s", Growth: true}, {Name: sample.CacheHit, Unit: "1"}, {Name: sample.WriteAmp, Unit: "1"},
		{Name: sample.MachineStolen, Unit: "cpu", Growth: true},
	}
	for i := range 30 {
		x := float64(i)
		t := &sample.Tick{Name: "bigset\x1b[31m/default", At: time.Duration(i) * time.Second, Columns: columns, Phase: "main", Done: x, Of: 60, Values: []float64{
			100_000 - 3000*x, 12, 100 + x, 900, 15_000, 10 << 20, 5 << 20, (x + 1) * (1 << 20), 0, 0, 1000 * x, float64(i % 7), x / 60, 0.9, 2 + x/10, 0,
		}}
		list = append(list, t)
	}
	last := list[len(list)-1]
	last.Values[1], last.Values[15] = math.NaN(), 0.25
	last.Skipped = []sample.Skip{{Source: "store", Ticks: 3}}
	return list
}

// TestLiveGolden: what a run looks like on terminals of several widths.
func TestLiveGolden(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range []struct {
		columns int
		style   screen.Style
	}{{100, screen.Style{}}, {60, screen.Style{ASCII: true}}, {30, screen.Style{}}} {
		v := &Live{Style: c.style}
		var lines []string
		for _, k := range ticks() {
			lines = v.lines(k, c.columns-1)
		}
		got.WriteString(strings.Join(lines, "\n") + "\n" + strings.Repeat("-", 20) + "\n")
	}
	var plain bytes.Buffer
	p := &Lines{Out: &plain, Every: 10 * time.Second}
	for _, k := range ticks() {
		p.Show(k)
	}
	next := *ticks()[29]
	next.Phase, next.Of, next.At = "rest", 0, 29500*time.Millisecond
	p.Show(&next)
	settling := *ticks()[29]
	settling.Step, settling.At = "main: settling", 31*time.Second
	p.Show(&settling)
	v := &Live{}
	v.lines(&settling, 60)
	settling.At = 43 * time.Second
	got.WriteString(strings.Join(v.lines(&settling, 60)[:2], "\n") + "\n" + strings.Repeat("-", 20) + "\n")
	got.Write(plain.Bytes())
	golden := filepath.Join("testdata", "live.txt")
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestLiveFits: no line is wider than the terminal, whatever its width, there are no more than rows, and nothing but colours and the
// drawing moves the cursor.
func TestLiveFits(t *testing.T) {
	t.Parallel()
	list := ticks()
	for columns := 20; columns < 150; columns++ {
		for _, style := range []screen.Style{{}, {ASCII: true}, {Colour: true}} {
			var out bytes.Buffer
			v := &Live{Screen: screen.Screen{Out: &out, Size: func() (int, int) { return columns, 12 }}, Style: style}
			for _, k := range list[27:] {
				out.Reset()
				v.Show(k)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\x1b[J"), "\n")
			if len(lines) > 12 {
				t.Fatalf("%d lines at %d columns", len(lines), columns)
			}
			for i, line := range lines {
				if i == 0 {
					line = line[strings.IndexByte(line, '\r')+1:]
				}
				line = strings.ReplaceAll(line, "\x1b[K", "")
				if screen.Visible(line) >= columns {
					t.Fatalf("%d columns: %q takes %d", columns, line, screen.Visible(line))
				}
				if style.ASCII && utf8.RuneCountInString(line) != len(line) || !style.Colour && strings.ContainsAny(line, "\x1b\r\t") {
					t.Fatalf("%q", line)
				}
			}
		}
	}
}

// BenchmarkDraw is what a tick costs to draw.
func BenchmarkDraw(b *testing.B) {
	v := &Live{Screen: screen.Screen{Out: io.Discard, Size: func() (int, int) { return 100, 40 }}, Style: screen.Style{Colour: true}}
	list := ticks()
	for i := 0; b.Loop(); i++ {
		v.Show(list[i%len(list)])
	}
}
