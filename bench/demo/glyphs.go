package demo

import "strings"

// Style says how texts look.
type Style struct {
	ASCII  bool // for terminals whose locale is not UTF-8
	Colour bool
}

// The colours, as terminals number them.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// racerColours are the colours of the racers.
var racerColours = [2]string{cyan, yellow}

// toASCII has a plain letter for each that is not ASCII.
var toASCII = strings.NewReplacer("·", "|", "µ", "u", "█", "#", "░", ".", "…", "...")

// plain returns a text without what the terminal does not know.
func (s Style) plain(text string) string {
	if s.ASCII {
		return toASCII.Replace(text)
	}
	return text
}

func (s Style) paint(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// bar returns a bar that is full by a share of its width.
func (s Style) bar(colour string, share float64, width int) string {
	if width <= 0 {
		return ""
	}
	full := 0
	if share > 0 { // whatever there is shows
		full = min(width, max(1, int(share*float64(width)+0.5)))
	}
	return s.paint(colour, s.plain(strings.Repeat("█", full))) + s.plain(strings.Repeat("░", width-full))
}
