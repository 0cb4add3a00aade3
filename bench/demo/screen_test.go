package demo

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bigset/bench"
	"bigset/bench/screen"
)

// measured is a leg with figures.
func measured() bench.Leg {
	racer := func(i int, written, dead, tables uint64, back, p99 float64) bench.Racer {
		return bench.Racer{Name: bench.RacerNames[i], BytesWritten: written, KeysDead: dead, BytesTables: tables, SpaceBack: new(back), ReadP99: p99, Seconds: 2,
			Samples: []bench.RaceSample{{At: time.Second, BytesWritten: written, KeysDead: 2 * dead, BytesTables: tables, SpaceBack: back, ReadP99: math.NaN()}}}
	}
	return bench.Leg{Name: "settled", About: "a settled set", Elements: 10_000, Ops: 19_000, Stream: "0123456789ab", Phase: "removing", Done: 1, Of: 4,
		Racers: [2]bench.Racer{racer(0, 10<<20, 1000, 4<<20, 0.5, 90), racer(1, 100<<20, 0, 8<<20, 0.25, 1500)}}
}

func view(out *bytes.Buffer, columns, rows int, s screen.Style) *View {
	return &View{Screen: screen.Screen{Out: out, Size: func() (int, int) { return columns, rows }}, Style: s, Seed: 7}
}

// TestViewLines: bars side by side, which are as long as the figures say.
func TestViewLines(t *testing.T) {
	t.Parallel()
	l := measured()
	s := State{Elapsed: 3 * time.Second, Leg: &l}
	got := strings.Join(view(nil, 80, 24, screen.Style{}).lines(s, 79), "\n")
	want := `bigset demo · seed 7 · 3s
race, leg 1 of 3: a settled set
removing: 25 %

               set-tombstones                   point deletes
bytes written  ██░░░░░░░░░░░░░░░░░░ 10.0 MiB    ████████████████████ 100 MiB
dead keys      ██████████░░░░░░░░░░ 1,000       ░░░░░░░░░░░░░░░░░░░░ 0
space back     ██████████░░░░░░░░░░ 50 %        █████░░░░░░░░░░░░░░░ 25 %
read p99       █░░░░░░░░░░░░░░░░░░░ 90 µs       ████████████████████ 1.5 ms`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	l.Finished = true
	v := view(nil, 80, 24, screen.Style{})
	v.lines(s, 79)
	d := drilled(reportOf(1_000), 1_400)
	got = strings.Join(v.lines(State{Elapsed: time.Minute, Drill: d}, 79), "\n")
	for _, want := range []string{"schedules        1,000 of 1,400\n", "power cuts       12\n", "lost 0 · resurrected 0 · diverged 0 · counters reused 0\n", "settled, of point deletes': bytes written 0.10"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestViewFits: no line is wider than the terminal, whatever its width, colours or not, and there are no more than it has rows.
func TestViewFits(t *testing.T) {
	t.Parallel()
	l := measured()
	for _, s := range []State{{Leg: &l}, {Drill: drilled(reportOf(1_000_000), 1_400)}} {
		for columns := 20; columns < 200; columns++ {
			for _, style := range []screen.Style{{}, {ASCII: true}, {Colour: true}} {
				var out bytes.Buffer
				v := view(&out, columns, 9, style)
				v.Show(s)
				lines := strings.Split(strings.TrimSuffix(out.String(), "\x1b[J"), "\n")
				if len(lines) > 9 {
					t.Fatalf("%d lines at %d columns", len(lines), columns)
				}
				for _, line := range lines {
					line = strings.ReplaceAll(strings.ReplaceAll(line, "\x1b[K", ""), "\r", "")
					if screen.Visible(line) >= columns {
						t.Fatalf("%d columns: %q takes %d", columns, line, screen.Visible(line))
					}
					if style.ASCII && utf8.RuneCountInString(line) != len(line) {
						t.Fatalf("%q is not ASCII", line)
					}
					if !style.Colour && strings.Contains(line, "\x1b[") {
						t.Fatalf("%q has colours", line)
					}
				}
			}
		}
	}
}

// TestViewRedraws: a state takes the place of the one before it, also after the terminal became narrower, and Clear leaves nothing.
func TestViewRedraws(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	columns := 80
	v := view(&out, 0, 0, screen.Style{Colour: true})
	v.Size = func() (int, int) { return columns, 40 }
	l := measured()
	s := State{Leg: &l}
	v.Show(s)
	if first := out.String(); !strings.HasPrefix(first, "\r") || strings.Count(first, "\n") != 9 {
		t.Errorf("first: %q", first)
	}
	up := func(n int) string { return fmt.Sprintf("\x1b[%dA\r", n) }
	out.Reset()
	if v.Show(s); !strings.HasPrefix(out.String(), up(9)) {
		t.Errorf("second: %q", out.String())
	}
	out.Reset()
	columns = 40 // the five lines with figures are wrapped now, and that of names
	if v.Show(s); !strings.HasPrefix(out.String(), up(14)) {
		t.Errorf("narrower: %q", out.String())
	}
	out.Reset()
	if v.Clear(); out.String() != up(9)+"\x1b[J" {
		t.Errorf("clear: %q", out.String())
	}
	out.Reset()
	if v.Clear(); out.Len() > 0 {
		t.Errorf("clear again: %q", out.String())
	}
}

// TestLines: a line when something begins, and then one every few seconds.
func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Lines{Out: &out}
	l := measured()
	p.Show(State{Leg: &bench.Leg{Name: "settled"}}) // nothing has begun
	for i := range 10 {
		p.Show(State{Elapsed: time.Duration(i) * 500 * time.Millisecond, Leg: &l})
	}
	resting := l
	resting.Phase, resting.Of = "resting", 0
	p.Show(State{Elapsed: 4600 * time.Millisecond, Leg: &resting})
	p.Show(State{Elapsed: 4700 * time.Millisecond, Drill: drilled(reportOf(70), 1_400)})
	want := "   0.0s  settled: removing: 25 %; bytes written 10.0 MiB : 100 MiB; dead keys 1,000 : 0; space back 50 % : 25 %; read p99 90 µs : 1.5 ms\n"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 5 || !strings.Contains(got, "   4.6s  settled: resting; ") ||
		!strings.Contains(got, "   4.7s  drill: 70 of 1,400 schedules; ") || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s", got)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{(&Figure{}).ratio(), ""}, {(&Figure{SetTombstones: 1}).ratio(), "-"}, {(&Figure{Ratio: new(0.0641)}).ratio(), "0.064"},
		{(&Figure{Ratio: new(1.238)}).ratio(), "1.24"}, {(&Figure{Ratio: new(99.99)}).ratio(), "99.99"}, {(&Figure{Ratio: new(1234.5)}).ratio(), "1234"},
		{(&Figure{Ratio: new(0.0)}).ratio(), "0.00"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestChurnText: what is called near was measured to be.
func TestChurnText(t *testing.T) {
	t.Parallel()
	f := func(leg, name, unit string, ratio float64) Figure {
		return Figure{Leg: leg, Name: name, Unit: unit, Ratio: &ratio}
	}
	for _, c := range []struct {
		table []Figure
		want  string
	}{
		{nil, ""},
		{[]Figure{f("queue", "time", "s", 1)}, ""},
		{[]Figure{f("churn", "time", "s", 1.01), f("churn", "most dead keys", "keys", 9)}, "Under uniform churn the two are near: time 1.01."},
		{[]Figure{f("churn", "time", "s", 1.4), f("churn", "bytes written", "B", 0.5)}, "Under uniform churn the two are near in time 1.40; not in bytes written 0.50."},
		{[]Figure{f("churn", "time", "s", 1.6)}, "Uniform churn is where the two should be near; here they were not: time 1.60."},
	} {
		if got := churnText(c.table); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestPace: the note comes when a tenth of the first store has shown that the machine is slow, and stays.
func TestPace(t *testing.T) {
	t.Parallel()
	leg := func(phase string, done int64) *bench.Leg { return &bench.Leg{Phase: phase, Done: done, Of: 100} }
	loading := "loading the store for " + bench.RacerNames[0]
	quick, slow := &pace{scale: 1}, &pace{scale: 1}
	for done := int64(1); done < 100; done++ {
		if got := quick.note(leg(loading, done), time.Duration(done)*20*time.Millisecond); got != "" {
			t.Fatalf("%d %%: %q", done, got)
		}
	}
	if got := slow.note(leg(loading, 9), time.Minute) + slow.note(leg("settling", 50), time.Hour); got != "" {
		t.Errorf("too early, or in another phase: %q", got)
	}
	want := "this machine is slow or busy: about 6 minutes in all; `bigset demo --scale 0.2` takes a fifth"
	if got := slow.note(leg(loading, 10), time.Duration(0.1*loadShare*350*float64(time.Second))); got != want {
		t.Errorf("got %q", got)
	}
	if got := slow.note(leg("removing", 1), time.Second); got != want {
		t.Errorf("later: %q", got)
	}
	if got := (&pace{scale: 10}).note(leg(loading, 10), time.Duration(0.1*loadShare*350*float64(time.Second))); got != "" {
		t.Errorf("at scale 10: %q", got)
	}
	var lines, drawn bytes.Buffer
	p, v, l := &Lines{Out: &lines}, view(&drawn, 100, 24, screen.Style{}), measured()
	for i := range 3 {
		s := State{Elapsed: time.Duration(i) * 10 * time.Second, Leg: &l, Note: want}
		p.Show(s)
		v.Show(s)
	}
	if strings.Count(lines.String(), want) != 1 || strings.Count(drawn.String(), want) != 3 {
		t.Errorf("lines\n%s\ndrawn\n%s", &lines, &drawn)
	}
}
