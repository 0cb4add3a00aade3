package screen_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"bigset/bench/screen"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	ascii, plain, colour := screen.Style{ASCII: true}, screen.Style{}, screen.Style{Colour: true}
	nan := math.NaN()
	for _, c := range []struct{ got, want string }{
		{screen.Bytes(0), "0 B"}, {screen.Bytes(999), "999 B"}, {screen.Bytes(1000), "1.0 KiB"}, {screen.Bytes(1 << 20), "1.0 MiB"},
		{screen.Bytes(363 << 20), "363 MiB"}, {screen.Bytes(1 << 60), "1048576 TiB"}, {screen.Bytes(nan), "-"},
		{screen.Micros(90.4), "90 µs"}, {screen.Micros(1500), "1.5 ms"}, {screen.Micros(20_000), "20 ms"}, {screen.Micros(12e6), "12 s"}, {screen.Micros(999_400), "999 ms"}, {screen.Micros(999_600), "1.0 s"}, {screen.Micros(8.64e6), "8.6 s"}, {screen.Micros(nan), "-"},
		{screen.Count(0), "0"}, {screen.Count(999.6), "1,000"}, {screen.Count(1234567), "1,234,567"}, {screen.Count(-123456), "-123,456"}, {screen.Count(nan), "-"},
		{ascii.Bar("", 0.5, 4), "##.."}, {plain.Bar("", 0.001, 4), "█░░░"}, {plain.Bar("", 7, 2), "██"}, {plain.Bar("", 0, 2), "░░"},
		{colour.Bar(screen.Cyan, 0.5, 2), "\x1b[36m█\x1b[0m░"}, {plain.Bar("", 1, 0), ""},
		{plain.Spark("", []float64{0, 1, 50, 99, 100, 200}, 100, 6), "▁▂▅███"}, {plain.Spark("", []float64{1, nan, 8}, 8, 5), "  ▂ █"},
		{plain.Spark("", []float64{1, 2, 3}, 0, 2), "▁▁"}, {ascii.Spark("", []float64{0, 4, 8}, 8, 3), "_+#"}, {plain.Spark("", nil, 1, 0), ""},
		{plain.Safe("a\x1b[31mb\n\tc\u202ed\x00é\xff漢"), "a?[31mb??c?d?é??"}, {ascii.Safe("né"), "n?"},
		{ascii.Plain("5 µs · █▁"), "5 us | #_"}, {screen.Cut("häuser", 3), "häu"}, {screen.Cut("a", -1), ""}, {screen.Cut("", -1), ""}, {screen.Cut("a", 0), ""},
		{screen.Cut("read 12,345", 9), "read"}, {screen.Cut("read 12,345 µs", 11), "read 12,345"}, {screen.Cut("a 12,345", 6), "a 12,3"},
		{screen.Cut("time 1.2, read 1.07", 12), "time 1.2"}, {screen.Cut("time 1.2", 8), "time 1.2"}, {screen.Pad("µ", 3), "µ  "},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestScreen: what is drawn has no more lines than the terminal has rows, and takes the place of what was drawn before, wrapped or not.
func TestScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	columns, rows := 40, 4
	s := screen.Screen{Out: &out, Size: func() (int, int) { return columns, rows }}
	want := func(text string) {
		t.Helper()
		if got := out.String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		out.Reset()
	}
	if s.Clear(); out.Len() > 0 || s.Width() != 39 {
		t.Errorf("%q is erased, %d wide", out.String(), s.Width())
	}
	s.Draw([]string{"a", "\x1b[31m" + strings.Repeat("b", 30) + "\x1b[0m", "c", "d"})
	want("\ra\x1b[K\n\x1b[31m" + strings.Repeat("b", 30) + "\x1b[0m\x1b[K\nc\x1b[K\n\x1b[J")
	columns = 20 // the second line is wrapped now
	s.Draw([]string{"x"})
	want("\x1b[4A\rx\x1b[K\n\x1b[J")
	columns = 1
	if s.Width() != 19 {
		t.Errorf("%d wide", s.Width())
	}
	s.Clear()
	want("\x1b[1A\r\x1b[J")
}
