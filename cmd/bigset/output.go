package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"bigset/bench"
)

// object prints a value as one line of JSON.
func (a *app) object(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// answer prints a value as one line of JSON, or the text for people.
func (a *app) answer(v any, format string, args ...any) error {
	if a.json {
		return a.object(v)
	}
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err
}

// line prints bytes on a line of their own, after a label.
func (a *app) line(label string, b []byte, n notation) error {
	if !n.base64 && bytes.IndexByte(b, '\n') >= 0 {
		return fmt.Errorf("%w: %q", errLineBreak, b)
	}
	_, _ = a.out.WriteString(label) // the buffer keeps an error until the last write
	if n.base64 {
		b = base64Encoding.AppendEncode(a.out.AvailableBuffer(), b)
	}
	_, _ = a.out.Write(b)
	return a.out.WriteByte('\n')
}

// note prints a message for the user on standard error, after all answers so far.
func (a *app) note(format string, args ...any) error {
	if err := a.out.Flush(); err != nil {
		return err
	}
	a.progress.clear()
	_, err := fmt.Fprintf(a.errs, format+"\n", args...)
	return err
}

// count returns a number with its noun.
func count(n uint64, noun string) string {
	return bench.Thousands(n) + " " + plural(n, noun)
}

// tally returns a number of elements for an answer, which scripts also read.
func tally(n uint64) string { return fmt.Sprintf("%d %s", n, plural(n, "element")) }

// size formats a number of bytes in a suitable unit.
func size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < len(sizeUnits) {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", f, sizeUnits[unit-1])
}

var sizeUnits = []string{"KiB", "MiB", "GiB", "TiB", "PiB"}

// plural returns a noun in the form for a number.
func plural(n uint64, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
