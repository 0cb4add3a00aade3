package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// columnsMin is the assumed least width of a terminal.
const columnsMin = 20

// Screen draws lines in place.
type Screen struct {
	Out  io.Writer
	Size func() (columns, rows int) // current size of the terminal

	drawn []int // columns of the lines on the terminal
}

// Width returns the largest width of a line: a terminal may wrap a line that fills it.
func (s *Screen) Width() int { return s.columns() - 1 }

func (s *Screen) columns() int {
	columns, _ := s.Size()
	return max(columnsMin, columns)
}

// Draw draws lines over the previous ones. Lines for which the terminal has no rows are left out. No line may be wider than Width, or
// contain control characters other than colours.
func (s *Screen) Draw(lines []string) {
	_, rows := s.Size()
	lines = lines[:min(len(lines), max(1, rows-1))]
	var b strings.Builder
	s.home(&b)
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
		s.drawn = append(s.drawn, Visible(l))
	}
	b.WriteString("\x1b[J")
	_, _ = io.WriteString(s.Out, b.String()) // if the terminal is gone, nobody looks
}

// Clear erases what was drawn.
func (s *Screen) Clear() {
	if len(s.drawn) == 0 {
		return
	}
	var b strings.Builder
	s.home(&b)
	_, _ = io.WriteString(s.Out, b.String()+"\x1b[J")
}

// home moves to the first line that was drawn. Lines that a narrower terminal has wrapped since take more rows.
func (s *Screen) home(b *strings.Builder) {
	up, columns := 0, s.columns()
	for _, n := range s.drawn {
		up += max(1, (n+columns-1)/columns)
	}
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	s.drawn = s.drawn[:0]
}

// Visible returns the width of a line without its colours.
func Visible(line string) int {
	n := 0
	for {
		before, after, coloured := strings.Cut(line, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !coloured {
			return n
		}
		_, line, _ = strings.Cut(after, "m")
	}
}

// Cut shortens a line without colours: at the end of a word if one ends in the second half, since a number that is cut is another number.
func Cut(line string, width int) string {
	if width <= 0 {
		return ""
	}
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	letters := []rune(line)
	end := width
	for at := end; at >= end/2; at-- {
		if letters[at] == ' ' {
			end = at
			break
		}
	}
	return strings.TrimRight(string(letters[:end]), " ,;")
}

// Pad pads a text without colours with spaces.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}
