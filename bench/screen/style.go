package screen

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style says how texts look.
type Style struct {
	ASCII  bool // for terminals whose locale is not UTF-8
	Colour bool
}

// The colours, as terminals number them.
const (
	Red     = "31"
	Green   = "32"
	Yellow  = "33"
	Blue    = "34"
	Magenta = "35"
	Cyan    = "36"
)

// toASCII replaces characters that are not ASCII by similar ones.
var toASCII = strings.NewReplacer("·", "|", "µ", "u", "█", "#", "░", ".", "…", "...",
	"▁", "_", "▂", ".", "▃", "-", "▄", "=", "▅", "+", "▆", "*", "▇", "%")

// Plain returns a text without characters that the terminal can't show.
func (s Style) Plain(text string) string {
	if s.ASCII {
		return toASCII.Replace(text)
	}
	return text
}

// Safe returns a text from outside, such as a name or an error, in a form that is safe in a line. Characters that move the cursor, change
// colours, take no column or change the direction of writing become question marks, and so do those that an ASCII terminal can't show.
func (s Style) Safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.In(r, unicode.Mn, unicode.Me) || s.ASCII && r >= utf8.RuneSelf || wide(r) {
			return '?'
		}
		return r
	}, text)
}

// wide reports whether a character takes two columns of a terminal, roughly: Hangul, CJK, and most pictures.
func wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300
}

// Paint colours a text.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Bar returns a bar filled to a share of its width.
func (s Style) Bar(colour string, share float64, width int) string {
	if width <= 0 {
		return ""
	}
	full := 0
	if share > 0 { // any share above 0 is visible
		full = min(width, max(1, int(share*float64(width)+0.5)))
	}
	return s.Paint(colour, s.Plain(strings.Repeat("█", full))) + s.Plain(strings.Repeat("░", width-full))
}

// sparks are the heights of a sparkline.
var sparks = []rune("▁▂▃▄▅▆▇█")

// Spark returns the last values as a line of bars, whose heights are the values as shares of most. NaN values are gaps. A line shorter than
// width is padded on the left.
func (s Style) Spark(colour string, values []float64, most float64, width int) string {
	if width <= 0 {
		return ""
	}
	values = values[max(0, len(values)-width):]
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(values)))
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case most <= 0 || v <= 0:
			b.WriteRune(sparks[0])
		default:
			b.WriteRune(sparks[min(len(sparks)-1, 1+int(min(1, v/most)*float64(len(sparks)-1)-1e-9))])
		}
	}
	return s.Paint(colour, s.Plain(b.String()))
}
