package chart

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tidy returns a text that is valid in HTML and in XML: characters that no document may contain, and those that would change the direction
// of the text after them, become U+FFFD.
func tidy(s string) string {
	ok := true
	for _, r := range s {
		if r == utf8.RuneError || forbidden(r) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	return strings.Map(func(r rune) rune {
		if forbidden(r) {
			return utf8.RuneError
		}
		return r // an invalid byte arrives as utf8.RuneError
	}, s)
}

func forbidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF:
		return true
	}
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// Escape returns a text escaped for SVG and HTML, in elements and in quoted attributes.
func Escape(s string) string { return html.EscapeString(tidy(s)) }

// cut returns at most most characters of a text.
func cut(s string, most int) string {
	s = strings.TrimSpace(tidy(s))
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return strings.TrimSpace(string(r[:max(0, most-1)])) + "…"
}
